"""Cases: every variant is a scenario whose settings read as links have them; the first shows what was reported."""

import pytest

import kvlab
from kvlab.cases import CASES, Case, case
from kvlab.errors import UnknownNameError
from kvlab.setting_table import SETTINGS


@pytest.mark.parametrize("found", CASES, ids=lambda found: found.id)
def test_every_variant_is_a_scenario_in_the_texts_of_links(found: Case) -> None:
    names = [variant.name for variant in found.variants]
    assert len(set(names)) == len(names) >= 2
    for name in names:
        scenario = found.scenario(name)
        scenario.engine_config()
        settings = scenario.settings()
        for field, text in found.settings_of(name).items():
            assert SETTINGS[field].show(settings[field]) == text


def test_seven_users_stream_and_the_eighth_does_not() -> None:
    """vllm-ascend#5859: 107, 114, 440 and 423 ms at 6, 7, 8 and 12 users."""
    found = case("U05")
    tpot_ms = {}
    for name in ("6 users", "7 users", "8 users", "12 users", "8 users, 7 run", "8 users, whole prompts"):
        tpot_ns = kvlab.simulate(found.scenario(name)).metrics.p50_tpot_ns
        assert tpot_ns is not None
        tpot_ms[name] = tpot_ns // 1_000_000
    assert abs(tpot_ms["6 users"] - 107) <= 2
    assert abs(tpot_ms["7 users"] - 114) <= 2
    assert 400 <= tpot_ms["8 users"] == tpot_ms["12 users"] <= 480
    assert tpot_ms["8 users, 7 run"] == tpot_ms["8 users, whole prompts"] == tpot_ms["7 users"]


def test_the_sources_of_threads_are_links() -> None:
    assert case("U05").url == "https://github.com/vllm-project/vllm-ascend/issues/5859"
    assert case("U08").url is None


def test_what_there_is_not() -> None:
    with pytest.raises(UnknownNameError, match="U05"):
        case("U50")
    with pytest.raises(UnknownNameError, match="8 users"):
        case("U05").settings_of("9 users")

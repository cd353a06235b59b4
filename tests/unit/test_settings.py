"""One setting: reading, showing, bounds, choices."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlab.errors import ConfigError, KvlabError, UnknownNameError
from kvlab.scenarios import PRESETS, preset
from kvlab.setting_table import BLOCK_TABLE_LAB, PREEMPTION_LAB, RULES, SETTINGS, find_setting, settings_of
from kvlab.settings import DURATION, RATIO, SIZE, Setting, exact_bytes, exact_duration
from kvlab.units import parse_bytes, parse_duration_ns
from kvlab.workloads.traffic import Traffic

NUMBERS = [s for s in SETTINGS.values() if s.kind.parse.__name__ in ("parse_count", "parse_decimal", "parse_ratio")]
MEASURES = [s for s in SETTINGS.values() if s.kind in (DURATION, SIZE)]
HOSTILE = [
    "",
    " ",
    "abc",
    "nan",
    "inf",
    "-inf",
    "1e400",
    "-1e400",
    "0x10",
    "1;2",
    "4 8",
    "٣",
    "１２",
    "²",
    "--",
    "1,,e",
]


@pytest.mark.parametrize("preset_name", PRESETS)
def test_every_value_of_a_preset_shows_as_text_that_reads_back(preset_name: str) -> None:
    for name, value in preset(preset_name).settings().items():
        assert SETTINGS[name].parse(SETTINGS[name].show(value)) == value


@pytest.mark.parametrize("setting", NUMBERS + MEASURES, ids=lambda s: s.name)
@pytest.mark.parametrize("text", HOSTILE)
def test_text_that_is_no_number_is_refused_by_name(setting: Setting, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        setting.parse(text)
    assert caught.value.field == setting.name


@pytest.mark.parametrize("setting", NUMBERS + MEASURES, ids=lambda s: s.name)
def test_every_number_has_bounds_at_both_ends(setting: Setting) -> None:
    for text in ("-1", str(10**29)):
        with pytest.raises(ConfigError, match=setting.name):
            setting.parse(text)


@pytest.mark.parametrize("setting", settings_of(BLOCK_TABLE_LAB, "traffic"), ids=lambda s: s.name)
def test_traffic_itself_has_the_same_bounds(setting: Setting) -> None:
    for bound, step in ((setting.at_least, -1), (setting.at_most, 1)):
        if bound is not None:
            beyond = (
                Decimal(bound) + Decimal(step) / 10**9 if isinstance(setting.parse(bound), Decimal) else bound + step
            )
            with pytest.raises(ConfigError) as caught:
                Traffic(**{setting.name: beyond})
            assert caught.value.field == setting.name
            try:
                Traffic(**{setting.name: setting.parse(bound)})
            except ConfigError as error:  # such as users without a closed loop
                assert "must be from" not in error.remedy  # noqa: PT017


def test_a_share_that_is_meant_in_per_cent_is_told_how_to_say_it() -> None:
    for text, hint in (("92", r" \(92 % is 0.92\)"), ("1.5", r" \(1.5 % is 0.015\)"), ("101", "")):
        with pytest.raises(ConfigError, match=rf'= "{text}": must be at most 1{hint}\Z'):
            SETTINGS["gpu_memory_utilization"].parse(text)


@given(st.text(max_size=30))
def test_any_text_is_a_value_or_a_named_error(text: str) -> None:
    for setting in SETTINGS.values():
        try:
            value = setting.parse(text)
        except KvlabError as error:
            assert setting.name in str(error)  # noqa: PT017
        else:
            assert setting.parse(setting.show(value)) == value


@given(st.integers(0, 2**62))
def test_exact_texts_lose_nothing(number: int) -> None:
    assert parse_duration_ns(exact_duration(number), "t") == number
    assert parse_bytes(exact_bytes(number), "b") == number


def test_per_cent_and_ratio_are_the_same_exact_value() -> None:
    setting = SETTINGS["gpu_memory_utilization"]
    assert setting.kind is RATIO
    assert setting.parse("92 %") == setting.parse("0.92") == setting.parse(0.92) == Decimal("0.92")


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("swap_space_bytes", "4GiB", 4 * 2**30),
        ("base_ns", "25ms", 25_000_000),
        ("max_num_seqs", "1_000", 1000),
        ("max_num_seqs", 48, 48),
        ("trace", "none", None),
        ("num_requests", None, None),
        ("long_report_users", "on", True),
        ("long_report_users", "0", False),
        ("prompt_tokens", 512, "512"),
    ],
)
def test_values_in_their_usual_forms(name: str, text: object, value: object) -> None:
    assert SETTINGS[name].parse(text) == value


@pytest.mark.parametrize("given", [True, 1.5, [], {}])
def test_other_types_are_refused(given: object) -> None:
    with pytest.raises(ConfigError, match="max_num_seqs"):
        SETTINGS["max_num_seqs"].parse(given)


def test_a_missing_value_is_refused_where_it_must_be_there() -> None:
    with pytest.raises(ConfigError, match="needs a value"):
        SETTINGS["max_num_seqs"].parse(None)


def test_an_overlong_text_is_refused() -> None:
    with pytest.raises(ConfigError, match="4,096 characters"):
        SETTINGS["rate_events"].parse("x" * 5000)


def test_a_choice_that_is_not_known_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match='did you mean "swap"'):
        SETTINGS["preemption_mode"].parse("swp")


def test_settings_are_found_by_lab() -> None:
    assert find_setting("allocator", BLOCK_TABLE_LAB).name == "allocator"
    with pytest.raises(UnknownNameError, match='did you mean "max_num_seqs"'):
        find_setting("max_num_seq", PREEMPTION_LAB)
    with pytest.raises(ConfigError, match="a setting of the block-table-lab"):
        find_setting("allocator", PREEMPTION_LAB, "paged")


def test_every_setting_says_what_it_means_and_where_it_comes_from() -> None:
    for setting in SETTINGS.values():
        assert setting.help.endswith((".", '".'))
        assert setting.source
        assert setting.rules == tuple(rules for rules in RULES if rules in setting.rules), "in the order of the rules"
        assert set(setting.engines) <= {"vLLM", "SGLang", "TGI", "TensorRT-LLM"}


def test_no_two_settings_share_a_flag() -> None:
    flags = [flag for s in SETTINGS.values() for flag in (s.flag, *s.aliases)]
    assert len(flags) == len(set(flags))


def test_each_lab_has_its_server_settings_in_the_order_of_the_table() -> None:
    names = [setting.name for setting in settings_of(PREEMPTION_LAB, "server")]
    assert names[0] == "preemption_mode"
    assert "allocator" not in names
    assert "max_num_seqs" in names

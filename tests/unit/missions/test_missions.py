"""Missions as data: complete, readable, and made of what the labs have."""

from __future__ import annotations

import itertools
import json
import re

import pytest

from kvlab.errors import UnknownNameError
from kvlab.metrics.catalog import METRICS
from kvlab.missions import MISSIONS, Mission, mission, missions_for
from kvlab.prices import PRICES
from kvlab.setting_table import LABS, SETTINGS, settings_of

all_missions = pytest.mark.parametrize("each", MISSIONS.values(), ids=MISSIONS.keys())


@pytest.mark.parametrize("lab", LABS)
def test_at_least_six_in_each_lab(lab: str) -> None:
    found = missions_for(lab)
    assert len(found) >= 6
    assert all(one.rules == lab for one in found)


def test_ids_are_unique_and_fit_into_a_link() -> None:
    assert sum(len(missions_for(lab)) for lab in LABS) == len(MISSIONS)
    assert all(re.fullmatch(r"[a-z][a-z-]{3,40}", key) for key in MISSIONS)
    assert all(mission(key).id == key for key in MISSIONS)
    assert len({one.title for one in MISSIONS.values()}) == len(MISSIONS)


def test_unknown_names_get_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match='did you mean "slow-pcie"'):
        mission("slow-pci")
    with pytest.raises(UnknownNameError, match='did you mean "block-table-lab"'):
        missions_for("block-tables-lab")


@all_missions
def test_levers_are_settings_of_the_lab_with_a_price_and_stops_in_order(each: Mission) -> None:
    fields = {setting.name for setting in settings_of(each.rules)}
    setup = each.scenario().settings()
    assert set(each.setup) <= fields
    assert len(each.levers) >= 3
    for field, stops in each.levers.items():
        assert field in fields
        assert field in PRICES
        values = [SETTINGS[field].parse(stop) for stop in stops]
        assert setup[field] in values, f"{field}: the setup's own value is a stop"
        assert [SETTINGS[field].show(value) for value in values] == list(stops), f"{field}: as links hold it"
        assert len(set(values)) == len(values) >= 2
        if not any(isinstance(value, str) for value in values):
            assert values == sorted(values)  # type: ignore[type-var]


@all_missions
def test_decoys_are_levers_and_something_else_is_left(each: Mission) -> None:
    assert set(each.decoys) <= set(each.levers)
    assert each.decoys
    assert each.cheapest >= 1


@all_missions
def test_goals_are_limits_on_metrics_in_their_own_units(each: Mission) -> None:
    for goal in each.goals:
        unit = METRICS[goal.metric].unit
        assert goal.limit_value > 0
        assert goal.text.endswith(METRICS[goal.metric].format(goal.limit_value))
        better = METRICS[goal.metric].better
        assert better == ("lower" if goal.op == "<=" else "higher")
        assert unit != "ratio" or goal.limit_value <= 1


@all_missions
def test_texts_are_whole(each: Mission) -> None:
    sentences = re.findall(r"[.!?](?= [A-Z]|$)", each.story)
    assert len(sentences) == 2, f"a story of two sentences, not {len(sentences)}"
    assert len(each.story) <= 260
    assert len(each.title) <= 50
    assert not each.title.endswith(".")
    assert len(each.hints) == 3
    assert all(hint.endswith((".", "?")) for hint in each.hints)
    assert "vllm:" in each.why, "what to watch"
    assert "vLLM" in each.why
    assert len(each.why) <= 720
    assert each.vllm_flag
    for text in (each.story, each.why, each.question.text, *each.hints):
        assert "  " not in text


@all_missions
def test_guesses_cover_everything_once(each: Mission) -> None:
    question = each.question
    assert question.text.endswith("?")
    assert set(question.change) <= set(each.levers)
    bounds = sorted((guess.above or 0, guess.up_to or 10**9) for guess in question.guesses)
    assert bounds[0][0] == 0
    assert bounds[-1][1] == 10**9
    assert all(low[1] == high[0] for low, high in itertools.pairwise(bounds))
    assert 0 <= question.answer < len(question.guesses)


@all_missions
def test_a_card_is_plain_json_without_the_solution(each: Mission) -> None:
    card = each.card()
    assert json.loads(json.dumps(card)) == card
    assert set(card) == {
        "id", "title", "story", "setup", "levers", "stops", "goals", "prices", "hints", "why", "vllm_flag", "question",
    }  # fmt: skip
    assert card["levers"] == list(card["stops"]) == [price["field"] for price in card["prices"]]
    for goal in card["goals"]:
        assert set(goal) == {"metric", "op", "limit", "text"}


def test_limits_on_a_card_are_in_the_units_of_tiles() -> None:
    [ttft] = mission("idle-cache").card()["goals"]
    assert ttft == {"metric": "p95_ttft_ns", "op": "<=", "limit": 3.0, "text": "First token, p95: at most 3 s"}
    paused = mission("cap-concurrency").card()["goals"][0]
    assert paused == {"metric": "paused_ratio", "op": "<=", "limit": 0.005, "text": "Paused over 1 s: at most 0.5 %"}

"""The tables of the page: every control, tile, mission and term hangs together."""

from __future__ import annotations

import json
from typing import Any

import pytest

import kvlab
from kvlab.errors import ConfigError
from kvlab.missions import missions_for
from kvlab.setting_table import LABS as GAMES
from kvlab.setting_table import PAGE_RULES, SETTINGS
from kvlab.web.controls import CONTROLS
from kvlab.web.labs import tables

LABS: dict[str, Any] = tables()["labs"]
KNOBS = {f"{lab} {control['name']}": (lab, control) for lab in PAGE_RULES for control in LABS[lab]["controls"]}


def texts(control: dict[str, Any]) -> list[str]:
    return control["values"] if control["kind"] != "switch" else [control["off"], control["on"]]


def test_the_tables_are_strict_json() -> None:
    assert json.loads(json.dumps(tables(), allow_nan=False)) == tables()
    assert tables()["version"] == 1
    assert tuple(LABS) == PAGE_RULES
    assert all(len(lab["not_modelled"]) >= 5 for lab in LABS.values())


@pytest.mark.parametrize(("lab", "control"), KNOBS.values(), ids=KNOBS)
def test_a_control_moves_its_setting_to_every_stop(lab: str, control: dict[str, Any]) -> None:
    setting = SETTINGS[control["name"]]
    stops = texts(control)
    parsed = [setting.parse(text) for text in stops]
    assert [setting.show(value) for value in parsed] == stops, "a stop is written as links write it"
    assert len(set(parsed)) == len(parsed) > 1
    if control["kind"] == "range":
        assert parsed == sorted(parsed, key=lambda value: -1 if value is None else float(str(value)))
    assert control["default"] in stops or (control["default"] == "none" and control["unset"])
    assert control["default"] == LABS[lab]["defaults"][control["name"]]
    assert setting.parse(control["default"]) == kvlab.scenario(lab).settings()[control["name"]]
    for text in stops if control["kind"] != "select" else []:  # not every model fits into every GPU
        assert kvlab.scenario(lab, **beside(lab, control["name"]), **{control["name"]: text}).engine_config()
    if control["kind"] != "switch":
        assert len(control["labels"]) == len(stops)
        assert all(control["labels"])
    assert control["help"] == setting.help
    assert control["group"] in ("server", "traffic", "event")


def beside(lab: str, name: str) -> dict[str, str]:
    """Other settings without which this one would be refused, as it would do nothing."""
    needs = LABS[lab]["acts_only"].get(name, {})
    settings = kvlab.scenario(lab).settings()
    return {other: texts[0] for other, texts in needs.items() if SETTINGS[other].show(settings[other]) not in texts}


def test_what_acts_only_beside_others_is_refused_without_them() -> None:
    """The page's table and the scenario's own rules are the same."""
    for name, needs in LABS["vllm-v1"]["acts_only"].items():
        defaults = kvlab.scenario("vllm-v1").settings()
        for other, texts in needs.items():
            against = {"num_gpu_blocks_override": "5000", "kv_cache_memory_bytes": "8 GiB", "step_time": "auto",
                       "arrivals": "poisson" if "closed-loop" in texts else "closed-loop"}  # fmt: skip
            value = OTHER_VALUES[name]
            assert SETTINGS[name].parse(value) != defaults[name]
            closed = {"max_concurrency": "8"} if against["arrivals"] == "closed-loop" and other == "arrivals" else {}
            with pytest.raises(ConfigError, match=name):
                kvlab.scenario("vllm-v1", **{**closed, other: against[other], name: value})


OTHER_VALUES = {
    "gpu_memory_utilization": "0.8",
    "kv_cache_memory_bytes": "8 GiB",
    "base_ns": "1 ms",
    "per_seq_ns": "1 us",
    "per_prefill_token_ns": "1 us",
    "request_rate": "1",
    "burst": "2",
    "rate_events": "burst(1 s, 2 s, 2)",
    "max_concurrency": "9",
    "think_time_ns": "1 s",
}


def test_what_a_value_brings_makes_it_a_scenario() -> None:
    for control in LABS["vllm-v1"]["controls"]:
        for value, brings in control["brings"].items():
            assert kvlab.scenario("vllm-v1", **{**brings, control["name"]: value}).engine_config()


def test_examples_are_setups_of_their_tab() -> None:
    assert [LABS[lab]["examples"] for lab in GAMES] == [[], []]
    examples = LABS["vllm-v1"]["examples"]
    assert [example["id"] for example in examples] == ["U01", "U05", "U06", "U08", "U31", "U38"]
    for example in examples:
        assert example["source"]
        for variant in example["variants"]:
            assert kvlab.scenario("vllm-v1", **variant["setup"]).rules == "vllm-v1"


@pytest.mark.parametrize("lab", PAGE_RULES)
def test_tiles_are_explained_and_three_are_main(lab: str) -> None:
    tiles = LABS[lab]["tiles"]
    assert [tile["main"] for tile in tiles].count(True) == 3
    assert all(tile["name"] in tables()["glossary"] for tile in tiles)
    assert all(tile["better"] in ("lower", "higher", None) for tile in tiles)


def test_every_metric_and_setting_is_in_the_glossary() -> None:
    glossary = tables()["glossary"]
    assert {*kvlab.metrics.METRICS, *SETTINGS} <= {*glossary}
    for entry in glossary.values():
        assert set(entry) == {"label", "unit", "formula", "source", "engines"}
        assert entry["label"]
        assert entry["formula"]


@pytest.mark.parametrize("lab", GAMES)
def test_missions_can_be_played_with_the_controls(lab: str) -> None:
    controls = {control["name"]: texts(control) for control in LABS[lab]["controls"]}
    missions = missions_for(lab)
    assert [card["id"] for card in LABS[lab]["missions"]] == [mission.id for mission in missions]
    assert len(missions) >= 6
    for mission in missions:
        for field, text in mission.setup.items():
            assert text in controls.get(field, [text]), f"{mission.id} loads {field} = {text}"
        for field, stops in mission.levers.items():
            assert [stop for stop in stops if stop not in controls[field]] == [], f"{mission.id}: {field}"


def test_the_first_run_is_that_of_the_preset() -> None:
    for lab in PAGE_RULES:
        scenario = kvlab.scenario(lab, **LABS[lab]["defaults"])
        assert scenario.settings() == kvlab.scenario(lab).settings()


def test_stops_that_missions_add_are_in_their_place() -> None:
    by_name = {control.name: control for control in CONTROLS["preemption-lab"]}
    utilization = by_name["gpu_memory_utilization"].to_dict("0.9", ["0.905", "0.9"])
    place = utilization["values"].index("0.905")
    assert utilization["values"][place - 1 : place + 2] == ["0.9", "0.905", "0.91"]
    assert utilization["labels"][place - 1 : place + 2] == ["90", "90.5", "91"]
    swap = by_name["swap_space_bytes"].to_dict("4 GiB", ["256 MiB", "5 GiB"])
    assert swap["values"][:3] == ["0", "256 MiB", "512 MiB"]
    assert swap["labels"][:3] == ["0", "0.25", "0.5"]
    assert swap["labels"][swap["values"].index("5 GiB")] == "5"

"""A run as one frozen value."""

from __future__ import annotations

import gzip
import json
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlab.core.config import BlockTableLabConfig, PreemptionLabConfig, Slo
from kvlab.core.request import Request
from kvlab.errors import ConfigError, ScenarioError, TraceError, UnknownNameError
from kvlab.scenarios import ALIASES, PRESETS, Scenario, load, preset
from kvlab.setting_table import VLLM_V0, VLLM_V1, settings_of

LABS = Path(__file__).parents[1] / "golden" / "labs"
GIB = 2**30


def requests_of(scenario: Scenario) -> list[Request]:
    source, found = scenario.source(), []
    while source.next_arrival_ns() is not None:
        found.append(source.pop())
    return found


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_reads_back_and_holds_every_setting(name: str) -> None:
    scenario = preset(name)
    assert Scenario.from_json(scenario.to_json()) == scenario
    assert scenario.changes() == {}
    assert list(scenario.settings()) == [setting.name for setting in settings_of(scenario.rules)]
    assert preset(ALIASES_BACK[name]) == scenario


ALIASES_BACK = {full: short for short, full in ALIASES.items()}


CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "max_num_seqs": st.integers(1, 10_000),
        "block_size": st.integers(1, 256),
        "request_rate": st.decimals("0.001", "1000", places=3),
        "base_ns": st.integers(1, 10**9),
        "kv_bytes_per_token": st.sampled_from(["128 KiB", "0.5 MiB", 2**20]),
        "seed": st.integers(0, 2**53 - 1),
        "slo": st.sampled_from(["", "ttft<=2s", "gap<=150ms, e2e<=30s"]),
        "long_report_users": st.booleans(),
        "num_requests": st.none() | st.integers(1, 10**6),
        "output_tokens": st.sampled_from(["exponential(250)", "lognormal(p50=300, p95=1500, max=4000)", "128"]),
        "name": st.text(st.characters(categories=["L", "Nd"]), min_size=1, max_size=20),
    },
)


@given(CHANGES, st.sampled_from(sorted(ALIASES)))
def test_any_scenario_reads_back_from_its_json(changes: dict[str, Any], lab: str) -> None:
    if preset(lab).rules in (VLLM_V1, VLLM_V0):
        changes = {name: value for name, value in changes.items() if name != "kv_bytes_per_token"}
        changes["step_time"] = "linear"  # else base_ns would do nothing
    scenario = preset(lab).replace(**changes)
    assert Scenario.from_json(scenario.to_json()) == scenario
    assert preset(lab).replace(**scenario.changes(), name=scenario.name) == scenario


def test_replace_changes_one_setting_and_nothing_else() -> None:
    base = preset("preemption-lab")
    changed = base.replace(max_num_seqs="48", request_rate="4.5", slo="ttft<=2s")
    assert changed.changes() == {"max_num_seqs": 48, "request_rate": Decimal("4.5"), "slo": "ttft<=2s"}
    assert changed.slo == Slo(ttft_ns=2_000_000_000)
    assert base == preset("preemption-lab")


def test_decimals_stay_exact() -> None:
    scenario = preset("preemption-lab").replace(request_rate="0.1", gpu_memory_utilization="92.3 %")
    document = json.loads(scenario.to_json(), parse_float=Decimal)
    assert document["traffic"]["request_rate"] == Decimal("0.1")
    assert scenario.settings()["gpu_memory_utilization"] == Decimal("0.923")


@pytest.mark.parametrize(
    ("golden", "changes"),
    [
        ("preempt-recompute", {}),
        ("preempt-swap", {"preemption_mode": "swap"}),
        ("preempt-fp8", {"kv_cache_dtype": "fp8"}),
        ("preempt-swap-slow-pcie-longer", {"preemption_mode": "swap", "slow_pcie": "5"}),
        ("preempt-burst-headroom", {}),
    ],
)
def test_the_preset_gives_the_engine_what_the_goldens_were_made_with(golden: str, changes: dict[str, Any]) -> None:
    document = json.loads(gzip.decompress((LABS / f"{golden}.json.gz").read_bytes()))["scenario"]
    config = preset("preemption-lab").replace(**changes).engine_config()
    assert isinstance(config, PreemptionLabConfig)
    engine, cost = document["engine"], document["cost_ns"]
    for field in ("num_gpu_blocks", "num_cpu_blocks", "block_size", "prefill_budget_tokens"):
        assert getattr(config, field) == engine[field]
    for name, value in cost.items():
        assert getattr(config, f"{name}_ns") == value


def test_the_block_table_preset_matches_its_golden_but_for_the_memory() -> None:
    document = json.loads(gzip.decompress((LABS / "blocks-paged.json.gz").read_bytes()))["scenario"]
    config = preset("block-table-lab").replace(kv_memory_bytes="4 GiB").engine_config()
    assert isinstance(config, BlockTableLabConfig)
    for name, value in document["engine"].items():
        assert getattr(config, name) == value
    for name, value in document["cost_ns"].items():
        assert getattr(config, name if name.startswith("paging") else f"{name}_ns") == value


@pytest.mark.parametrize(
    ("utilization", "num_blocks"),
    # (u x 48 GiB - 15.5 GiB) / 8 MiB, floored: 0.9 -> 3545.6, 0.92 -> 3668.48, 1 -> 4160; just one block -> 1
    [("0.9", 3545), ("0.92", 3668), ("1", 4160), ("0.3231", 1), ("0.32307943", 1)],
)
def test_the_floor_to_whole_blocks_is_taken_on_exact_fractions(utilization: str, num_blocks: int) -> None:
    config = preset("preemption-lab").replace(gpu_memory_utilization=utilization).engine_config()
    assert isinstance(config, PreemptionLabConfig)
    assert config.num_gpu_blocks == num_blocks


@pytest.mark.parametrize(
    ("lab", "changes", "message"),
    [
        ("preemption-lab", {"gpu_memory_utilization": "0.3"}, "no room for one KV block.*Use at least 0.33"),
        ("preemption-lab", {"gpu_memory_bytes": "16 GiB"}, "utilization = .*Use at least 0.97"),
        ("preemption-lab", {"gpu_memory_bytes": "8 GiB"}, "gpu_memory_bytes = .*with more memory, at least 17645 MiB"),
        ("preemption-lab", {"weights_bytes": "60 GiB"}, "gpu_memory_bytes = .*or lower weights_bytes"),
        ("preemption-lab", {"block_size": 1, "kv_bytes_per_token": 64}, "swap_space_bytes.*more than 4,194,304"),
        ("preemption-lab", {"block_size": 1, "kv_bytes_per_token": 64, "swap_space_bytes": 0}, "gpu_memory_bytes"),
        ("block-table-lab", {"kv_memory_bytes": 100}, "not even one token"),
        ("block-table-lab", {"kv_memory_bytes": "1 MiB"}, "block_size = 16"),
        ("block-table-lab", {"kv_bytes_per_token": 1, "block_size": 1}, "more than 4,194,304"),
    ],
)
def test_a_server_that_can_hold_nothing_says_what_would_help(lab: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        preset(lab).replace(**changes).engine_config()


def test_fp8_needs_an_even_number_of_bytes() -> None:
    with pytest.raises(ConfigError, match="even"):
        preset("preemption-lab").replace(kv_cache_dtype="fp8", kv_bytes_per_token=3)


def test_settings_of_the_other_lab_and_unknown_ones_are_told_apart() -> None:
    with pytest.raises(UnknownNameError, match='did you mean "max_num_seqs"'):
        preset("preemption-lab").replace(max_num_seq=3)
    with pytest.raises(ConfigError, match="a setting of the block-table-lab"):
        preset("preemption-lab").replace(num_samples=4)
    with pytest.raises(ConfigError, match="can't be told apart"):
        preset("preemption-lab").diff(preset("block-table-lab"))


def test_the_preemption_lab_has_one_sample_per_request() -> None:
    base = preset("preemption-lab")
    traffic = preset("block-table-lab").replace(num_samples=2).traffic
    with pytest.raises(ConfigError, match="one sample per request"):
        Scenario(name="x", server=base.server, traffic=traffic)


@pytest.mark.parametrize("name", ["", "x" * 81, "a\x1b[31mb", "a\nb", 7])
def test_a_name_is_short_and_printable(name: object) -> None:
    with pytest.raises(ConfigError, match="name"):
        preset("preemption-lab").replace(name=name)


DOCUMENT = {"version": 1, "rules": "preemption-lab"}


def test_what_a_document_leaves_out_is_the_presets() -> None:
    scenario = Scenario.from_json('{"version": 1, "rules": "preemption-lab", "server": {"max_num_seqs": 48}}')
    assert scenario.changes() == {"max_num_seqs": 48}
    assert scenario.name == "preemption-lab"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON: .* line 1, column 1"),
        ('{"version": 1', "not JSON"),
        ("[]", "expected an object"),
        ("null", "expected an object"),
        ("[" * 100_000, "too long"),
        ('{"version": ' + "9" * 5000 + "}", "too long"),
        ('{"version": 1, "version": 1}', '"version" is given twice'),
        ('{"version": NaN}', "NaN is not a number"),
        ('{"version": Infinity}', "Infinity is not a number"),
        ('{"version": 2, "rules": "preemption-lab"}', "version 2; this kvlab reads 1"),
        ('{"rules": "preemption-lab"}', "version null"),
        ('{"version": true, "rules": "preemption-lab"}', "version true"),
        ('{"version": 1, "rules": "preemption-lab", "server": []}', "server must be an object"),
        ('{"version": 1, "rules": "preemption-lab", "traffic": {"max_num_seqs": 4}}', "belongs to server"),
        ('{"version": 1, "rules": "preemption-lab", "server": {"block_size": 16, "block_size": 16}}', "given twice"),
    ],
)
def test_a_document_that_is_no_scenario_is_refused(text: str, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        Scenario.from_json(text)


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"servr": {}}, 'did you mean "server"'),
        ({"rules": "preemption-labb"}, 'did you mean "preemption-lab"'),
        ({"rules": ["preemption-lab"]}, "unknown rules"),
        ({"server": {"max_num_seq": 4}}, 'did you mean "max_num_seqs"'),
        ({"server": {"preemption_mode": "swapp"}}, 'did you mean "swap"'),
    ],
)
def test_an_unknown_key_or_name_gets_the_nearest(extra: dict[str, Any], message: str) -> None:
    with pytest.raises(UnknownNameError, match=message):
        Scenario.from_json(json.dumps(DOCUMENT | extra))


@pytest.mark.parametrize("value", [0, -1, True, 1.5, "abc", None, [], "1e400", 10**30])
def test_a_value_that_cannot_work_names_its_field(value: object) -> None:
    with pytest.raises(ConfigError, match="max_num_seqs"):
        Scenario.from_json(json.dumps(DOCUMENT | {"server": {"max_num_seqs": value}}))


def test_files_are_loaded_and_bad_ones_explained(tmp_path: Path) -> None:
    good = tmp_path / "mine.json"
    good.write_text("\ufeff" + preset("block-table-lab").replace(seed=7).to_json(), encoding="utf-8")
    assert load(str(good)).changes() == {"seed": 7}
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "big.json").write_bytes(b" " * (2**20 + 1))
    for name, message in [
        ("binary.json", "not a text file"),
        ("big.json", "over 1,048,576 bytes"),
        ("missing.json", "No such file"),
        (".", "directory"),
    ]:
        with pytest.raises(ScenarioError, match=message):
            load(str(tmp_path / name))


@pytest.mark.parametrize("name", ["preemption-labb", "", " ", "labs"])
def test_a_name_that_is_neither_preset_nor_file_lists_the_presets(name: str) -> None:
    with pytest.raises(UnknownNameError, match="preemption-lab, block-table-lab"):
        load(name)


def test_max_tokens_caps_answers_and_moves_no_other_draw() -> None:
    base = preset("block-table-lab")
    full, capped = requests_of(base.replace(max_tokens=100_000)), requests_of(base.replace(max_tokens=300))
    assert max(r.output_tokens[0] for r in full) > 1024
    assert [(*r[:3], min(300, r.output_tokens[0])) for r in full] == [(*r[:3], r.output_tokens[0]) for r in capped]


def test_a_lower_cap_of_the_lengths_themselves_stays() -> None:
    scenario = preset("block-table-lab").replace(output_tokens="exponential(250, max=200)", max_tokens=1024)
    assert max(r.output_tokens[0] for r in requests_of(scenario)) == 200


def test_a_trace_row_over_max_tokens_is_an_error(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival_ns,prompt_tokens,output_tokens\n0,100,50\n10,100,2000\n")
    scenario = preset("block-table-lab").replace(trace=str(trace))
    with pytest.raises(TraceError, match="more than max_tokens = 1,024; raise max_tokens") as caught:
        requests_of(scenario)
    error = caught.value
    assert (error.path, error.line, error.field, error.value) == (str(trace), 3, "output_tokens", 2000)
    assert len(requests_of(scenario.replace(max_tokens=2000))) == 2


IDLE = {"request_rate": 5, "duration_ns": "10 s", "prompt_tokens": 512, "output_tokens": 128, "seed": 2}


@pytest.mark.parametrize("field", IDLE)
@pytest.mark.parametrize("lab", ["preemption-lab", "block-table-lab"])
def test_a_setting_that_a_trace_takes_the_place_of_is_refused(lab: str, field: str) -> None:
    traced = preset(lab).replace(trace="t.csv")
    message = f"{field} = .*the trace brings its own arrivals and lengths; use trace_until_ns"
    for make in (
        lambda: traced.replace(**{field: IDLE[field]}),
        lambda: preset(lab).replace(**{field: IDLE[field]}).replace(trace="t.csv"),
        lambda: Scenario.from_dict({"version": 1, "rules": lab, "traffic": {"trace": "t.csv", field: IDLE[field]}}),
    ):
        with pytest.raises(ConfigError, match=message):
            make()
    usual = getattr(preset(lab).traffic, field)
    assert traced.replace(**{field: usual}) == traced == Scenario.from_json(traced.to_json())


def test_what_a_trace_leaves_to_be_set_can_be_set() -> None:
    changes = {"long_report_users": True, "seed": 2, "longer_answers": 2, "num_requests": 5, "trace_speed": 2}
    traced = preset("preemption-lab").replace(trace="t.csv", **changes)
    assert set(traced.changes()) == {"trace", *changes}


@pytest.mark.parametrize(
    "arrivals",
    [{"arrivals": "closed-loop", "max_concurrency": 5}, {"arrivals": "all-at-once", "num_requests": 5}],
    ids=str,
)
def test_a_rate_that_nothing_follows_is_refused(arrivals: dict[str, Any]) -> None:
    scenario = preset("preemption-lab").replace(**arrivals)
    with pytest.raises(ConfigError, match=f'request_rate = "5": arrivals = {arrivals["arrivals"]} follow no rate'):
        scenario.replace(request_rate=5)


@pytest.mark.parametrize("name", ["preemption-lab-v2", "block-table-lab-v1", "block-table-lab", "block-table-lab-v09"])
def test_a_name_like_a_preset_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f'name = "{name}": presets of the preemption-lab are preemption-lab-v1;'):
        Scenario.from_json(json.dumps(DOCUMENT | {"name": name}))


def test_a_trace_is_found_from_here_and_beside_its_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, elsewhere = tmp_path / "mine", tmp_path / "elsewhere"
    for path in (folder, elsewhere):
        path.mkdir()
    file = folder / "s.json"
    file.write_text(json.dumps(DOCUMENT | {"traffic": {"trace": "t.csv"}}))
    monkeypatch.chdir(elsewhere)
    assert load("../mine/s.json").traffic.trace == "t.csv"
    (folder / "t.csv").touch()
    assert load("../mine/s.json").traffic.trace == os.path.join("..", "mine", "t.csv")
    (elsewhere / "t.csv").touch()
    assert load("../mine/s.json").traffic.trace == "t.csv"


def test_the_window_is_known_only_where_something_sets_it(tmp_path: Path) -> None:
    base = preset("preemption-lab")
    assert base.window_ns == 120_000_000_000
    assert base.replace(num_requests=10).window_ns is None
    traced = base.replace(trace=str(tmp_path / "t.csv"))
    assert traced.window_ns is None
    assert traced.replace(trace_from_ns="10 s", trace_until_ns="30 s", trace_speed=2).window_ns == 10_000_000_000

"""The payload's form, and that its numbers are those of the command line."""

from __future__ import annotations

import json
import shlex
from decimal import Decimal

import pytest
from tests.web.decode import decode
from tests.web.runs_of_labs import SETUPS, run_of, scenario_of

import kvlab
from kvlab.cli import execute
from kvlab.servers import VllmV1Server
from kvlab.vllm_print import vllm_flags
from kvlab.web.controls import TILES
from kvlab.web.payload import encode


@pytest.mark.parametrize("name", SETUPS)
def test_the_header_is_strict_json_and_says_what_comes(name: str) -> None:
    run, scenario = run_of(name), scenario_of(name)
    payload = decode(encode(run, scenario, {"a-mission": {"met": False}}))
    header = payload.header
    json.dumps(header, allow_nan=False)
    assert header["lab"] == scenario.rules
    assert header["end_s"] == run.record.totals.end_ns / 1e9
    assert header["window_s"] == 20
    assert header["missions"] == {"a-mission": {"met": False}}
    assert header["snapshot_times"] == len(payload.sections["snap_t"])
    assert header["contiguous"] == ("segments" in payload.sections) != ("runs" in payload.sections)
    assert ("cpu_runs" in payload.sections) == (scenario.rules == "preemption-lab")
    assert header["unit"] == ("token" if header["contiguous"] else "block")
    kept = 1 if scenario.rules == "vllm-v1" else 0  # block 0 is the engine's own
    assert (header["num_blocks"] - kept) * header["block_size"] == run.record.capacity_tokens
    assert (header["waterfall"] is not None) == (scenario.rules == "vllm-v1")
    assert {entry["type"] for entry in header["sections"]} <= {"f32", "u32", "u16"}
    assert len({len(payload.sections[line]) for line in ("t", "usage", "queue", "recomputes", "swaps")}) == 1
    assert len(payload.sections["t"]) <= 720
    assert len(payload.sections["snap_t"]) <= 200


@pytest.mark.parametrize("name", SETUPS)
def test_tiles_are_the_metrics(name: str) -> None:
    run = run_of(name)
    header = decode(encode(run, scenario_of(name), {})).header
    values = run.metrics.to_dict()
    totals = run.record.totals
    whole = run.record.capacity_tokens * totals.end_ns
    values["mean_used_ratio"] = totals.used_token_ns / whole if whole else None
    if isinstance(scenario_of(name).server, VllmV1Server):
        values["max_model_len_concurrency"] = float(scenario_of(name).server.capacity().max_concurrency)
    assert list(header["tiles"]) == [tile.name for tile in TILES[scenario_of(name).rules]]
    for tile, shown in header["tiles"].items():
        value = values[tile]
        seconds = value if value is None or not tile.endswith("_ns") else value / 1e9
        assert shown["value"] == (None if seconds is None else pytest.approx(seconds, rel=1e-15))
        assert shown["text"] == "–" if value is None else shown["text"][0].isdigit()


def test_accounting_adds_up() -> None:
    assert decode(encode(run_of("none-fits"), scenario_of("none-fits"), {})).header["accounting"] == (
        "66 arrived = 6 finished + 60 rejected"
    )
    for name in SETUPS:
        arrived, finished, *others = (
            int("".join(char for char in part if char.isdigit()))
            for part in decode(encode(run_of(name), scenario_of(name), {}))
            .header["accounting"]
            .replace("=", "+")
            .split("+")
        )
        assert arrived == finished + sum(others)
        assert len(others) == (2 if name == "server-stalled" else 1)


@pytest.mark.parametrize("name", ["little-swap", "samples", "contiguous", "server"])
def test_the_command_line_gives_the_same_numbers(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    header = decode(encode(run_of(name), scenario_of(name), {})).header
    program, *words = shlex.split(header["command"])
    assert program == "kvlab"
    assert execute([*words, "--json", "--quiet"]) == 0
    result = json.loads(capsys.readouterr().out)
    for tile, shown in header["tiles"].items():
        if tile in result["metrics"]:
            value = result["metrics"][tile]
            assert shown["value"] == pytest.approx(value / 1e9 if tile.endswith("_ns") else value, rel=1e-12)


def test_the_command_line_says_every_change() -> None:
    scenario = kvlab.scenario(
        "block-table-lab",
        kv_memory_bytes="2.5 GiB",
        long_report_users="on",
        burst=Decimal("2.5"),
        prompt_tokens="lognormal(p50=600, p95=3000)",
        slo="ttft<=2s",
    )
    run = kvlab.simulate(scenario.replace(duration_ns="1 s"))
    header = decode(encode(run, scenario, {})).header
    assert shlex.split(header["command"]) == [
        "kvlab", "run", "block-table-lab", "--kv-memory-bytes", "2.5GiB", "--burst", "2.5",
        "--prompt-tokens", "lognormal(p50=600, p95=3000)", "--long-report-users", "--slo", "ttft<=2s",
    ]  # fmt: skip
    again = kvlab.scenario("block-table-lab", **header["changes"])
    assert again.settings() == scenario.settings()


def test_vllm_flags_name_what_vllm_has() -> None:
    def flags(name: str) -> str:
        return str(decode(encode(run_of(name), scenario_of(name), {})).header["flags"])

    assert flags("recompute") == (
        "--gpu-memory-utilization 0.42 --kv-cache-dtype auto --max-num-seqs 64 --block-size 16"
    )
    assert flags("little-swap").endswith("--preemption-mode swap --swap-space 0.5")
    for blocks, ratio in ((100, "0.0283"), (355, "0.1002"), (1, "0.0003")):
        scenario = kvlab.scenario("preemption-lab", headroom_blocks=blocks)
        assert vllm_flags(scenario).endswith(f" --watermark {ratio}")
        assert int(float(ratio) * 3545) == blocks, "as vLLM makes blocks of it"
    assert flags("paged") == "--kv-cache-memory-bytes 1073741824 --max-num-seqs 64 --block-size 16"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("recompute", ["is full after", "computes", "again", "Between two tokens"]),
        ("swap", ["is copied to the CPU"]),
        ("little-swap", ["by a copy to the CPU", "by computing everything again"]),
        ("idle", ["never fills", "No request is preempted."]),
        ("contiguous", ["holds nothing"]),
        ("nobody", ["Nobody came"]),
        ("server-stalled", ["At the end nothing moves any more", "never finish"]),
    ],
)
def test_the_story_tells_what_happened(name: str, words: list[str]) -> None:
    story = decode(encode(run_of(name), scenario_of(name), {})).header["story"]
    assert [word for word in words if word not in story] == []


def test_numbers_are_as_narrow_as_they_can_be() -> None:
    run = run_of("paged")
    payload = decode(encode(run, scenario_of("paged"), {}))
    types = {entry["name"]: entry["type"] for entry in payload.header["sections"]}
    assert types["runs"] == "u16"
    assert types["usage"] == "f32"
    assert payload.sections["lanes"].max() < 2**16
    assert types["lanes"] == "u16"
    longer = kvlab.scenario("block-table-lab", request_rate="0.2")
    types = {
        entry["name"]: entry["type"] for entry in decode(encode(kvlab.simulate(longer), longer, {})).header["sections"]
    }
    assert types["lanes"] == "u32"  # of a run over 65.5 s

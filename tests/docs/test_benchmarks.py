"""The benchmarks compare equal work and run to their end; no time is asserted."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks import cases, naive, sweeps

import kvlab
from kvlab.core.config import PreemptionLabConfig
from kvlab.core.engine import simulate

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"headroom_blocks": 40, "burst": "2.5"},
        {"max_num_seqs": 9, "prefill_budget_tokens": 64},
        {"gpu_memory_utilization": "40 %", "longer_answers": 2},
        {"arrivals": "closed-loop", "max_concurrency": 70, "think_time_ns": "2 s"},
    ],
    ids=str,
)
def test_the_naive_simulator_keeps_the_same_books(changes: dict[str, object]) -> None:
    scenario = kvlab.scenario("preemption-lab", duration_ns="60 s", **changes)
    config = scenario.engine_config()
    assert isinstance(config, PreemptionLabConfig)
    fast, plain = simulate(config, scenario.source()), naive.simulate(config, scenario.source())
    assert plain.preemptions > 0 or "max_num_seqs" in changes
    cases.assert_same_books(fast, plain)
    paused = sum(count for gap_ns, count in plain.max_gap.items() if gap_ns > 1_000_000_000)
    assert fast.totals.paused == paused


def test_unequal_books_stop_a_comparison() -> None:
    scenario = kvlab.scenario("preemption-lab", duration_ns="20 s")
    config = scenario.engine_config()
    assert isinstance(config, PreemptionLabConfig)
    plain = naive.simulate(config, scenario.source())
    other = simulate(config, scenario.replace(seed=2).source())
    with pytest.raises(AssertionError, match="differs: a comparison of unequal work"):
        cases.assert_same_books(other, plain)


@pytest.mark.parametrize("settings", cases.LONG_RUNS.values(), ids=list(cases.LONG_RUNS))
def test_a_long_run_keeps_its_pool_about_90_percent_full(settings: dict[str, object]) -> None:
    run = kvlab.simulate(kvlab.scenario("preemption-lab", **settings, num_requests=5_000), record=kvlab.METRICS)
    assert run.metrics.mean_kv_usage_ratio is not None
    assert 0.84 < run.metrics.mean_kv_usage_ratio < 0.95


def benchmarks(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {"KVLAB_SHARED": str(ROOT / "nowhere"), "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_memory_is_measured_in_processes_of_their_own() -> None:
    done = benchmarks("long", "azure", "--requests", "100")
    assert (done.returncode, done.stderr) == (0, "")
    assert (
        len(re.findall(r"^  (open|closed) loop, .* 100 requests .* steps/s +\d+ MiB", done.stdout, re.MULTILINE)) == 2
    )
    assert "skipped: data/traces/azure_llm_2023_conv.csv is not here; set KVLAB_SHARED" in done.stdout


def test_lab_runs_and_their_profile() -> None:
    row = cases.lab_run("preemption-lab", repeats=1)
    assert (row.num_requests, list(row.cpu)) == (449, list(cases.RECORDINGS))
    lines = cases.profile("preemption-lab", cases.RECORDINGS["metrics only"], runs=1, lines=5)
    assert [line.percent for line in lines] == sorted((line.percent for line in lines), reverse=True)
    assert all(line.calls > 0 and line.function for line in lines)


@pytest.mark.parametrize("lengths", cases.RATIO_LENGTHS)
def test_the_ratio_is_of_the_same_steps(lengths: str) -> None:
    row = cases.naive_ratio(4, lengths, repeats=1)
    assert row.num_steps > 1_000
    assert row.ratio == row.naive_step_us / row.fast_step_us > 0


def test_sweeps_and_their_memory() -> None:
    paces = sweeps.paces("preemption-lab", rounds=1, seeds=1, on_ray=False)
    assert [pace.name for pace in paces] == [*sweeps.ALONE.values(), "local, 1 worker", "local, 2 workers"]
    assert all(pace.cpu_s > 0 and pace.wall_s > 0 for pace in paces)
    assert [pace.overhead_ratio for pace in paces[:2]] == [0, 0]
    found = sweeps.memory(points=3, seeds=2, workers=2)
    assert found["runs"] == 6
    assert found["tree_mib"] > 0


def test_an_unknown_section_is_named() -> None:
    done = benchmarks("labz")
    assert done.returncode == 2
    assert "no section labz: there are labs, long" in done.stderr

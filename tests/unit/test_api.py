"""The three calls of the Python API."""

from __future__ import annotations

from pathlib import Path

import pytest

import kvlab
from kvlab.errors import ConfigError, UnknownNameError


def short(**changes: object) -> kvlab.Scenario:
    return kvlab.scenario("preemption-lab", duration_ns="10 s", **changes)


def test_a_run_has_metrics_columns_timeline_and_memory() -> None:
    run = kvlab.simulate(short(max_num_seqs=8))
    assert run.metrics.arrived == run.metrics.finished == len(run.requests["id"]) == 30
    assert run.metrics.peak_running == 8
    assert len(run.timeline["t_ns"]) == run.metrics.steps
    assert run.memory_at(t_ns=5_000_000_000).num_free < run.memory_at(t_ns=0).num_free
    assert run.window_ns == 10_000_000_000
    assert run.metrics.kv_capacity_bytes == run.metrics.kv_capacity_tokens * 2**19


def test_metrics_alone_are_the_same_metrics() -> None:
    assert kvlab.simulate(short(), record=kvlab.METRICS).metrics == kvlab.simulate(short()).metrics


def test_a_monitor_sees_the_run_and_can_stop_it() -> None:
    seen: list[tuple[int, int]] = []

    def monitor(t_ns: int, ended: int) -> bool:
        seen.append((t_ns, ended))
        return len(seen) == 2

    run = kvlab.simulate(kvlab.scenario(duration_ns="10 min"), record=kvlab.METRICS, monitor=monitor)
    assert run.interrupted
    assert len(seen) == 2
    assert run.metrics.arrived == run.metrics.finished + run.metrics.rejected + run.metrics.unfinished


def test_runs_are_compared() -> None:
    comparison = kvlab.compare(kvlab.simulate(short()), kvlab.simulate(short(max_num_seqs=4)))
    assert comparison.same_traffic
    assert comparison.row("p95_ttft_ns").changes[0].verdict == "worse"


def test_a_scenario_file_is_a_scenario(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(short(seed=3).to_json(), encoding="utf-8")
    assert kvlab.scenario(str(path), seed=1) == short()


def test_a_preset_and_a_file_are_simulated_by_name(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(short().to_json(), encoding="utf-8")
    assert kvlab.simulate(path) == kvlab.simulate(str(path)) == kvlab.simulate(short())
    assert kvlab.simulate("preemption-lab", record=kvlab.METRICS).metrics.arrived == 449
    with pytest.raises(ConfigError, match=r"scenario = 3: expected kvlab\.scenario\(\.\.\.\), a preset's name"):
        kvlab.simulate(3)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="scenario = None: expected"):
        kvlab.scenario(None)  # type: ignore[arg-type]


def test_the_public_names_are_there_and_others_are_not() -> None:
    assert set(kvlab.__all__) <= set(dir(kvlab))
    for name in kvlab.__all__:
        assert getattr(kvlab, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'simulatte'"):
        kvlab.simulatte  # noqa: B018
    with pytest.raises(UnknownNameError, match="did you mean"):
        kvlab.scenario("preemtion-lab")


@pytest.mark.parametrize("seeds", [0, [], "3", [5, 5], [-1], 1.5])
def test_seeds_that_are_none_are_refused_before_anything_runs(seeds: object) -> None:
    for call in (
        lambda: kvlab.sweep("preemption-lab", max_num_seqs=[8], seeds=seeds),  # type: ignore[arg-type]
        lambda: kvlab.advise("preemption-lab", "ttft_p95<=2s", seeds=seeds),  # type: ignore[arg-type]
        lambda: kvlab.plan("preemption-lab", "ttft_p95<=2s", seeds=seeds),  # type: ignore[arg-type]
    ):
        with pytest.raises(ConfigError) as caught:
            call()
        assert caught.value.field == "seeds"


def test_what_is_no_goal_and_no_number_of_workers_is_refused() -> None:
    for goals in (None, 5, ["ttft_p95<=2s"]):
        with pytest.raises(ConfigError, match=r"goals = .*expected limits as a text"):
            kvlab.advise("preemption-lab", goals)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match=r"goals = .*expected limits as a text"):
            kvlab.plan("preemption-lab", goals)  # type: ignore[arg-type]
    for workers in ("2", 1.0, True, 0):
        with pytest.raises(ConfigError, match=r"workers = .*from 1 to 256"):
            kvlab.sweep("preemption-lab", max_num_seqs=[8], workers=workers)  # type: ignore[arg-type]


def test_advice_moves_only_the_levers_that_are_named() -> None:
    found = kvlab.advise("preemption-lab", "gap_max<=150ms", levers=["headroom_blocks"], seeds=1, workers=1)
    assert {name for fix in found.fixes for name, _ in fix.change} == {"headroom_blocks"}
    with pytest.raises(UnknownNameError, match="headroom_blocks"):
        kvlab.advise("preemption-lab", "gap_max<=150ms", levers=["headroom_block"])
    with pytest.raises(ConfigError, match="name at least one"):
        kvlab.advise("preemption-lab", "gap_max<=150ms", levers=[])

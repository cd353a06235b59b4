from __future__ import annotations

import json
import pickle

import pytest
from tests.runs import ONE_SAMPLE, PREEMPTION, preemption_run, run_of, stopped

import kvlab
from kvlab.core.config import METRICS
from kvlab.errors import ConfigError
from kvlab.metrics import METRICS as CATALOG


def test_metrics_are_worked_out_once() -> None:
    run = preemption_run()
    assert run.metrics is run.metrics
    assert run.metrics.arrived == run.metrics.finished + run.metrics.rejected == 7
    assert run.timeline is run.timeline


def test_equal_runs_are_equal_whatever_was_asked_of_them() -> None:
    first, second = run_of(PREEMPTION, ONE_SAMPLE), run_of(PREEMPTION, ONE_SAMPLE)
    assert first.metrics.steps
    assert first == second
    assert first != run_of(PREEMPTION, ONE_SAMPLE[:-1])


def test_the_json_holds_scenario_and_metrics_and_is_the_same_for_the_same_run() -> None:
    texts = {json.dumps(run_of(PREEMPTION, ONE_SAMPLE).to_dict()) for _ in range(2)}
    assert len(texts) == 1
    document = json.loads(texts.pop())
    assert document["kvlab_result"] == 1
    assert document["scenario"] == {"name": "test", "traffic": {"seed": 1}}
    assert document["interrupted"] is False
    assert list(document["metrics"]) == list(CATALOG)


def test_a_lean_run_gives_the_same_metrics_and_says_what_it_did_not_keep() -> None:
    lean = run_of(PREEMPTION, ONE_SAMPLE, recording=METRICS)
    assert lean.metrics == preemption_run().metrics
    with pytest.raises(ConfigError, match=r"this run kept no requests; simulate with Recording\(requests=True\)"):
        _ = lean.requests
    with pytest.raises(ConfigError, match="this run kept no steps"):
        _ = lean.timeline
    with pytest.raises(ConfigError, match="this run kept no steps"):
        _ = lean.preemptions
    with pytest.raises(ConfigError, match="this run kept no steps"):
        lean.memory_at(t_ns=0)
    with pytest.raises(ConfigError, match="this run kept no steps"):
        lean.plot()


def test_a_run_of_nothing_has_empty_columns() -> None:
    run = run_of(PREEMPTION, ())
    assert len(run.requests["id"]) == len(run.timeline["t_ns"]) == 0
    assert run.memory_at(t_ns=0).num_free == PREEMPTION.num_gpu_blocks
    assert run.metrics.arrived == 0


def test_a_run_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        preemption_run().window_ns = 3  # type: ignore[misc]


def test_a_run_survives_being_sent_to_another_process() -> None:
    for run in (run_of(PREEMPTION, ONE_SAMPLE), kvlab.simulate(kvlab.scenario(duration_ns="5 s"))):
        assert run.requests
        assert run.timeline
        assert run.metrics
        sent = pickle.loads(pickle.dumps(run))
        assert sent == run
        assert sent.to_dict() == run.to_dict()
        assert sent.memory_at(step=3).owner.tolist() == run.memory_at(step=3).owner.tolist()


def test_a_run_is_shown_in_one_line() -> None:
    assert repr(preemption_run()).startswith("<Run test: 6 of 7 requests finished in 34 steps, 1.01 s; kept: requests,")
    assert "metrics only" in repr(run_of(PREEMPTION, ONE_SAMPLE, recording=METRICS))


def test_a_stopped_run_says_so() -> None:
    run = stopped(preemption_run(), after_steps=9)
    assert run.interrupted
    assert run.to_dict()["interrupted"] is True


def test_memory_is_full_from_the_first_step_that_took_all_of_it_or_had_to_preempt() -> None:
    run = preemption_run()
    troubled = [s for s in run.record.steps if s.preempted or s.reserved_tokens == run.record.capacity_tokens]
    assert run.full_ns == troubled[0].t_ns - troubled[0].dur_ns
    calm = run_of(PREEMPTION, ONE_SAMPLE[:1])
    assert calm.full_ns is None

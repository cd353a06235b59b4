"""The clock loop on schedules small enough to be worked out by hand."""

from __future__ import annotations

import dataclasses

import pytest

from kvlab.core.config import EVERYTHING, METRICS, BlockTableLabConfig, LabConfig, PreemptionLabConfig, Recording, Slo
from kvlab.core.engine import MONITOR_STEPS, Engine, simulate
from kvlab.core.request import OpenLoop, Request
from kvlab.errors import ConfigError, UnknownNameError

# a step lasts 10 ns + 1 ns per running sequence; prefill is free
CONFIG = PreemptionLabConfig(
    num_gpu_blocks=4, num_cpu_blocks=0, block_size=4, max_num_seqs=4, headroom_blocks=0, preemption_mode="recompute",
    prefill_budget_tokens=100, base_ns=10, per_seq_ns=1, per_prefill_token_ns=0, swap_per_token_ns=0,
    swap_per_block_ns=0,
)  # fmt: skip

BLOCK_TABLES = BlockTableLabConfig(
    allocator="paged", kv_tokens=64, block_size=4, max_tokens=8, max_num_seqs=4, base_ns=10, per_seq_ns=1,
    per_context_token_ns=0, per_prefill_token_ns=0, paging_overhead_num=0, paging_overhead_den=1,
)  # fmt: skip


def request(request_id: int, arrival_ns: int, prompt: int, output: int) -> Request:
    return Request(request_id, arrival_ns, prompt, (output,))


def test_one_request_alone() -> None:
    run = simulate(CONFIG, OpenLoop([request(0, 5, 3, 4)]), recording=EVERYTHING, check=True)
    record = run.requests[0]
    assert (record.admitted_ns, record.first_token_ns, record.finish_ns) == (5, 16, 49)
    assert [step.reserved_tokens for step in run.steps] == [4, 4, 8, 8]
    assert run.gap.items() == [(11, 3)]
    assert (run.totals.busy_ns, run.totals.end_ns, run.totals.steps) == (44, 49, 4)
    assert run.totals.reserved_token_ns == 11 * (4 + 4 + 8 + 8)
    assert run.totals.used_token_ns == 11 * (3 + 4 + 5 + 6)


def test_the_newest_loses_its_blocks_and_waits_at_the_head() -> None:
    # both take two blocks for their prompts; in step 1 request 0 needs a third, and none is free
    run = simulate(CONFIG, OpenLoop([request(0, 0, 8, 6), request(1, 0, 8, 2)]), recording=EVERYTHING, check=True)
    assert [step.preempted for step in run.steps][:2] == [(), ((1, "recompute"),)]
    assert run.steps[1].waiting == 1
    assert run.totals.preemptions == 1
    assert run.totals.recomputed_tokens == 8
    again = next(step for step in run.steps if step.admitted == (1,) and step is not run.steps[0])
    assert run.requests[1].max_gap_ns == again.t_ns - run.steps[0].t_ns


def test_an_arrival_on_a_step_boundary_joins_the_step_that_starts_there() -> None:
    run = simulate(CONFIG, OpenLoop([request(0, 0, 1, 9), request(1, 33, 1, 1)]), recording=EVERYTHING)
    assert run.requests[1].admitted_ns == 33


def test_an_arrival_behind_a_blocked_head_is_counted_as_waiting() -> None:
    traffic = [request(0, 0, 13, 3), request(1, 1, 9, 1), request(2, 20, 1, 1)]
    run = simulate(CONFIG, OpenLoop(traffic), recording=Recording(steps=True))
    assert [step.waiting for step in run.steps] == [0, 1, 2, 0]
    assert simulate(CONFIG, OpenLoop(traffic)).totals.peak_waiting == 2


@pytest.mark.parametrize(("window_ns", "tokens"), [(10, 0), (11, 1), (32, 2), (33, 3), (34, 3), (44, 4), (99, 4)])
def test_tokens_emitted_at_the_end_of_the_window_are_inside(window_ns: int, tokens: int) -> None:
    for recording in (METRICS, EVERYTHING):
        run = simulate(CONFIG, OpenLoop([request(0, 0, 1, 4)]), window_ns=window_ns, recording=recording)
        assert run.totals.output_tokens_in_window == tokens


def test_a_good_request_meets_every_limit() -> None:
    traffic = [request(0, 0, 8, 6), request(1, 0, 8, 2)]
    assert simulate(CONFIG, OpenLoop(traffic)).totals.good == 2
    assert simulate(CONFIG, OpenLoop(traffic), slo=Slo(gap_ns=20)).totals.good == 1
    assert simulate(CONFIG, OpenLoop(traffic), slo=Slo(gap_ns=20, ttft_ns=1)).totals.good == 0


def test_what_never_fits_is_rejected_and_counted() -> None:
    run = simulate(CONFIG, OpenLoop([request(0, 0, 16, 1), request(1, 0, 16, 2)]), recording=EVERYTHING)
    assert run.rejected == (1,)
    assert (run.totals.arrived, run.totals.finished, run.totals.rejected) == (2, 1, 1)


def test_a_stopped_run_accounts_for_every_request_and_closes_its_log() -> None:
    traffic = [request(i, 0, 1, 3000) for i in range(6)]
    config = dataclasses.replace(CONFIG, num_gpu_blocks=100_000)
    asked: list[tuple[int, int]] = []

    def stop(now_ns: int, ended: int) -> bool:
        asked.append((now_ns, ended))
        return len(asked) == 2

    churn = [request(i, i * 11, 1, 1) for i in range(6, 20 * MONITOR_STEPS)]
    everything = sorted(traffic + churn, key=lambda r: r.arrival_ns)
    renumbered = [r._replace(id=i) for i, r in enumerate(everything)]
    run = simulate(config, OpenLoop(renumbered), recording=EVERYTHING, monitor=stop)
    assert run.interrupted
    assert len(asked) == 2
    totals = run.totals
    assert totals.arrived == totals.finished + totals.rejected + totals.unfinished == len(run.requests)
    assert totals.unfinished > 0
    assert any(stay.end == "open" for stay in run.stays)
    assert all(stay.start_step <= stay.end_step <= totals.steps for stay in run.stays)


@pytest.mark.parametrize(("config", "wrong"), [
    (CONFIG, Request(0, 0, 0, (1,))),
    (CONFIG, Request(0, 0, 1, (0,))),
    (CONFIG, Request(0, 0, 1, ())),
    (CONFIG, Request(0, 0, 1, (1, 1))),
    (BLOCK_TABLES, Request(0, 0, 1, (1, 9))),
])  # fmt: skip
def test_a_request_that_the_rules_do_not_describe_is_named(config: LabConfig, wrong: Request) -> None:
    with pytest.raises(ConfigError, match="request 0"):
        simulate(config, OpenLoop([wrong]))


def test_a_policy_that_is_not_known_is_named() -> None:
    with pytest.raises(UnknownNameError, match="did you mean"):
        simulate(dataclasses.replace(CONFIG, preemption_mode="swop"), OpenLoop([]))
    with pytest.raises(UnknownNameError, match="did you mean"):
        simulate(dataclasses.replace(BLOCK_TABLES, allocator="payed"), OpenLoop([]))


def test_check_finds_a_lost_block() -> None:
    engine = Engine(CONFIG, OpenLoop([request(0, 0, 5, 9)]))
    engine.scheduler.space.take(1)  # type: ignore[attr-defined]
    with pytest.raises(AssertionError, match="lost or doubled"):
        engine.run(None, check=True)

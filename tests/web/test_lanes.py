"""Request lanes, against the log of steps: who was admitted, preempted, resumed and finished when."""

from __future__ import annotations

import itertools
from collections import defaultdict

import pytest
from tests.web.decode import decode
from tests.web.runs_of_labs import SETUPS, run_of, scenario_of

from kvlab.results import Run
from kvlab.web.lanes import DECODE, PAUSED, PREFILL, QUEUED, RECOMPUTING, STATES, SWAPPED, lanes
from kvlab.web.payload import encode
from kvlab.web.series import step_lines
from kvlab.web.stays import stay_columns

Part = tuple[int, int, int]


def lanes_of(run: Run) -> dict[int, list[Part]]:
    found: dict[int, list[Part]] = defaultdict(list)
    stays = stay_columns([stay for stay in run.record.stays if not stay.on_cpu])
    columns = lanes(run.record, stays, step_lines(run.record.steps))
    for request_id, *part in zip(*(column.tolist() for column in columns), strict=True):
        found[request_id].append((part[0], part[1], part[2]))
    return found


@pytest.mark.parametrize("name", SETUPS)
def test_lanes_run_from_arrival_to_the_last_token_without_gaps(name: str) -> None:
    run = run_of(name)
    shown = lanes_of(run)
    for request in run.record.requests:
        if request.rejected:
            assert request.id not in shown
            continue
        parts = shown[request.id]
        if request.admitted_ns is None:  # of a run that stalled
            assert parts == []
            continue
        assert parts[0][1] == request.arrival_ns
        assert parts[-1][2] == request.finish_ns or request.finish_ns is None
        assert all(before[2] == after[1] for before, after in itertools.pairwise(parts))
        assert all(start < end for _, start, end in parts)


@pytest.mark.parametrize("name", SETUPS)
def test_waits_are_those_of_the_log(name: str) -> None:
    """Queued, paused and swapped begin and end where the steps say so."""
    run = run_of(name)
    expected: dict[int, list[Part]] = defaultdict(list)
    since = {request.id: (QUEUED, request.arrival_ns) for request in run.record.requests}
    for step in run.record.steps:
        start_ns = step.t_ns - step.dur_ns
        # a step that preempts admits nobody, so the order of these does not matter
        for request_id in (*step.admitted, *step.resumed):
            state, begun_ns = since[request_id]
            if begun_ns < start_ns:
                expected[request_id].append((state, begun_ns, start_ns))
        for request_id, outcome in step.preempted:
            since[request_id] = (SWAPPED if outcome == "swap" else PAUSED, start_ns)
    waits = {
        request_id: [part for part in parts if part[0] in (QUEUED, PAUSED, SWAPPED)]
        for request_id, parts in lanes_of(run).items()
    }
    assert {key: parts for key, parts in waits.items() if parts} == expected


@pytest.mark.parametrize("name", SETUPS)
def test_prefill_ends_with_the_first_token(name: str) -> None:
    run = run_of(name)
    shown = lanes_of(run)
    for request in run.record.requests:
        if request.first_token_ns is None:
            continue
        computing = [part for part in shown[request.id] if part[0] in (PREFILL, RECOMPUTING)]
        assert request.first_token_ns in [end_ns for _, _, end_ns in computing]
        decoding = [part for part in shown[request.id] if part[0] == DECODE]
        assert bool(decoding) == (request.finish_ns != request.first_token_ns)
        assert all(start_ns >= request.first_token_ns for _, start_ns, _ in decoding)


def test_only_who_lost_computed_tokens_recomputes() -> None:
    run = run_of("recompute")
    again = {key for key, parts in lanes_of(run).items() if any(part[0] == RECOMPUTING for part in parts)}
    assert again == {request.id for request in run.record.requests if request.preemptions}


def test_who_was_swapped_out_while_decoding_decodes_when_it_is_back() -> None:
    run = run_of("swap")
    shown = lanes_of(run)
    followed = [
        (before[0], after[0])
        for parts in shown.values()
        for before, after in itertools.pairwise(parts)
        if before[0] == SWAPPED
    ]
    assert (SWAPPED, DECODE) in followed
    assert {after for _, after in followed} <= {DECODE, PREFILL}


def test_the_payload_has_them_in_whole_milliseconds() -> None:
    run = run_of("little-swap")
    words = decode(encode(run, scenario_of("little-swap"), {})).sections["lanes"].reshape(-1, 4).tolist()
    expected = [
        [request_id, state, start_ns // 10**6, end_ns // 10**6]
        for request_id, parts in sorted(lanes_of(run).items())
        for state, start_ns, end_ns in parts
    ]
    assert words == expected
    assert {state for _, state, _, _ in words} == set(range(len(STATES)))

"""Holds the fast engine to the reference: all times, blocks and books, at every step."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict
from itertools import zip_longest

from tests.strategies import Case

from kvlab import reference
from kvlab.core import engine as core
from kvlab.core.config import EVERYTHING, METRICS, Recording
from kvlab.core.memory import cpu_stays_at, gpu_stays_at
from kvlab.core.records import RunRecord, Totals
from kvlab.core.tally import Tally
from kvlab.goldens import tables_of
from kvlab.reference import ReferenceRun

_PARTLY = (Recording(memory=True), Recording(requests=True), Recording(steps=True))

TokenTimes = dict[tuple[int, int], list[int]]


def assert_engines_agree(case: Case) -> ReferenceRun:
    """Raises AssertionError with the first differing step of both, and the case as JSON to keep."""
    expected = reference.simulate(case.config, case.source(), window_ns=case.window_ns, slo=case.slo)
    try:
        everything = run_core(case, EVERYTHING, check=True)
        _assert_same_run(expected, everything)
        _assert_recording_changes_nothing(case, everything)
    except Exception as error:
        error.add_note(f"tests/differential/cases/NAME.json:\n{case.to_json()}")
        raise
    return expected


def run_core(case: Case, recording: Recording, *, check: bool = False) -> RunRecord:
    return core.simulate(
        case.config, case.source(), recording=recording, window_ns=case.window_ns, slo=case.slo, check=check
    )


def _assert_same_run(expected: ReferenceRun, got: RunRecord) -> None:
    _assert_same_steps(expected.record, got)
    _assert_same_tables(expected, got)
    times = token_times(got)
    for owner in expected.token_times.keys() | times.keys():
        assert times.get(owner, []) == expected.token_times.get(owner, []), f"token times of (request, sample) {owner}"
    for name in ("requests", "rejected", "totals", "ttft", "gap", "tpot", "e2e", "queue_time"):
        _assert_same_field(expected.record, got, name)
    assert got.capacity_tokens == expected.record.capacity_tokens
    assert not got.interrupted


def _assert_same_steps(expected: RunRecord, got: RunRecord) -> None:
    for number, (one, other) in enumerate(zip_longest(expected.steps, got.steps)):
        assert one == other, f"step {number} differs\nreference: {one}\ncore:      {other}"


def _assert_same_tables(expected: ReferenceRun, got: RunRecord) -> None:
    for step, (tables, cpu_tables) in enumerate(zip(expected.tables, expected.cpu_tables, strict=True)):
        for place, one, stays in (
            ("GPU", tables, gpu_stays_at(got.stays, step)),
            ("CPU", cpu_tables, cpu_stays_at(got.stays, step)),
        ):
            other = list(tables_of(stays, step).items())
            assert len(other) == len(stays), f"step {step}: one sequence stays twice on the {place}: {stays}"
            assert list(one.items()) == other, f"step {step}: {place} tables\nreference: {one}\ncore:      {other}"


def _assert_same_field(expected: RunRecord, got: RunRecord, name: str) -> None:
    one, other = getattr(expected, name), getattr(got, name)
    if one == other:
        return
    if isinstance(one, Totals):
        one, other = _fields_that_differ(one, other)
    elif isinstance(one, Tally):
        one, other = one.items(), other.items()
    if isinstance(one, (tuple, list)):
        one, other = next((a, b) for a, b in zip_longest(one, other) if a != b)
    raise AssertionError(f"{name}\nreference: {one}\ncore:      {other}")


def _fields_that_differ(one: Totals, other: Totals) -> tuple[dict[str, int], dict[str, int]]:
    before, after = asdict(one), asdict(other)
    names = [name for name in before if before[name] != after[name]]
    return {name: before[name] for name in names}, {name: after[name] for name in names}


def token_times(record: RunRecord) -> TokenTimes:
    """Every token's time as the delta log tells it: one at the end of each step from `decode_step` on."""
    times: TokenTimes = defaultdict(list)
    for stay in sorted(record.stays, key=lambda stay: stay.start_step):
        if stay.decode_step is not None and not stay.on_cpu:
            steps = record.steps[stay.decode_step : stay.end_step]
            times[stay.request_id, stay.sample] += [step.t_ns for step in steps]
    return dict(times)


def _assert_recording_changes_nothing(case: Case, everything: RunRecord) -> None:
    for recording in (METRICS, _PARTLY[len(case.requests) % len(_PARTLY)]):
        got = run_core(case, recording)
        for name in ("totals", "capacity_tokens", "ttft", "gap", "tpot", "e2e", "queue_time"):
            assert getattr(got, name) == getattr(everything, name), f"{name} depend on {recording}"
        assert got.requests == (everything.requests if recording.requests else ())
        assert got.steps == (everything.steps if recording.steps else ())
        assert got.stays == (everything.stays if recording.memory else ())

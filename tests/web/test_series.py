"""The chart's lines lose no peak and no preemption."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tests.web.decode import decode
from tests.web.runs_of_labs import SETUPS, run_of, scenario_of

from kvlab.web.payload import encode
from kvlab.web.series import MAX_BINS, bin_edges, series, step_lines

FIGURES = {"usage": "reserved_tokens", "queue": "waiting", "running": "running", "swapped": "swapped"}
"""Line of the chart -> column of the timeline."""


@pytest.mark.parametrize("name", SETUPS)
def test_a_bin_shows_the_most_of_all_steps_that_touch_it(name: str) -> None:
    run = run_of(name)
    end_ns, capacity = run.record.totals.end_ns, run.record.capacity_tokens
    lines = series(step_lines(run.record.steps), run.preemptions, capacity, end_ns)
    if not end_ns:
        assert {len(line) for line in lines.values()} == {1}
        return
    edges, steps = bin_edges(end_ns, MAX_BINS).tolist(), run.timeline
    for number, (start, end) in enumerate(itertools.pairwise(edges)):
        touching = (steps["t_ns"] > start) & (steps["start_ns"] < end)
        most = {name: int(steps[name][touching].max(initial=0)) for name in FIGURES.values()}
        shown = {FIGURES[line]: float(lines[line][number]) for line in FIGURES}
        assert shown == most | {"reserved_tokens": np.float32(most["reserved_tokens"] / capacity)}


@pytest.mark.parametrize("name", ["recompute", "swap", "little-swap", "samples"])
def test_every_preemption_is_in_one_bin(name: str) -> None:
    run = run_of(name)
    lines = decode(encode(run, scenario_of(name), {})).sections
    assert lines["recomputes"].sum() == run.metrics.recomputes > 0 or name == "swap"
    assert lines["swaps"].sum() == run.metrics.swap_outs
    assert run.metrics.preemptions > 0
    edges = bin_edges(run.record.totals.end_ns, MAX_BINS)
    expected, _ = np.histogram(run.preemptions["t_ns"], edges)
    assert (lines["recomputes"] + lines["swaps"]).tolist() == expected.tolist()


def test_the_peak_of_the_run_is_the_peak_of_the_line() -> None:
    run = run_of("recompute")
    lines = decode(encode(run, scenario_of("recompute"), {})).sections
    assert lines["usage"].max() == np.float32(run.metrics.peak_kv_usage_ratio) == 1
    assert lines["queue"].max() == run.metrics.peak_waiting
    assert lines["running"].max() == run.metrics.peak_running
    assert lines["t"][0] == 0
    assert np.all(np.diff(lines["t"]) > 0)
    assert lines["t"][-1] < run.record.totals.end_ns / 1e9


def test_a_run_shorter_than_its_bins_has_a_bin_per_nanosecond() -> None:
    assert bin_edges(3, 3).tolist() == [0, 1, 2, 3]
    huge = 10**18
    assert bin_edges(huge, MAX_BINS)[-1] == huge

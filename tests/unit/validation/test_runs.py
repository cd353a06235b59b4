"""Recorded runs simulated again: a made-up recording, and the real ones where they are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.recordings import made_up_recording
from tests.shared import shared_file

from kvlab.errors import MeasurementError
from kvlab.validation.numbers import Numbers, committed, read
from kvlab.validation.recordings import SETUPS, Setup, is_there, read_recording
from kvlab.validation.runs import numbers_of, replay


def test_a_replay_keeps_arrivals_and_lengths(tmp_path: Path) -> None:
    done = replay(read_recording(made_up_recording(tmp_path), SETUPS[0]))
    assert np.allclose(done.simulated.arrival, done.real.arrival)
    assert done.record.totals.output_tokens == 40 * 20
    assert (done.simulated.first > done.simulated.arrival).all()
    assert done.real.tpot.mean() == pytest.approx(0.05)


def test_figures_are_of_the_recording_and_of_the_simulation(tmp_path: Path) -> None:
    numbers, done = numbers_of(read_recording(made_up_recording(tmp_path), SETUPS[0]))
    assert numbers.figure("TTFT mean").real == pytest.approx(0.05)
    assert numbers.figure("TPOT mean").real == pytest.approx(50)
    assert numbers.figure("makespan").real == pytest.approx(4.9)
    assert numbers.figure("makespan").simulated == pytest.approx(done.simulated.last.max(), rel=1e-5)
    assert numbers.figure("TTFT mean").error_percent == pytest.approx(
        100 * (done.simulated.ttft.mean() / 0.05 - 1), rel=1e-3
    )
    assert {line.name for line in numbers.over_time} == {"running", "waiting", "KV cache taken, %"}
    assert next(part.label for part in numbers.parts) == "first quarter"


def test_numbers_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    numbers, _ = numbers_of(read_recording(made_up_recording(tmp_path), SETUPS[0]))
    whole = replace(committed(), runs=(numbers,))
    assert read(whole.to_json()) == whole
    with pytest.raises(ValueError, match="format 2"):
        read(Numbers(runs=(), format=2).to_json())


def test_a_folder_without_recordings_is_told_apart(tmp_path: Path) -> None:
    assert not is_there(tmp_path)
    with pytest.raises(MeasurementError, match="can't be read"):
        read_recording(tmp_path, SETUPS[0])
    made_up_recording(tmp_path)
    (tmp_path / "runs" / SETUPS[0].key / "requests.csv").write_text("a,b\n1,x\n")
    with pytest.raises(MeasurementError, match="not a recording"):
        read_recording(tmp_path, SETUPS[0])


@pytest.mark.parametrize("setup", SETUPS, ids=lambda setup: setup.key)
def test_real_runs_give_the_committed_numbers(setup: Setup) -> None:
    path = shared_file(f"data/runs/{setup.key}/requests.csv")
    numbers, _ = numbers_of(read_recording(path.parents[2], setup))
    kept = next(run for run in committed().runs if run.key == setup.key)
    hint = "run: kvlab validate --again --numbers src/kvlab/validation/numbers.json"
    for found, expected in zip(numbers.figures, kept.figures, strict=True):
        assert found.name == expected.name
        assert (found.real, found.simulated) == pytest.approx((expected.real, expected.simulated), rel=1e-4), hint
    for now, then in zip(numbers.variants, kept.variants, strict=True):
        assert (now.ttft_percent, now.tpot_percent) == pytest.approx((then.ttft_percent, then.tpot_percent), abs=0.01)


def test_both_runs_meet_the_aim() -> None:
    for run in committed().runs:
        for name in ("TTFT mean", "TPOT mean", "makespan"):
            assert abs(run.figure(name).error_percent) <= 5

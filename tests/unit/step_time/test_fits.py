"""The scripts that make the profiles: what is committed is what they make, and a replay keeps its books."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fits.kernels import interpolate
from fits.replay import Arrival, Engine, replay
from tests.shared import shared_file

from kvlab.core.step_time import LinearStepTime, to_dict
from kvlab.step_time.profiles import Profile, profile

MS = 1_000_000
STEP = LinearStepTime(base_ns=10 * MS, per_prefill_token_ns=1_000)


def numbers(value: Any) -> list[float]:
    """All coefficients of a document, in order."""
    if isinstance(value, dict):
        return [number for item in value.values() for number in numbers(item)]
    if isinstance(value, list):
        return [number for item in value for number in numbers(item)]
    return [value] if isinstance(value, int) else []


def same(made: Profile) -> None:
    committed = profile(made.name)
    assert made.range == committed.range
    assert numbers(to_dict(made.step_time)) == pytest.approx(numbers(to_dict(committed.step_time)), rel=1e-5, abs=2)
    for name, errors in made.errors.items():
        assert errors.mean_percent == pytest.approx(committed.errors[name].mean_percent, abs=0.02)


def test_the_splitwise_profiles_are_what_the_script_makes() -> None:
    shared_file("data/perf/splitwise_llama2-70b.csv")
    from fits import splitwise

    same(splitwise.fit("h100-80gb", 4))


def test_the_profile_of_the_real_run_is_what_the_script_makes() -> None:
    shared_file("data/perf/llmservingsim_profile/RTX4090_Llama-3.1-8B_tp1/attention.csv")
    from fits import serving

    same(serving.fit(serving.CASES[0]))


def test_without_the_data_a_script_says_so_and_leaves(tmp_path: Path) -> None:
    environment = {**os.environ, "KVLAB_SHARED": str(tmp_path)}
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-m", "fits"], cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("skipped: perf/llmservingsim_profile/")


def test_between_measured_sizes_lies_a_plane() -> None:
    grid = {(x, y): 2.0 * x + 3.0 * y for x in (0, 4, 16) for y in (1, 8)}
    assert interpolate(grid, (5, 3)) == pytest.approx(19)
    assert interpolate(grid, (32, 8)) == pytest.approx(88)  # beyond the end, at the end's slope


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("blocks", [40, 1_000])
def test_a_replay_serves_everybody(depth: int, blocks: int) -> None:
    arrivals = [Arrival(i * 3 * MS, 50 + 7 * i, 40) for i in range(20)]
    done = replay(arrivals, Engine(num_gpu_blocks=blocks, max_num_seqs=8, depth=depth), STEP)
    for arrival, first, last in zip(arrivals, done.first_ns, done.last_ns, strict=True):
        assert arrival.at_ns < first < last
    for before, after in zip(done.steps, done.steps[1:], strict=False):
        assert before.end_ns <= after.start_ns
        assert after.load.num_running <= 8
    emitted = sum(arrival.output - 1 for arrival in arrivals)
    assert sum(step.load.num_decodes for step in done.steps) >= emitted - done.preemptions
    assert (done.preemptions > 0) == (blocks == 40)


def test_one_request_by_hand() -> None:
    done = replay([Arrival(5 * MS, 3000, 3)], Engine(num_gpu_blocks=1_000, max_num_seqs=8, depth=1), STEP)
    first = 5 * MS + 10 * MS + 2_048_000 + 10 * MS + 952_000
    assert done.first_ns == [first]
    assert done.last_ns == [first + 20 * MS]
    assert [step.load.prefill_tokens for step in done.steps] == [2048, 952, 0, 0]


def test_asynchronous_scheduling_sees_an_arrival_one_step_later() -> None:
    arrivals = [Arrival(0, 100, 50), Arrival(12 * MS, 100, 2)]
    sync, ahead = (
        replay(arrivals, Engine(num_gpu_blocks=1_000, max_num_seqs=8, depth=depth), STEP).first_ns for depth in (1, 2)
    )
    assert sync[0] == ahead[0]
    assert 9 * MS < ahead[1] - sync[1] < 11 * MS

"""The two recorded runs of vLLM 0.19: what they were, and how their files are read.

The recordings are not part of this repository: casys-kaist/LLMServingSim, bench/examples (MIT; Copyright (c) 2024,
CASYS Lab at KAIST), cut down to CSV: `requests.csv` and `timeseries.csv` in a folder for each run.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from kvlab.errors import MeasurementError

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """A run's settings, from its meta.json, and what is simulated for it."""

    key: str
    """Folder below `runs`."""
    title: str
    model: str
    gpu: str
    tensor_parallel_size: int
    profile: str
    num_gpu_blocks: int
    blocks_from: str
    max_num_seqs: int
    max_model_len: int
    kv_was_recorded: bool
    fitted: str
    refit: str | None
    """File beside this one with a step time that was fitted to the first half of the run only."""


SETUPS: Final = (
    Setup(
        key="RTX4090_Llama-3.1-8B",
        title="Llama-3.1-8B on an RTX 4090",
        model="meta-llama/Llama-3.1-8B",
        gpu="RTX-4090-24GB",
        tensor_parallel_size=1,
        profile="rtx-4090-llama-3.1-8b",
        num_gpu_blocks=2588,
        blocks_from="as the engine logged",
        max_num_seqs=256,
        max_model_len=32_768,
        kv_was_recorded=True,
        fitted=(
            "no number: the step time is the sum of kernels that were timed by themselves. That admissions need room "
            "for the whole prompt was told by this run, see below"
        ),
        refit=None,
    ),
    Setup(
        key="RTXPRO6000_Qwen3-32B",
        title="Qwen3-32B on two RTX PRO 6000",
        model="Qwen/Qwen3-32B",
        gpu="RTX-PRO-6000-96GB",
        tensor_parallel_size=2,
        profile="rtx-pro-6000-x2-qwen3-32b",
        num_gpu_blocks=27_194,
        blocks_from="from `kvlab capacity`, as the run recorded none; at most 40 % of them are taken",
        max_num_seqs=128,
        max_model_len=40_960,
        kv_was_recorded=False,
        fitted=(
            "three coefficients that kernels of one GPU don't tell: a base of decode steps and the all-reduce of a "
            "token in decode and in mixed steps; from the decode times of the 84 requests that end in the run's first "
            "40 % or last 10 %"
        ),
        refit="rtx-pro-6000-x2-qwen3-32b-first-half.json",
    ),
)


@dataclass(frozen=True, slots=True)
class Recording:
    """One run as it was recorded: columns by name; times in seconds since the first request."""

    setup: Setup
    requests: dict[str, Floats]
    """`prompt_tokens`, `output_tokens`, `arrival_s`, `queued_s`, `scheduled_s`, `first_token_s`, `last_token_s`."""
    seconds: dict[str, Floats]
    """`t`, `running`, `waiting`, `kv_cache_pct`, one value per second."""


def is_there(data: Path) -> bool:
    """Whether the folder holds the recordings of both runs."""
    return all((data / "runs" / setup.key / "requests.csv").is_file() for setup in SETUPS)


def read_recording(data: Path, setup: Setup) -> Recording:
    """The recording of a run.

    Raises:
        MeasurementError: a file can't be read or isn't such a table.
    """
    folder = data / "runs" / setup.key
    return Recording(setup, _columns(folder / "requests.csv"), _columns(folder / "timeseries.csv"))


def _columns(path: Path) -> dict[str, Floats]:
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream))
        return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}
    except (OSError, UnicodeDecodeError) as error:
        raise MeasurementError(str(path), f"can't be read: {getattr(error, 'strerror', None) or error}") from None
    except (IndexError, TypeError, ValueError) as error:
        raise MeasurementError(str(path), f"not a recording: {error}") from None

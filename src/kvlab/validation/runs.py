"""A recorded run simulated again: its arrivals, lengths and settings, and what comes out against what was recorded."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kvlab.core.config import Recording as Keep
from kvlab.core.config import VllmV1Config
from kvlab.core.engine import simulate
from kvlab.core.records import RunRecord
from kvlab.core.request import OpenLoop, Request
from kvlab.core.step_time import from_dict
from kvlab.sizing.compute import capacity
from kvlab.step_time.planning import chosen_profile
from kvlab.step_time.profiles import profile
from kvlab.units import NS_PER_S
from kvlab.validation.numbers import Errors, Figure, OverTime, RunNumbers
from kvlab.validation.recordings import SETUPS, Floats, Recording, Setup, read_recording

_DIGITS: Final = 6
"""Kept of a float, significant ones: enough to tell a change, and the same on every machine."""
_PARTS: Final = ("first quarter", "second quarter", "third quarter", "last quarter")
_MANY_BLOCKS: Final = 65_536
BATCHED_TOKENS: Final = 2_048
"""max_num_batched_tokens of both runs."""


@dataclass(frozen=True, slots=True)
class Times:
    """Of each request, in order of arrival, in seconds since the first one; of one run, real or simulated."""

    arrival: Floats
    admitted: Floats
    first: Floats
    last: Floats
    outputs: Floats

    @property
    def ttft(self) -> Floats:
        """First token - arrival."""
        return self.first - self.arrival

    @property
    def tpot(self) -> Floats:
        """Mean gap between the tokens of a request; every answer of these runs has two or more."""
        return (self.last - self.first) / (self.outputs - 1)


@dataclass(frozen=True, slots=True)
class Replayed:
    """A recording with its simulation."""

    recording: Recording
    record: RunRecord
    real: Times
    simulated: Times


def config_of(setup: Setup) -> VllmV1Config:
    """The settings of a run; prefix caching is on, and no two prompts are alike."""
    return VllmV1Config(
        num_gpu_blocks=setup.num_gpu_blocks,
        block_size=16,
        max_num_seqs=setup.max_num_seqs,
        max_num_batched_tokens=BATCHED_TOKENS,
        max_model_len=setup.max_model_len,
        enable_prefix_caching=True,
        step_time=profile(setup.profile).step_time,
    )


def replay(recording: Recording, config: VllmV1Config | None = None, clock: str = "queued_s") -> Replayed:
    """The run with its arrivals and lengths; what is known of the answers is their lengths.

    Args:
        config: None for the run's own settings.
        clock: column of the arrivals: at the engine (`queued_s`) or sent by the client (`arrival_s`).
    """
    columns = recording.requests
    order = np.argsort(columns[clock], kind="stable")
    sizes = zip(*(columns[name][order].tolist() for name in (clock, "prompt_tokens", "output_tokens")), strict=True)
    requests = [
        Request(number, round(at * NS_PER_S), int(prompt), (int(output),))
        for number, (at, prompt, output) in enumerate(sizes)
    ]
    record = simulate(
        config or config_of(recording.setup), OpenLoop(requests), recording=Keep(requests=True, steps=True)
    )
    outputs = columns["output_tokens"][order]
    real = [columns[name][order] for name in (clock, "scheduled_s", "first_token_s", "last_token_s")]
    found = np.array([(r.arrival_ns, r.admitted_ns, r.first_token_ns, r.finish_ns) for r in record.requests], float)
    return Replayed(recording, record, _times(real, outputs), _times(list(found.T / NS_PER_S), outputs))


def _times(columns: list[Floats], outputs: Floats) -> Times:
    arrival, admitted, first, last = columns
    return Times(arrival, admitted, first, last, outputs)


def simulate_runs(data: Path) -> tuple[tuple[RunNumbers, ...], tuple[Replayed, ...]]:
    """Both runs: their numbers, and what pictures are drawn from."""
    found = [(numbers_of(read_recording(data, setup))) for setup in SETUPS]
    return tuple(numbers for numbers, _ in found), tuple(replayed for _, replayed in found)


def numbers_of(recording: Recording) -> tuple[RunNumbers, Replayed]:
    """The figures of one run against the recorded ones."""
    setup = recording.setup
    done = replay(recording)
    numbers = RunNumbers(
        key=setup.key,
        title=setup.title,
        settings=_settings(setup),
        fitted=setup.fitted,
        figures=tuple(_figures(done)),
        over_time=tuple(_over_time(done)),
        parts=tuple(
            _errors(label, done, chosen) for label, chosen in zip(_PARTS, _quarters(len(done.real.first)), strict=True)
        ),
        variants=tuple(_variants(recording)),
        split=_split(recording),
        notes=tuple(_notes(done)),
    )
    return numbers, done


def _settings(setup: Setup) -> tuple[str, ...]:
    longest = f"max_model_len {setup.max_model_len:,}"
    return (
        "vLLM 0.19.0, bf16, prefix caching on, watermark 0, 300 requests",
        f"max_num_seqs {setup.max_num_seqs}, max_num_batched_tokens {BATCHED_TOKENS:,}, {longest}",
        f"{setup.num_gpu_blocks:,} blocks of 16 tokens, {setup.blocks_from}",
        f"step time `{setup.profile}`",
    )


def _figures(done: Replayed) -> list[Figure]:
    real, simulated = done.real, done.simulated
    tokens = float(real.outputs.sum())
    pairs: list[tuple[str, str, float, float]] = []
    for label, unit, scale, ours, theirs in (
        ("TTFT", "s", 1, simulated.ttft, real.ttft),
        ("TPOT", "ms", 1000, simulated.tpot, real.tpot),
        ("E2E", "s", 1, simulated.last - simulated.arrival, real.last - real.arrival),
    ):
        pairs.append((f"{label} mean", unit, scale * float(theirs.mean()), scale * float(ours.mean())))
        for percent in (50, 99):
            recorded, obtained = (scale * _nearest_rank(values, percent) for values in (theirs, ours))
            pairs.append((f"{label} p{percent}", unit, recorded, obtained))
    end, our_end = float(real.last.max()), float(simulated.last.max())
    pairs.append(("makespan", "s", end, our_end))
    pairs.append(("throughput", "output tokens/s", tokens / end, tokens / our_end))
    return [Figure(name=n, unit=u, real=_short(r), simulated=_short(s)) for n, u, r, s in pairs]


def _nearest_rank(values: Floats, percent: int) -> float:
    return float(np.sort(values)[-(-len(values) * percent // 100) - 1])


def _over_time(done: Replayed) -> list[OverTime]:
    seconds = done.recording.seconds
    lines = over_time(done)
    found = []
    for name, (real, simulated) in lines.items():
        ours = at_seconds(done, simulated, seconds["t"])
        found.append(
            OverTime(
                name=name,
                real_mean=_short(real.mean()),
                simulated_mean=_short(ours.mean()),
                mean_difference=_short(np.abs(real - ours).mean()),
                real_peak=_short(real.max()),
                simulated_peak=_short(simulated.max()),
            )
        )
    return found


def over_time(done: Replayed) -> dict[str, tuple[Floats, Floats]]:
    """Name -> recorded value of each second, simulated value of each step."""
    seconds, steps = done.recording.seconds, done.record.steps
    lines: dict[str, tuple[Floats, Floats]] = {
        "running": (seconds["running"], np.array([step.running for step in steps], float)),
        "waiting": (seconds["waiting"], np.array([step.waiting for step in steps], float)),
    }
    if done.recording.setup.kv_was_recorded:
        taken = np.array([step.reserved_tokens for step in steps], float)
        lines["KV cache taken, %"] = (seconds["kv_cache_pct"], 100 * taken / done.record.capacity_tokens)
    return lines


def at_seconds(done: Replayed, values: Floats, seconds: Floats) -> Floats:
    """Values of steps at moments in seconds: of the step that runs then; 0 after the last one."""
    ends = np.array([step.t_ns for step in done.record.steps], float) / NS_PER_S
    place = np.searchsorted(ends, seconds, side="left")
    return np.where(place < len(ends), values[np.minimum(place, len(ends) - 1)], 0.0)


def _quarters(count: int) -> list[npt.NDArray[np.bool_]]:
    part = np.arange(count) * len(_PARTS) // count
    return [part == number for number in range(len(_PARTS))]


def _errors(label: str, done: Replayed, chosen: npt.NDArray[np.bool_] | None = None) -> Errors:
    """Errors of the chosen requests; None for all."""
    real, simulated = done.real, done.simulated
    mask = np.ones(len(real.first), bool) if chosen is None else chosen
    pairs = (
        (simulated.ttft[mask].mean(), real.ttft[mask].mean()),
        (simulated.tpot[mask].mean(), real.tpot[mask].mean()),
        (simulated.last[mask].max(), real.last[mask].max()),
    )
    ttft, tpot, end = (round(100 * (float(ours / theirs) - 1), 3) for ours, theirs in pairs)
    return Errors(label=label, ttft_percent=ttft, tpot_percent=tpot, end_percent=end)


def _variants(recording: Recording) -> list[Errors]:
    """The run with one thing changed at a time."""
    own = config_of(recording.setup)
    setup = recording.setup
    blocks = _computed_blocks(setup)
    roofline = chosen_profile("roofline", gpu=setup.gpu, model=setup.model, tp=setup.tensor_parallel_size).step_time
    changed = {
        f"the pool that `kvlab capacity` computes, {blocks:,} blocks": replace(own, num_gpu_blocks=blocks),
        "a roofline as step time, as for a model that nobody measured": replace(own, step_time=roofline),
        "an admission needs room for its first chunk only": replace(own, reserve_full_prompt=False),
        "without prefix caching": replace(own, enable_prefix_caching=False),
        "a pool that never fills": replace(own, num_gpu_blocks=_MANY_BLOCKS),
    }
    return [
        _errors("as above", replay(recording)),
        _errors("arrivals by the client's clock", replay(recording, clock="arrival_s")),
        *(_errors(label, replay(recording, config)) for label, config in changed.items()),
    ]


def _computed_blocks(setup: Setup) -> int:
    """What the pool would be, had no log told it."""
    return capacity(
        model=setup.model,
        gpu=setup.gpu,
        tensor_parallel_size=setup.tensor_parallel_size,
        gpu_memory_utilization="0.9",
        engine_version="0.19",
        max_model_len=setup.max_model_len,
        max_num_batched_tokens=BATCHED_TOKENS,
        max_num_seqs=setup.max_num_seqs,
    ).num_gpu_blocks


def _split(recording: Recording) -> Errors | None:
    """Requests that end in the second half, with a step time that saw only those that end in the first."""
    name = recording.setup.refit
    if name is None:
        return None
    document: Any = json.loads((resources.files("kvlab.validation") / name).read_text(encoding="utf-8"))
    done = replay(recording, replace(config_of(recording.setup), step_time=from_dict(document, name)))
    late = done.real.last >= done.real.last.max() / 2
    return _errors(f"fitted to the first half; the {int(late.sum())} requests that end in the second", done, late)


def _notes(done: Replayed) -> list[str]:
    real, simulated = done.real, done.simulated
    waits = [times.first - times.admitted for times in (real, simulated)]
    means = [f"{1000 * float(wait.mean()):.0f} ms" for wait in waits]
    high = [f"{1000 * _nearest_rank(wait, 99):.0f} ms" for wait in waits]
    ends = [times.last - times.arrival for times in (real, simulated)]
    apart = np.sort(np.abs(ends[1] / ends[0] - 1))
    totals, capacity = done.record.totals, done.record.capacity_tokens
    return [
        f"From admission to the first token: {means[0]} in the run, {means[1]} simulated; p99 {high[0]} and {high[1]}.",
        f"One request's whole time is {100 * float(apart.mean()):.1f} % off on average, "
        f"{100 * float(apart[int(0.95 * len(apart))]):.1f} % at the 95th percentile.",
        f"First token of the run's first request: {float(real.first[0]):.2f} s in the run, "
        f"{float(simulated.first[0]):.2f} s simulated.",
        f"Simulated: {totals.preemptions:,} preemptions; at most {100 * totals.peak_reserved_tokens / capacity:.0f} % "
        "of the blocks are taken. The recording has no preemptions.",
    ]


def _short(value: float | np.floating[Any]) -> float:
    return float(f"{float(value):.{_DIGITS}g}")

"""The smallest GPU, and the fewest of them, with which a server keeps a service level.

Smallest is the least memory of all its GPUs together; of equally large ones the fewest, then the slowest memory. Nobody
knows prices here. What would not start is told, not simulated; where the first seed fails, others are not tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from kvlab.advice.goals import Goal, check_goals
from kvlab.advice.served import TURNED_AWAY, keeps, paired_seeds, turned_away
from kvlab.errors import ConfigError, KvlabError
from kvlab.scenarios import Scenario
from kvlab.servers import LINEAR, VllmServer
from kvlab.setting_table import VLLM_V0, VLLM_V1
from kvlab.sizing.gpus import Gpu, gpu_names
from kvlab.sizing.gpus import gpu as find_gpu
from kvlab.sweeps.outcome import Outcome
from kvlab.sweeps.workers import Executor, at_work
from kvlab.tabular import Tabular

if TYPE_CHECKING:
    import pyarrow as pa

SIZES: Final = (1, 2, 4, 8)
"""Tensor parallel sizes that are tried."""
HOLDS: Final = "holds"
FAILS: Final = "fails"
NO_START: Final = "would not start"
_AT_ONCE: Final = 4
"""Candidates whose first seeds run together."""
_ALSO_SHOWN: Final = ("throughput_tokens_per_s", "peak_kv_usage_ratio")
_DEFAULT_STEP_TIMES: Final = ("auto", "roofline")
_GIVEN_MEMORY: Final = ("num_gpu_blocks_override", "kv_cache_memory_bytes")
_NO_BF16: Final = "no BF16"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A kind of GPU and how many of them, and what became of it."""

    gpu: str
    tensor_parallel_size: int
    num_gpus: int
    """Of the whole server, pipeline stages included."""
    memory_bytes: int
    """Of all its GPUs."""
    step_times: str
    """"measured", or "estimated" by a roofline; empty where it would not start."""
    band_percent: int | None
    """How far off an estimate may be, either way."""
    verdict: str
    """holds, fails or would not start."""
    why: str
    """What failed; empty where it holds."""
    seeds_kept: int
    seeds_tried: int
    metrics: Mapping[str, float | None]
    """Median over the seeds tried; empty where it would not start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPlan(Tabular):
    """The answer, and everything smaller that was tried."""

    scenario: Scenario
    goals: tuple[Goal, ...]
    seeds: tuple[int, ...]
    tried: tuple[Candidate, ...]
    """Smallest first."""
    runs: int

    @property
    def answer(self) -> Candidate | None:
        """The smallest that keeps all goals with every seed; None where none does."""
        return next((candidate for candidate in self.tried if candidate.verdict == HOLDS), None)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "slo": [goal.text for goal in self.goals],
            "seeds": list(self.seeds),
            "answer": None if self.answer is None else _row(self.answer),
            "tried": [_row(candidate) for candidate in self.tried],
            "runs": self.runs,
        }

    def table(self) -> pa.Table:
        """One row per candidate; metrics are empty where it would not start."""
        import pyarrow as pa

        names = dict.fromkeys((*(goal.metric for goal in self.goals), *_ALSO_SHOWN))
        rows = []
        for candidate in self.tried:
            row = _row(candidate)
            del row["metrics"]
            rows.append(row | {name: candidate.metrics.get(name) for name in names})
        return pa.Table.from_pylist(rows)


def smallest_gpu(
    scenario: Scenario,
    goals: Sequence[Goal],
    *,
    gpus: Sequence[str] = (),
    sizes: Sequence[int] = SIZES,
    seeds: Sequence[int] = (),
    executor: Executor | None = None,
) -> GpuPlan:
    """The smallest GPUs that keep all goals with every seed, looked for from the smallest on.

    Args:
        gpus: names of the table; by default all of it.
        sizes: tensor parallel sizes.
        seeds: of the traffic; by default three from the scenario's own on. A trace has none.
    Raises:
        ConfigError: a lab, which has no GPU by name; KV memory or step times that are the same on every GPU.
        UnknownNameError: no such GPU.
    """
    check_goals(goals, scenario)
    _check(scenario)
    chosen = paired_seeds(scenario, seeds, usual=3)
    wanted = list(dict.fromkeys(find_gpu(name).name for name in (gpus or gpu_names())))
    open_ = [_opened(scenario, find_gpu(name), size) for name in wanted for size in sizes]
    open_.sort(key=lambda trial: trial.order)
    with at_work(executor) as run:
        search = _Search(goals, chosen, run)
        tried = tuple(search.until_one_holds(open_))
    return GpuPlan(scenario=scenario, goals=tuple(goals), seeds=chosen, tried=tried, runs=search.runs)


@dataclass(frozen=True, slots=True)
class _Trial:
    candidate: Candidate
    scenario: Scenario | None
    """None where it would not start."""
    order: tuple[int, int, int, str]


def _check(scenario: Scenario) -> None:
    server = scenario.server
    if not isinstance(server, VllmServer):
        remedy = f"has no GPU of a name: take {VLLM_V1} or {VLLM_V0}, or plan --least gpu_memory_bytes"
        raise ConfigError("rules", scenario.rules, remedy)
    for name in _GIVEN_MEMORY:
        if (value := getattr(server, name, None)) is not None:
            raise ConfigError(name, value, "is the same on every GPU: leave it out, so that each has what it holds")
    if server.step_time not in _DEFAULT_STEP_TIMES:
        known = " or ".join(_DEFAULT_STEP_TIMES)
        why = "is the same on every GPU" if server.step_time == LINEAR else "is of one GPU"
        raise ConfigError("step_time", server.step_time, f"{why}: set it to {known}")
    scenario.source().next_arrival_ns()


def _opened(scenario: Scenario, gpu: Gpu, size: int) -> _Trial:
    """A candidate before anything ran; what is wrong with it, if it would not start."""
    stages = getattr(scenario.server, "pipeline_parallel_size", 1)
    num = size * stages
    candidate = Candidate(
        gpu=gpu.name, tensor_parallel_size=size, num_gpus=num, memory_bytes=num * gpu.memory_bytes, step_times="",
        band_percent=None, verdict=NO_START, why="", seeds_kept=0, seeds_tried=0, metrics={},
    )  # fmt: skip
    order = (candidate.memory_bytes, num, gpu.memory_bandwidth_bytes_per_s, gpu.name)
    try:
        changed = scenario.replace(gpu=gpu.name, tensor_parallel_size=size)
        changed.engine_config()
        server = changed.server
        assert isinstance(server, VllmServer)
        if _NO_BF16 in gpu.notes and server.capacity().plan.weight_dtype == "bf16":
            raise ConfigError("weight_dtype", "bf16", "this GPU has no BF16: set weight_dtype to fp16")
        profile = server.profile()
    except KvlabError as error:
        return _Trial(replace(candidate, why=_short(error)), None, order)
    assert profile is not None, "linear was refused"
    kind = "estimated" if profile.assumed else "measured"
    return _Trial(replace(candidate, step_times=kind, band_percent=profile.band_percent), changed, order)


class _Search:
    def __init__(self, goals: Sequence[Goal], seeds: Sequence[int], executor: Executor) -> None:
        self._goals = goals
        self._seeds = seeds
        self._executor = executor
        self.runs = 0

    def until_one_holds(self, trials: Sequence[_Trial]) -> Iterator[Candidate]:
        """In order, up to and with the first that keeps all goals with every seed."""
        ahead: dict[int, Outcome] = {}
        starting = [number for number, trial in enumerate(trials) if trial.scenario is not None]
        for number, trial in enumerate(trials):
            if trial.scenario is None:
                yield trial.candidate
                continue
            if number not in ahead:
                batch = [one for one in starting if one >= number][:_AT_ONCE]
                found = self._run([(trials[one], self._seeds[0]) for one in batch])
                ahead |= {one: found[place] for place, one in enumerate(batch)}
            outcomes = [ahead[number]]
            if keeps(ahead[number].metrics, self._goals):
                rest = self._run([(trial, seed) for seed in self._seeds[1:]])
                outcomes += [rest[place] for place in sorted(rest)]
            judged = self._judged(trial.candidate, outcomes)
            yield judged
            if judged.verdict == HOLDS:
                return

    def _run(self, wanted: Sequence[tuple[_Trial, int]]) -> dict[int, Outcome]:
        scenarios = [trial.scenario.replace(seed=seed) for trial, seed in wanted if trial.scenario is not None]
        self.runs += len(scenarios)
        return dict(self._executor(enumerate(scenarios)))

    def _judged(self, candidate: Candidate, outcomes: Sequence[Outcome]) -> Candidate:
        kept = sum(keeps(outcome.metrics, self._goals) for outcome in outcomes)
        failed = [goal for goal in self._goals if not all(_met(goal, outcome) for outcome in outcomes)]
        error = next((outcome.error for outcome in outcomes if outcome.error is not None), None)
        names = dict.fromkeys((*(goal.metric for goal in self._goals), *_ALSO_SHOWN))
        return replace(
            candidate,
            verdict=HOLDS if kept == len(self._seeds) else FAILS,
            why=error or "; ".join([*self._refused(outcomes), *(goal.text for goal in failed)]),
            seeds_kept=kept,
            seeds_tried=len(outcomes),
            metrics={name: _middle(outcomes, name) for name in names},
        )

    def _refused(self, outcomes: Sequence[Outcome]) -> list[str]:
        """How many requests got no answer, where no goal is about that."""
        most = max(turned_away(outcome.metrics or {}) for outcome in outcomes)
        is_goal = any(goal.metric in TURNED_AWAY for goal in self._goals)
        return [f"{most:,} requests turned away"] if most and not is_goal else []


def _met(goal: Goal, outcome: Outcome) -> bool:
    return outcome.metrics is not None and goal.met_by(outcome.metrics)


def _middle(outcomes: Sequence[Outcome], metric: str) -> float | None:
    values = [outcome.metrics[metric] for outcome in outcomes if outcome.metrics is not None]
    present = [float(value) for value in values if value is not None]
    return median(present) if present else None


def _short(error: KvlabError) -> str:
    """The first sentence of what the engine, or the sizing, says."""
    text = error.remedy if isinstance(error, ConfigError) else str(error)
    text = text.removeprefix("vLLM would not start: ")
    return text.split(". ")[0].rstrip(".")


def _row(candidate: Candidate) -> dict[str, Any]:
    return {
        "gpu": candidate.gpu,
        "tensor_parallel_size": candidate.tensor_parallel_size,
        "num_gpus": candidate.num_gpus,
        "memory_bytes": candidate.memory_bytes,
        "step_times": candidate.step_times,
        "band_percent": candidate.band_percent,
        "verdict": candidate.verdict,
        "why": candidate.why,
        "seeds_kept": candidate.seeds_kept,
        "seeds_tried": candidate.seeds_tried,
        "metrics": dict(candidate.metrics),
    }

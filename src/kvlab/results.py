"""What a run gives its user: metrics, columns per request and per step, the memory map, files and pictures."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from kvlab.columns import Columns, preemption_columns, request_columns, step_columns
from kvlab.core.config import EngineConfig
from kvlab.core.records import RunRecord
from kvlab.errors import ConfigError
from kvlab.memory_map import MemoryMap, memory_map
from kvlab.metrics import Metrics, summarize
from kvlab.units import format_duration

if TYPE_CHECKING:
    import plotly.graph_objects as go

FORMAT_VERSION: Final = 1
"""Of `Run.to_dict`."""


class ScenarioLike(Protocol):
    """What a run was asked for. Results carry it along and never look inside."""

    @property
    def name(self) -> str:
        """For titles."""

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Run:
    """The frozen results of one run. Everything but `record` is computed when it is first asked for, then kept."""

    scenario: ScenarioLike
    record: RunRecord
    config: EngineConfig
    """What the engine was given."""
    window_ns: int | None = None
    """End of the arrival window; None without one."""
    kv_bytes_per_token: int | None = None

    def __repr__(self) -> str:
        totals = self.record.totals
        kept = [what for what in ("requests", "steps", "stays") if getattr(self.record, what)]
        return (
            f"<Run {self.scenario.name}: {totals.finished:,} of {totals.arrived:,} requests finished in "
            f"{totals.steps:,} steps, {format_duration(totals.end_ns)}; kept: {', '.join(kept) or 'metrics only'}>"
        )

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone, for process pools: what was computed from them is computed again."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def metrics(self) -> Metrics:
        """Every figure of the run, by name."""
        return summarize(self.record, window_ns=self.window_ns, kv_bytes_per_token=self.kv_bytes_per_token)

    @property
    def interrupted(self) -> bool:
        """The run was stopped before its end: every figure is of the part that ran."""
        return self.record.interrupted

    @cached_property
    def full_ns(self) -> int | None:
        """Start of the first step that found memory full: all of it taken, or a request preempted. None: never.

        Raises:
            ConfigError: the run didn't record its steps.
        """
        self._need_steps()
        capacity = self.record.capacity_tokens
        full = (step for step in self.record.steps if step.reserved_tokens == capacity or step.preempted)
        first = next(full, None)
        return None if first is None else first.t_ns - first.dur_ns

    @cached_property
    def requests(self) -> Columns:
        """One column per field of `RequestRecord`, by id; -1 stands for None.

        Raises:
            ConfigError: the run didn't record its requests.
        """
        self._need(bool(self.record.requests) or not self.record.totals.arrived, "requests")
        return request_columns(self.record.requests)

    @cached_property
    def timeline(self) -> Columns:
        """One column per figure of `StepRecord`, by step, with lists counted (`num_preempted`, ...).

        Raises:
            ConfigError: the run didn't record its steps.
        """
        self._need_steps()
        return step_columns(self.record.steps)

    @cached_property
    def preemptions(self) -> Columns:
        """One row per preemption: `t_ns` (start of its step), `step`, `request_id`, `outcome` (recompute or swap).

        Raises:
            ConfigError: the run didn't record its steps.
        """
        self._need_steps()
        return preemption_columns(self.record.steps)

    def memory_at(self, *, t_ns: int | None = None, step: int | None = None) -> MemoryMap:
        """Who held which memory, at a time in ns or in a step (from 0; -1 is the last).

        A time shows the step that was running then; between steps and after the last one all memory is free.

        Raises:
            ConfigError: neither or both are given, no whole number, the step doesn't exist, or the run didn't record
                its memory.
        """
        if (t_ns is None) == (step is None):
            raise ConfigError("t_ns", t_ns, "give either t_ns or step")
        self._need_steps()
        self._need(bool(self.record.stays) or not self.record.steps, "memory")
        if t_ns is not None:
            t_ns = _whole("t_ns", t_ns, "of ns, such as 60_000_000_000 for 60 s")
            number = self._step_at(t_ns)
            return memory_map(self.config, self.record.stays, step=number, t_ns=t_ns)
        step = _whole("step", step, "from 0")
        count = len(self.record.steps)
        if not -count <= step < count:
            raise ConfigError("step", step, f"the run has {count:,} steps")
        number = step % count
        start_ns = self.record.steps[number].t_ns - self.record.steps[number].dur_ns
        return memory_map(self.config, self.record.stays, step=number, t_ns=start_ns)

    def _step_at(self, t_ns: int) -> int | None:
        if t_ns < 0:
            raise ConfigError("t_ns", t_ns, "a run begins at 0")
        # a stopped run never freed what its last step held
        if self.interrupted and self.record.steps:
            t_ns = min(t_ns, self.record.totals.end_ns - 1)
        number = int(np.searchsorted(self.timeline["t_ns"], t_ns, side="right"))
        runs = number < len(self.record.steps) and self.timeline["start_ns"][number] <= t_ns
        return number if runs else None

    def to_dict(self) -> dict[str, Any]:
        """The scenario and every metric, ready for JSON; what `kvlab run --json` prints."""
        return {
            "kvlab_result": FORMAT_VERSION,
            "scenario": self.scenario.to_dict(),
            "interrupted": self.interrupted,
            "percentiles_exact": self.metrics.percentiles_exact,
            "metrics": self.metrics.to_dict(),
        }

    def write(self, directory: str | Path, format: str = "parquet") -> tuple[Path, ...]:
        """Write result.json and the tables that were recorded (requests, timeline, preemptions) into a directory.

        The directory is made if it's missing. Either all files are there at the end or none that wasn't before.
        Tables of an earlier run in the same directory go, whatever their format.

        Raises:
            UnknownNameError: a format other than parquet and csv.
            OutputError: no permission, no space, or the directory is a file.
        """
        from kvlab.export import write_run

        return write_run(self, Path(directory), format)

    def plot(self, path: str | Path | None = None, *, theme: str = "light") -> go.Figure | Path:
        """KV usage, queue, preemptions and latencies in one picture.

        Args:
            path: .html (one interactive file that needs no network), .png or .svg; None returns a plotly figure.
            theme: light or dark.
        Raises:
            ConfigError: another file type, an unknown theme, or the run didn't record its steps.
            OutputError: the file can't be written.
        """
        from kvlab import plots

        return plots.figure(self, theme=theme) if path is None else plots.save(self, Path(path), theme=theme)

    def _need_steps(self) -> None:
        self._need(bool(self.record.steps) or not self.record.totals.steps, "steps")

    def _need(self, kept: bool, what: str) -> None:
        if not kept:
            raise ConfigError(
                "record", "without " + what, f"this run kept no {what}; simulate with Recording({what}=True)"
            )


def _whole(name: str, value: object, what: str) -> int:
    """An int, or a number of numpy that is one."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return int(value)
    raise ConfigError(name, value, f"expected a whole number {what}")

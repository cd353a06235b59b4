"""Runs side by side: every metric's change against the first, and whether that is better or worse.

Runs are compared as their JSON says them, so a live run and its result file are equal to the last digit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from kvlab.errors import ConfigError, ScenarioError
from kvlab.metrics import METRICS, Metric
from kvlab.results import FORMAT_VERSION, Run
from kvlab.strict_json import unique_keys

Number = int | float | None
Verdict = Literal["better", "worse", "same", "changed", "unknown"]
"""changed: different, and neither way is better by itself. unknown: one side has nothing to measure."""

MAX_FILE_BYTES: Final = 2**24
_MOST: Final = 10**30
"""No figure of a run comes near, and every change of smaller ones is a finite float."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What comparisons need of a run."""

    name: str
    scenario: Mapping[str, Any]
    interrupted: bool
    metrics: Mapping[str, Number]

    @classmethod
    def of(cls, run: Run, name: str | None = None) -> Result:
        """The result of a run, called `name` or else what its scenario is called."""
        return cls._from_dict(run.to_dict(), name or run.scenario.name)

    @classmethod
    def read(cls, path: str | Path, name: str | None = None) -> Result:
        """The result in a file that `kvlab run --json` or `Run.write` made.

        Raises:
            ScenarioError: the file can't be read or isn't a result of this version.
        """
        path = Path(path)
        try:
            if path.stat().st_size > MAX_FILE_BYTES:
                raise ScenarioError(
                    f"{path}: too big for a result: {path.stat().st_size:,} bytes, {MAX_FILE_BYTES:,} at most"
                )
            document = json.loads(
                path.read_text(encoding="utf-8"), parse_constant=_no_constant, object_pairs_hook=unique_keys
            )
        except OSError as error:
            raise ScenarioError(f"{path}: can't be read: {error.strerror or error}") from error
        except (ValueError, RecursionError) as error:
            raise ScenarioError(f"{path}: not JSON: {error}") from None
        if not is_result(document):
            raise ScenarioError(f'{path}: not a result: make one with "kvlab run ... --json > {path.name}"')
        if document["kvlab_result"] != FORMAT_VERSION:
            found = document["kvlab_result"]
            raise ScenarioError(f"{path}: a result of version {found}; this kvlab reads version {FORMAT_VERSION}")
        try:
            scenario = document["scenario"]
            if not isinstance(scenario, dict) or not isinstance(scenario.get("traffic"), dict):
                raise TypeError("scenario is no object with traffic")
            return cls._from_dict(document, name or str(scenario["name"]))
        except KeyError as missing:
            raise ScenarioError(f"{path}: a damaged result: {missing} is missing") from None
        except (TypeError, ValueError) as error:
            raise ScenarioError(f"{path}: a damaged result: {error}") from None

    @classmethod
    def _from_dict(cls, document: Mapping[str, Any], name: str) -> Result:
        """Raises KeyError, TypeError or ValueError for what no run gives."""
        metrics, interrupted = document["metrics"], document["interrupted"]
        if not isinstance(metrics, dict):
            raise TypeError("metrics is no object")
        if not isinstance(interrupted, bool):
            raise TypeError(f"interrupted is {interrupted!r}, expected true or false")
        for metric in METRICS:
            _check_figure(metric, metrics.get(metric))
        missing = [metric for metric in METRICS if metric not in metrics]
        if missing:
            raise ValueError(f"metric {missing[0]} is missing")
        _check_accounts(metrics)
        return cls(
            name=name,
            scenario=document["scenario"],
            interrupted=interrupted,
            metrics={metric: metrics[metric] for metric in METRICS},
        )

    @property
    def traffic(self) -> Mapping[str, Any]:
        """The settings of the traffic; the preemption lab's leave out that every request has one sample."""
        return {"num_samples": 1, **self.scenario.get("traffic", {})}


class Change(NamedTuple):
    """One metric of one run against the first run's."""

    value: Number
    delta: Fraction | None
    """value - first value, exact; None where one of them is missing."""
    ratio: Fraction | None
    """delta / first value; None where that is 0 or missing."""
    verdict: Verdict


class Row(NamedTuple):
    """One metric across all runs."""

    metric: Metric
    first: Number
    changes: tuple[Change, ...]
    """One per run after the first."""

    @property
    def differs(self) -> bool:
        """Whether any run differs from the first."""
        return any(change.verdict != "same" for change in self.changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Runs against the first of them."""

    results: tuple[Result, ...]
    rows: tuple[Row, ...]
    """One per metric that any of the runs has, in the order of the catalog."""
    same_traffic: bool
    """All had the same requests: differences come from the server."""

    def row(self, name: str) -> Row:
        """The row of one metric."""
        return next(row for row in self.rows if row.metric.name == name)

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "runs": [{"name": result.name, "interrupted": result.interrupted} for result in self.results],
            "same_traffic": self.same_traffic,
            "metrics": {
                row.metric.name: {
                    "values": [row.first, *(change.value for change in row.changes)],
                    "deltas": [None if change.delta is None else float(change.delta) for change in row.changes],
                    "verdicts": [change.verdict for change in row.changes],
                }
                for row in self.rows
            },
        }


def compare(results: Sequence[Result | Run]) -> Comparison:
    """Compares each result with the first.

    Raises:
        ConfigError: fewer than two results.
    """
    if len(results) < 2:
        raise ConfigError("runs", len(results), "a comparison needs at least two")
    known = tuple(result if isinstance(result, Result) else Result.of(result) for result in results)
    first, *others = known
    return Comparison(
        results=known,
        rows=tuple(
            Row(
                metric,
                first.metrics[name],
                tuple(_change(metric, first.metrics[name], o.metrics[name]) for o in others),
            )
            for name, metric in METRICS.items()
            if any(result.metrics[name] is not None for result in known)
        ),
        same_traffic=all(other.traffic == first.traffic for other in others),
    )


def _no_constant(word: str) -> None:
    raise ValueError(f"{word} is no number")


def _check_figure(metric: str, value: object) -> None:
    if value is None:
        return
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"metric {metric} is {value!r}, expected a number")
    if not 0 <= value <= _MOST:
        raise ValueError(f"metric {metric} is {str(value)[:20]}, expected 0 to {_MOST:.0e}")


def _check_accounts(metrics: Mapping[str, Any]) -> None:
    counts = [metrics[name] for name in ("arrived", "finished", "rejected", "unfinished")]
    arrived, *ended = counts
    if any(not isinstance(count, int) for count in counts) or arrived != sum(ended):
        shown = " + ".join(map(str, ended))
        raise ValueError(f"arrived is {arrived}, but finished + rejected + unfinished is {shown}")


def is_result(document: object) -> bool:
    """Whether a parsed JSON document says that it's the result of a run."""
    return isinstance(document, dict) and "kvlab_result" in document


def _change(metric: Metric, first: Number, value: Number) -> Change:
    if first is None or value is None:
        return Change(value, None, None, "same" if first is value else "unknown")
    delta = Fraction(value) - Fraction(first)
    ratio = delta / Fraction(first) if first else None
    return Change(value, delta, ratio, _verdict(metric, delta))


def _verdict(metric: Metric, delta: Fraction) -> Verdict:
    if not delta:
        return "same"
    if metric.better is None:
        return "changed"
    return "better" if (delta < 0) == (metric.better == "lower") else "worse"

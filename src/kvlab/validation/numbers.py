"""The numbers that the page shows, as frozen values and as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from importlib import resources
from typing import Any, Final

FORMAT: Final = 1
AIM_PERCENT: Final = 5.0
"""How near mean TTFT, mean TPOT and makespan of a real run should come."""

NOT_SIMULATED: Final = "not simulated"
"""What is obtained where nothing can be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure of a real run beside the simulated one, in `unit`."""

    name: str
    unit: str
    real: float
    simulated: float

    @property
    def error_percent(self) -> float:
        """Signed, of the real one: above 0 where the simulated figure is larger."""
        return 100 * (self.simulated / self.real - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class OverTime:
    """One line of a run over time, once a second."""

    name: str
    real_mean: float
    simulated_mean: float
    mean_difference: float
    """Mean of absolute differences at the same second."""
    real_peak: float
    simulated_peak: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """Signed errors in per cent of three means, for some of a run's requests or for other settings."""

    label: str
    ttft_percent: float
    tpot_percent: float
    end_percent: float
    """Of the last token of the last of these requests: of all of them, the makespan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNumbers:
    """One real run and its simulation."""

    key: str
    """Folder of the recording."""
    title: str
    settings: tuple[str, ...]
    fitted: str
    """What of the step time was fitted to this very run."""
    figures: tuple[Figure, ...]
    over_time: tuple[OverTime, ...]
    parts: tuple[Errors, ...]
    """By quarter of the requests, in order of arrival."""
    variants: tuple[Errors, ...]
    split: Errors | None
    """The second half, where all that is fitted to the run is fitted to its first half; None: nothing is fitted."""
    notes: tuple[str, ...]

    def figure(self, name: str) -> Figure:
        """The figure of that name."""
        return next(found for found in self.figures if found.name == name)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckNumbers:
    """One expectation of a case and what came out."""

    what: str
    expected: str
    obtained: str
    holds: bool
    tolerance: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseNumbers:
    """One public case with its checks."""

    id: str
    title: str
    source: str
    how: str
    """What was simulated or computed, and what of it is ours."""
    checks: tuple[CheckNumbers, ...]
    why: str
    """Why a check misses; empty where all hold."""

    @property
    def holds(self) -> bool:
        """Whether every check does."""
        return all(check.holds for check in self.checks)

    @property
    def verdict(self) -> str:
        """In two words."""
        if self.holds:
            return "holds"
        if all(check.obtained == NOT_SIMULATED for check in self.checks):
            return NOT_SIMULATED
        return f"{sum(check.holds for check in self.checks)} of {len(self.checks)} hold"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkRow:
    """One watermark of U01: the report, and the range over seeds."""

    percent: float
    reported_preemptions: int
    reported_tokens_per_s: float
    preemptions: tuple[int, ...]
    """One per seed, in order of seeds."""
    tokens_per_s: tuple[float, ...]
    ttft_p50_s: tuple[float, ...]
    gap_p99_ms: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """The table of U01."""

    how: str
    seeds: tuple[int, ...]
    rows: tuple[WatermarkRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """All that is on the page and not computed while it is made."""

    runs: tuple[RunNumbers, ...]
    cases: tuple[CaseNumbers, ...] = ()
    watermark: Watermark | None = None
    format: int = field(default=FORMAT)

    def to_json(self) -> str:
        """A document that `read` reads back as an equal value."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n"

    def with_runs(self, runs: tuple[RunNumbers, ...]) -> Numbers:
        """The same with other runs."""
        return replace(self, runs=runs)


def read(text: str) -> Numbers:
    """The numbers of a document.

    Raises:
        TypeError, KeyError, ValueError: it is none.
    """
    document: dict[str, Any] = json.loads(text)
    if document["format"] != FORMAT:
        raise ValueError(f"numbers of format {document['format']}, expected {FORMAT}")
    return Numbers(
        runs=tuple(_run(item) for item in document["runs"]),
        cases=tuple(_case(item) for item in document["cases"]),
        watermark=None if document["watermark"] is None else _watermark(document["watermark"]),
    )


def committed() -> Numbers:
    """Those that come with the package."""
    return read((resources.files("kvlab.validation") / "numbers.json").read_text(encoding="utf-8"))


def _run(item: dict[str, Any]) -> RunNumbers:
    kinds: dict[str, Any] = {"figures": Figure, "over_time": OverTime, "parts": Errors, "variants": Errors}
    lists = {name: tuple(kind(**row) for row in item[name]) for name, kind in kinds.items()}
    texts = {name: tuple(item[name]) for name in ("settings", "notes")}
    split = None if item["split"] is None else Errors(**item["split"])
    return RunNumbers(**{**item, **lists, **texts, "split": split})


def _case(item: dict[str, Any]) -> CaseNumbers:
    return CaseNumbers(**{**item, "checks": tuple(CheckNumbers(**check) for check in item["checks"])})


def _watermark(item: dict[str, Any]) -> Watermark:
    rows = []
    for row in item["rows"]:
        values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in row.items()}
        rows.append(WatermarkRow(**values))
    return Watermark(**{**item, "seeds": tuple(item["seeds"]), "rows": tuple(rows)})

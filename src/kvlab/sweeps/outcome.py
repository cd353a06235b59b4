"""One scenario of a sweep: its key, its run, and what is kept of it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from kvlab.core.records import RunRecord
from kvlab.errors import KvlabError
from kvlab.scenarios import Scenario
from kvlab.version import __version__

FORMAT: Final = 1
_BLOCK: Final = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a scenario."""

    metrics: dict[str, int | float | None] | None
    """By name; None where it could not be run."""
    error: str | None = None
    """Why it could not be run."""

    def to_json(self) -> str:
        """One line; `from_json` reads it back as an equal value."""
        document = {"format": FORMAT, "metrics": self.metrics, "error": self.error}
        return json.dumps(document, separators=(",", ":"), ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Outcome:
        """
        Raises:
            ValueError: not such a line.
        """
        from kvlab.metrics import METRICS

        document = json.loads(text)
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise ValueError("not an outcome")
        metrics = document["metrics"]
        if metrics is not None and metrics.keys() != METRICS.keys():
            raise ValueError("not the metrics of this version")
        return cls(metrics=metrics, error=document["error"])


def key_of(scenario: Scenario) -> str:
    """A name for all that decides a run: the scenario, the content of its trace, the version of kvlab."""
    document: dict[str, Any] = scenario.to_dict()
    del document["name"]
    for file in (scenario.traffic.trace, getattr(scenario.server, "model", None)):
        if file is not None and Path(file).is_file():
            document[f"content of {file}"] = _digest(file, Path(file).stat().st_mtime_ns)
    text = json.dumps([__version__, FORMAT, document], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


@lru_cache(maxsize=64)
def _digest(path: str, mtime_ns: int) -> str:
    """Of a file's content; `mtime_ns` makes a changed file another one."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def run_one(scenario: Scenario) -> Outcome:
    """Simulates one scenario with metrics only; what its user got wrong is told, not raised."""
    from kvlab.core.engine import simulate

    try:
        record = simulate(scenario.engine_config(), scenario.source(), window_ns=scenario.window_ns, slo=scenario.slo)
        return outcome_of(scenario, record)
    except KvlabError as error:
        return Outcome(metrics=None, error=str(error))


def outcome_of(scenario: Scenario, record: RunRecord) -> Outcome:
    """What is kept of a run."""
    from kvlab.metrics import summarize

    metrics = summarize(record, window_ns=scenario.window_ns, kv_bytes_per_token=scenario.kv_bytes_per_token)
    return Outcome(metrics={name: _plain(value) for name, value in metrics.values().items()})


def _plain(value: int | float | Fraction | None) -> int | float | None:
    """Exact where whole; the nearest double of a fraction."""
    return float(value) if isinstance(value, Fraction) else value

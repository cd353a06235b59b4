"""A deterministic simulator of the KV cache of an LLM server and of the scheduler around it.

    import kvlab

    run = kvlab.simulate(kvlab.scenario("preemption-lab", max_num_seqs=48))
    run.metrics.p99_gap_ns, run.requests["max_gap_ns"], run.memory_at(t_ns=60_000_000_000).owner
    run.plot("run.html")

The names load what they need when they are first used.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in `typing`, whose import Ctrl-C could still break into (see kvlab.cli)
if TYPE_CHECKING:
    from typing import Any

    from kvlab.api import advise, compare, plan, scenario, simulate, sweep
    from kvlab.core.config import EVERYTHING, METRICS, Recording, Slo
    from kvlab.errors import KvlabError
    from kvlab.results import Run
    from kvlab.scenarios import Scenario
    from kvlab.sizing.compute import capacity
    from kvlab.sizing.result import Capacity
    from kvlab.version import __version__

__all__ = [
    "EVERYTHING",
    "METRICS",
    "Capacity",
    "KvlabError",
    "Recording",
    "Run",
    "Scenario",
    "Slo",
    "__version__",
    "advise",
    "capacity",
    "compare",
    "plan",
    "scenario",
    "simulate",
    "sweep",
]

_HOMES = {
    "EVERYTHING": "kvlab.core.config",
    "METRICS": "kvlab.core.config",
    "Capacity": "kvlab.sizing.result",
    "KvlabError": "kvlab.errors",
    "Recording": "kvlab.core.config",
    "Run": "kvlab.results",
    "Scenario": "kvlab.scenarios",
    "Slo": "kvlab.core.config",
    "__version__": "kvlab.version",
    "advise": "kvlab.api",
    "capacity": "kvlab.sizing.compute",
    "compare": "kvlab.api",
    "plan": "kvlab.api",
    "scenario": "kvlab.api",
    "simulate": "kvlab.api",
    "sweep": "kvlab.api",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'kvlab' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})

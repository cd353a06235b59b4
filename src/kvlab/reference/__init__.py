"""The slow, obvious engines: MODEL.md as a program, which the fast engine is compared with.

An object per sequence, real block lists, a loop over everything in every step. What a run sums up to is computed
afterwards, from complete logs. A new rule is written here first.
"""

from __future__ import annotations

from kvlab.core.config import LabConfig, PreemptionLabConfig, Slo, VllmV0Config
from kvlab.core.request import RequestSource
from kvlab.reference import vllm_v0
from kvlab.reference.block_table_lab import BlockTableLab
from kvlab.reference.log import ReferenceRun
from kvlab.reference.loop import run
from kvlab.reference.preemption_lab import PreemptionLab


def simulate(
    config: LabConfig | VllmV0Config,
    source: RequestSource,
    *,
    window_ns: int | None = None,
    slo: Slo | None = None,
    tables_every: int = 1,
) -> ReferenceRun:
    """Run `source` to its end, which consumes it, and keep everything.

    Args:
        window_ns: end of the arrival window, for `Totals.output_tokens_in_window`; None counts every token.
        slo: what makes a finished request a good one; None calls all of them good.
        tables_every: block tables are kept of steps 0, n, 2n, ...: they are most of what a long run remembers.
    Raises:
        ConfigError: a request that the lab's rules do not describe (MODEL.md).
    """
    if isinstance(config, VllmV0Config):
        return vllm_v0.run(config, source, window_ns, slo, tables_every)
    lab = PreemptionLab(config) if isinstance(config, PreemptionLabConfig) else BlockTableLab(config)
    return run(lab, source, window_ns, slo, tables_every)


__all__ = ["ReferenceRun", "simulate"]

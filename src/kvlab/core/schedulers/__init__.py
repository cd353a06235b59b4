"""One file per set of rules. `SCHEDULERS` maps the type of a config to them."""

from __future__ import annotations

from typing import Any, Final

from kvlab.core.config import BlockTableLabConfig, EngineConfig, PreemptionLabConfig, VllmV0Config, VllmV1Config
from kvlab.core.schedulers.base import Scheduler
from kvlab.core.schedulers.block_table_lab import BlockTableLab
from kvlab.core.schedulers.preemption_lab import PreemptionLab
from kvlab.core.schedulers.vllm_v0 import VllmV0
from kvlab.core.schedulers.vllm_v1 import VllmV1

SCHEDULERS: Final[dict[type, Any]] = {
    PreemptionLabConfig: PreemptionLab,
    BlockTableLabConfig: BlockTableLab,
    VllmV1Config: VllmV1,
    VllmV0Config: VllmV0,
}


def scheduler_for(config: EngineConfig, *, log_memory: bool) -> Scheduler:
    """A scheduler in its initial state, for the rules that the config belongs to."""
    scheduler: Scheduler = SCHEDULERS[type(config)](config, log_memory=log_memory)
    return scheduler

"""How long a step lasts. Costs are values with one method, in whole nanoseconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from kvlab.core.config import BlockTableLabConfig, PreemptionLabConfig
from kvlab.core.step_time import StepTime


class StepCost(Protocol):
    """Duration of a step from its load."""

    @property
    def grows_with_context(self) -> bool:
        """Whether equal steps get longer as their sequences do."""

    def duration_ns(self, running_seqs: int, context_tokens: int, prefill_tokens: int, swap_ns: int) -> int:
        """
        Args:
            running_seqs: after admission.
            context_tokens: prompt + emitted, summed over live running sequences, before this step's tokens.
            prefill_tokens: computed in this step.
            swap_ns: copies to and from the CPU in this step.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearCost:
    """base + per_seq x running + per_prefill_token x prefill tokens + swap. Source: MODEL.md, "Preemption lab", 5."""

    base_ns: int
    per_seq_ns: int
    per_prefill_token_ns: int

    @property
    def grows_with_context(self) -> bool:
        """Never."""
        return False

    def duration_ns(self, running_seqs: int, context_tokens: int, prefill_tokens: int, swap_ns: int) -> int:
        """See `StepCost`."""
        return self.base_ns + self.per_seq_ns * running_seqs + self.per_prefill_token_ns * prefill_tokens + swap_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextCost:
    """(base + per_seq x running + per_context_token x context) x overhead + per_prefill_token x prefill tokens.

    The overhead is a fraction of integers, rounded down once. Source: MODEL.md, "Block-table lab", 3.
    """

    base_ns: int
    per_seq_ns: int
    per_context_token_ns: int
    per_prefill_token_ns: int
    overhead_num: int
    overhead_den: int

    @property
    def grows_with_context(self) -> bool:
        """Unless a context token costs nothing."""
        return self.per_context_token_ns > 0

    def duration_ns(self, running_seqs: int, context_tokens: int, prefill_tokens: int, swap_ns: int) -> int:
        """See `StepCost`."""
        raw = self.base_ns + self.per_seq_ns * running_seqs + self.per_context_token_ns * context_tokens
        return raw * self.overhead_num // self.overhead_den + self.per_prefill_token_ns * prefill_tokens + swap_ns


class DecodeCost:
    """The duration of a step that only decodes, as the clock loop asks for it."""

    def __init__(self, step_time: StepTime) -> None:
        self._decode_ns = step_time.decode_ns
        self.grows_with_context = step_time.grows_with_context

    def duration_ns(self, running_seqs: int, context_tokens: int, prefill_tokens: int, swap_ns: int) -> int:
        """See `StepCost`; there are neither prefill tokens nor swaps in such a step."""
        return self._decode_ns(running_seqs, context_tokens)


def linear_cost(config: PreemptionLabConfig) -> LinearCost:
    """The preemption lab's cost."""
    return LinearCost(
        base_ns=config.base_ns, per_seq_ns=config.per_seq_ns, per_prefill_token_ns=config.per_prefill_token_ns
    )


def context_cost(config: BlockTableLabConfig) -> ContextCost:
    """The block-table lab's cost; reading through block tables costs only when there are some."""
    paged = config.allocator == "paged"
    den = config.paging_overhead_den * config.block_size
    return ContextCost(
        base_ns=config.base_ns,
        per_seq_ns=config.per_seq_ns,
        per_context_token_ns=config.per_context_token_ns,
        per_prefill_token_ns=config.per_prefill_token_ns,
        overhead_num=den + config.paging_overhead_num if paged else 1,
        overhead_den=den if paged else 1,
    )


STEP_COSTS: Final = {"linear": LinearCost, "context": ContextCost}

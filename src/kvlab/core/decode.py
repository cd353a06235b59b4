"""The decode batch: who gains a token each step, who needs a block when, who ends when.

One clock for all: a decoding sequence with `known` tokens at the start of step s has known + (u - s) at step u. So
two numbers, fixed when it starts to decode, say everything: it needs a block in every step of its *phase*
(u % block_size), and it ends at one step. A plain decode step looks at one phase and at the top of a heap.
"""

from __future__ import annotations

from collections.abc import Collection
from heapq import heappop, heappush
from typing import Protocol

from kvlab.core.sequence import NEVER, Job, Seq


class Pool(Protocol):
    """Blocks that are free."""

    num_free: int

    def extend_each(self, tables: Collection[list[int]]) -> None:
        """One more block for each table, in order."""


class DecodeBatch:
    """Decoding sequences. `block_size` None: their memory never grows."""

    __slots__ = ("_block_size", "ends", "grows", "num_seqs", "phases")

    def __init__(self, block_size: int | None) -> None:
        self._block_size = block_size
        self.grows = block_size is not None
        """Whether tables grow as tokens are decoded."""
        self.num_seqs = 0
        self.phases: list[dict[int, list[int]]] = [{} for _ in range(block_size or 1)]
        """Block tables of each phase by admission order, in that order."""
        self.ends: list[tuple[int, int, Seq]] = []
        """A heap of (step of the last token, order, seq). Entries of those that left stay until they come up."""

    def join(self, job: Job, step: int) -> None:
        """The job's live samples emit a token at the end of `step`, and one at each later step."""
        known = job.known
        job.base = known - step
        job.decode_step = step
        emitted = known - job.request.prompt_tokens
        for seq in job.live:
            end = step + seq.output - emitted - 1
            heappush(self.ends, (end, seq.order, seq))
            if self._block_size is not None and end > step:
                self._enter_phase(seq, step + 1 - known, step)
        self.num_seqs += len(job.live)

    def _enter_phase(self, seq: Seq, full_at: int, step: int) -> None:
        """The tables of this phase are full at steps congruent to `full_at`: a token then needs a new block."""
        assert self._block_size is not None
        seq.phase = full_at % self._block_size
        seq.growth_step = step + 1 + (full_at - step - 1) % self._block_size
        members = self.phases[seq.phase]
        is_last = not members or next(reversed(members)) < seq.order
        members[seq.order] = seq.table
        if not is_last:  # admitted before a sequence that came back from the swap space already decoding
            self.phases[seq.phase] = dict(sorted(members.items()))

    def grow(self, step: int, pool: Pool) -> bool:
        """A block for each table that is full in this step; False, and nothing done, if they don't suffice."""
        tables = self.phases[step % len(self.phases)]
        if tables:
            if len(tables) > pool.num_free:
                return False
            pool.extend_each(tables.values())
        return True

    def leave(self, seq: Seq) -> None:
        """The sequence ended or was preempted. Its heap entry goes stale, known by its order."""
        if seq.phase >= 0:
            del self.phases[seq.phase][seq.order]
            seq.phase = -1
        self.num_seqs -= 1

    def next_end(self) -> int:
        """The step in which the next sequence emits its last token; NEVER when nothing decodes."""
        ends = self.ends
        while ends and ends[0][2].order != ends[0][1]:
            heappop(ends)
        return ends[0][0] if ends else NEVER

    def pop_ended(self, step: int) -> Seq | None:
        """The sequences that emit their last token in this step, one a call, in admission order; then None."""
        ends = self.ends
        while ends and ends[0][0] == step:
            _, order, seq = heappop(ends)
            if seq.order == order:
                return seq
        return None

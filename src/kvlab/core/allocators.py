"""How a request's samples get memory in the block-table lab: contiguous reservations, or paged blocks with sharing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from kvlab.core.admission import ADMISSION_RULES
from kvlab.core.blocks import BlockPool
from kvlab.core.config import BlockTableLabConfig
from kvlab.core.request import Request
from kvlab.core.segments import SegmentSpace
from kvlab.core.sequence import Job, Seq
from kvlab.units import ceil_div


class Space(Protocol):
    """GPU memory, in units of its own: blocks, or tokens of a contiguous space."""

    num_free: int


class Allocator(Protocol):
    """Memory of the samples of a request. `has_room` asks; `place` then cannot fail."""

    tokens_per_unit: int
    """Tokens in one of the units that `space` counts."""
    capacity_tokens: int

    @property
    def space(self) -> Space:
        """What is free, in units."""

    @property
    def block_size(self) -> int | None:
        """None: memory never grows while decoding."""

    @property
    def largest_hole(self) -> int:
        """Tokens of the biggest free range."""

    def can_ever_hold(self, request: Request) -> bool:
        """Whether all samples fit into empty memory up to their last token."""

    def has_room(self, job: Job, nothing_runs: bool) -> bool:
        """Whether all live samples can be placed now."""

    def place(self, job: Job) -> None:
        """Gives every live sample memory for its known tokens, and says on the job what they share."""

    def release(self, seq: Seq) -> None:
        """Frees what one sample holds; shared blocks stay with the others."""

    def check(self, running: list[Seq]) -> None:
        """Asserts that free + held is everything."""


class PagedMemory:
    """Blocks taken one by one; samples share the prompt's blocks until one writes into them."""

    def __init__(self, config: BlockTableLabConfig) -> None:
        self.pool = self.space = BlockPool(config.num_blocks)
        self.tokens_per_unit = config.block_size
        self.block_size: int = config.block_size
        self.capacity_tokens = config.num_blocks * config.block_size
        self._watermark_blocks = config.watermark_blocks
        self._may_admit = ADMISSION_RULES["keep-reserve"]

    @property
    def largest_hole(self) -> int:
        """All free blocks: any of them can follow any other in a table."""
        return self.pool.num_free * self.block_size

    def can_ever_hold(self, request: Request) -> bool:
        """Full prompt blocks once, and the rest of each sample; the last token emitted gets no KV."""
        full = request.prompt_tokens // self.block_size
        stored = [request.prompt_tokens + output - 1 for output in request.output_tokens]
        return full + sum(ceil_div(tokens, self.block_size) - full for tokens in stored) <= self.pool.num_blocks

    def _shared_now(self, job: Job) -> int:
        """Blocks that all live samples share: the whole prompt at first, its full blocks once they wrote their own."""
        prompt = job.request.prompt_tokens
        return ceil_div(prompt, self.block_size) if job.known == prompt else prompt // self.block_size

    def has_room(self, job: Job, nothing_runs: bool) -> bool:
        """Shared blocks once, the others per live sample; the watermark must remain while something runs."""
        shared = self._shared_now(job)
        need = shared + len(job.live) * (ceil_div(job.known, self.block_size) - shared)
        return self._may_admit(need, self.pool.num_free, self._watermark_blocks, nothing_runs)

    def place(self, job: Job) -> None:
        """Shared blocks first, then each sample's own, in sample order."""
        shared = self._shared_now(job)
        own = ceil_div(job.known, self.block_size) - shared
        prefix = self.pool.take(shared)
        self.pool.share(prefix, len(job.live) - 1)
        for seq in job.live:
            seq.table = prefix + self.pool.take(own)
            seq.initial_blocks = shared + own
        job.shared_blocks = shared
        job.shared_tokens = min(shared * self.block_size, job.request.prompt_tokens)

    def release(self, seq: Seq) -> None:
        """Lets go of the table, first to last."""
        self.pool.give_back(seq.table)

    def check(self, running: list[Seq]) -> None:
        """Free + held is everything, and every block has as many holders as tables name it."""
        holders: dict[int, int] = {}
        for seq in running:
            for block in seq.table:
                holders[block] = holders.get(block, 0) + 1
        free = self.pool.free_blocks()
        assert sorted([*holders, *free]) == list(range(self.pool.num_blocks)), "blocks lost or doubled"
        for block, count in holders.items():
            assert self.pool.num_holders(block) == count, f"block {block}: {count} tables hold it"


class ContiguousMemory:
    """One range per sample for its prompt and its longest possible output, reserved at admission."""

    block_size: int | None = None
    tokens_per_unit = 1

    def __init__(self, config: BlockTableLabConfig) -> None:
        self.space = SegmentSpace(config.kv_tokens)
        self.capacity_tokens = config.kv_tokens
        self._max_tokens = config.max_tokens

    @property
    def largest_hole(self) -> int:
        """Tokens of the biggest free range."""
        return self.space.largest_hole

    def _length(self, request: Request) -> int:
        return request.prompt_tokens + self._max_tokens

    def can_ever_hold(self, request: Request) -> bool:
        """Whether all reservations fit side by side."""
        return len(request.output_tokens) * self._length(request) <= self.space.size

    def has_room(self, job: Job, nothing_runs: bool) -> bool:
        """Whether every live sample finds a place."""
        return self.space.fits(self._length(job.request), len(job.live))

    def place(self, job: Job) -> None:
        """First fit by lowest address, one range per live sample."""
        length = self._length(job.request)
        for seq in job.live:
            seq.table = [self.space.take(length), length]
        job.shared_blocks = job.shared_tokens = 0

    def release(self, seq: Seq) -> None:
        """Frees the range."""
        start, length = seq.table
        self.space.give_back(start, length)

    def check(self, running: list[Seq]) -> None:
        """Segments and holes tile the address space, and no two holes touch."""
        taken = [(seq.table[0], seq.table[1], True) for seq in running]
        free = [(start, length, False) for start, length in self.space.holes()]
        end, was_free = 0, False
        for start, length, is_taken in sorted(taken + free):
            assert start == end, f"address {end} is lost or doubled"
            assert is_taken or not was_free, f"two holes touch at {start}"
            end, was_free = start + length, not is_taken
        assert end == self.space.size, f"addresses from {end} are lost"


ALLOCATORS: Final[dict[str, Callable[[BlockTableLabConfig], Allocator]]] = {
    "contiguous": ContiguousMemory,
    "paged": PagedMemory,
}

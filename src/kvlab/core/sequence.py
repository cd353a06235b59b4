"""The changing state of a request and of its sequences while a run goes on.

Class attributes are the initial values: an instance is made per request, and most of its state is never touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kvlab.core.memory import Copied
    from kvlab.core.request import Request

NEVER: Final = 1 << 62
"""A step or a time that does not come."""


class Seq:
    """One sample of a request."""

    table: list[int]
    """Block table while it runs; contiguous: [start, length]."""
    order = -1
    """Admission order; -1 while not running."""
    phase = -1
    """Needs a block in the steps with `step % block_size == phase`; -1 while its memory does not grow."""
    growth_step = NEVER
    """The first step of this stay that adds a block."""
    initial_blocks = 0
    copied: Copied | None = None

    def __init__(self, job: Job, sample: int, output: int) -> None:
        self.job = job
        self.sample = sample
        self.output = output


class Job:
    """A request on its way through the server: waiting, running or swapped.

    All its live samples have the same number of tokens. While they decode, one token a step, `known` is left alone
    and `known_at(step)` is `base + step`.
    """

    computed = 0
    """Tokens whose KV is present, while prefilling or swapped."""
    base = 0
    start_step = -1
    since_ns = 0
    """When the present stay, or the present wait, began."""
    decode_step = NEVER
    """The step whose end brought the first token of this stay."""
    paused_decode_step = NEVER
    """`decode_step` of the stay that the last preemption ended."""
    shared_blocks = 0
    """Blocks that all live samples share."""
    shared_tokens = 0
    """Tokens in them."""
    cpu_blocks: list[int]
    swap_step = -1
    admitted_ns = -1
    first_token_ns = -1
    last_token_ns = -1
    """When it last emitted before a preemption."""
    span_ns = 0
    """Sum over ended samples of last token - first token."""
    max_gap_ns = 0
    preemptions = 0
    recomputed_tokens = 0
    swap_outs = 0

    def __init__(self, request: Request) -> None:
        self.request = request
        self.id = request.id
        self.known = request.prompt_tokens
        self.live = [Seq(self, sample, output) for sample, output in enumerate(request.output_tokens)]

    @property
    def is_decoding(self) -> bool:
        """Whether it emits a token every step."""
        return self.decode_step != NEVER

    def known_at(self, step: int) -> int:
        """Prompt + tokens emitted by each live sample, at the start of a step."""
        return self.base + step if self.decode_step != NEVER else self.known

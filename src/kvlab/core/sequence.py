"""The changing state of a request and of its sequences while a run goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kvlab.core.memory import Copied
    from kvlab.core.prefix_pool import Key
    from kvlab.core.request import Request

NEVER: Final = 1 << 62
"""A step or a time that does not come."""


class Seq:
    """One sample of a request."""

    __slots__ = (
        "copied", "growth_step", "initial_blocks", "job", "logged", "order", "output", "phase", "sample", "table",
    )  # fmt: skip

    def __init__(self, job: Job, sample: int, output: int) -> None:
        self.job = job
        self.sample = sample
        self.output = output
        self.table: list[int] = []
        """Block table while it runs; contiguous: [start, length]."""
        self.order = -1
        """Admission order; -1 while not running."""
        self.phase = -1
        """Needs a block in the steps with `step % block_size == phase`; -1 while its memory does not grow."""
        self.growth_step = NEVER
        """The first step of this stay that adds a block."""
        self.initial_blocks = 0
        self.copied: Copied | None = None
        self.logged: tuple[int, ...] = ()
        """The table in the latest record of this stay, which the next one shares if nothing was added."""


class Job:
    """A request on its way through the server: waiting, running or swapped.

    All its live samples have the same number of tokens. While they decode, one token a step, `known` is left alone
    and `known_at(step)` is `base + step`.
    """

    __slots__ = (
        "admitted_ns", "base", "cached_tokens", "computed", "cpu_blocks", "decode_step", "entered", "first_token_ns",
        "id", "keys", "known", "last_token_ns", "live", "lost_tokens", "max_gap_ns", "paused_decode_step",
        "preemptions", "recomputed_tokens", "request",
        "shared_blocks", "shared_tokens", "span_ns", "start_step", "stay_step", "swap_outs", "swap_step",
    )  # fmt: skip

    def __init__(self, request: Request) -> None:
        self.request = request
        self.id = request.id
        self.live = [Seq(self, sample, output) for sample, output in enumerate(request.output_tokens)]
        self.known = request.prompt_tokens
        self.computed = 0
        """Tokens whose KV is present, while prefilling or swapped."""
        self.base = 0
        self.start_step = -1
        self.stay_step = -1
        """The decode step that brought, or brings, the first token of its record in the log of memory."""
        self.decode_step = NEVER
        """The step whose end brought the first token of this stay."""
        self.paused_decode_step = NEVER
        """`decode_step` of the stay that the last preemption ended."""
        self.shared_blocks = 0
        """Blocks that all live samples share."""
        self.shared_tokens = 0
        """Tokens in them."""
        self.cpu_blocks: list[int] = []
        self.swap_step = -1
        self.admitted_ns = -1
        self.first_token_ns = -1
        self.last_token_ns = -1
        """When it last emitted before a preemption."""
        self.span_ns = 0
        """Sum over ended samples of last token - first token."""
        self.max_gap_ns = 0
        self.preemptions = 0
        self.recomputed_tokens = 0
        self.swap_outs = 0
        self.cached_tokens = 0
        """Found in the prefix cache at the first admission."""
        self.keys: list[Key] = []
        """What its full blocks hold, as far as anybody asked."""
        self.entered = 0
        """Blocks of its table that have an entry in the prefix cache."""
        self.lost_tokens = 0
        """Computed tokens that the last preemption threw away."""

    @property
    def is_decoding(self) -> bool:
        """Whether it emits a token every step."""
        return self.decode_step != NEVER

    def known_at(self, step: int) -> int:
        """Prompt + tokens emitted by each live sample, at the start of a step."""
        return self.base + step if self.decode_step != NEVER else self.known

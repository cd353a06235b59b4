"""What one preempted sequence costs a server, exactly as its engine charges it: copied out and in, or computed again.

A sequence with n tokens of KV is preempted while it decodes. Its *cost* is by how much steps last longer for it, up to
and with the one that gives its next token; a step that would not have run without it counts whole:

    swap       the copies out and in, and its share of the step in which it decodes
    recompute  the steps, or shares of steps, that compute its n + 1 known tokens; the last gives the token

Waiting is not in it: that is the same for both. Whole nanoseconds but for the copies, which are exact fractions.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from kvlab.core.config import PreemptionLabConfig, VllmV0Config, VllmV1Config
from kvlab.core.step_time import AnyStepTime, LinearStepTime, StepLoad, StepTime, chunk_pairs
from kvlab.errors import ConfigError
from kvlab.scenarios import Scenario
from kvlab.servers import PreemptionLabServer, VllmServer
from kvlab.setting_table import PREEMPTION_LAB, VLLM_V0, VLLM_V1
from kvlab.sizing.gpus import gpu as find_gpu
from kvlab.units import NS_PER_S, ceil_div, format_duration, format_number

_ONE_DECODE: Final = 1
_GIVEN: Final = "one way, as given"


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """What the link to the host takes for a sequence's KV, one way."""

    bytes_per_token: int
    """On one GPU; several copy side by side, each over its own link."""
    per_token_ns: Fraction
    per_block_ns: int
    block_size: int
    source: str
    """Where these are from, in words."""
    space_tokens: int | None
    """What the swap space holds; None where there is none that limits."""

    @property
    def bytes_per_s(self) -> Fraction | None:
        """The link's bandwidth, without what each block costs; None where tokens cost nothing."""
        return self.bytes_per_token * NS_PER_S / self.per_token_ns if self.per_token_ns else None

    def blocks_ns(self, tokens: int) -> int:
        """The part that no bandwidth makes shorter."""
        return self.per_block_ns * ceil_div(tokens, self.block_size)

    def ns(self, tokens: int) -> Fraction:
        """One way."""
        return self.per_token_ns * tokens + self.blocks_ns(tokens)


class Prefill:
    """The steps of a sequence that comes back: one that decodes, or those that compute it again.

    Args:
        budget: most tokens of its own in a step; None: all of them in one.
        beside: sequences that decode meanwhile.
        beside_context: tokens that these hold together.
        apart: whether prefills have steps of their own, in which others pause.
        last_decodes: whether a last chunk of one token counts as a decode.
    """

    def __init__(
        self,
        step_time: StepTime,
        budget: int | None,
        *,
        beside: int,
        beside_context: int,
        apart: bool = False,
        last_decodes: bool = False,
    ) -> None:
        self._step_time = step_time
        self._budget = budget
        self._beside = beside
        self._context = beside_context
        self._apart = apart
        self._last_decodes = last_decodes
        self._usual_ns = step_time.decode_ns(beside, beside_context) if beside else 0
        self._full_chunks_ns = [0]
        """Cost of the first 0, 1, 2, ... chunks of the whole budget."""

    def decode_ns(self, tokens: int) -> int:
        """What its next token costs when its KV, of so many tokens, is there."""
        return self._step_time.decode_ns(self._beside + 1, self._context + tokens + 1) - self._usual_ns

    def recompute_ns(self, tokens: int) -> int:
        """What its next token costs when its KV, of so many tokens, is not there."""
        known = tokens + 1
        if self._budget is None:
            return self._chunk_ns(known, 0)
        chunks, rest = divmod(known, self._budget)
        while len(self._full_chunks_ns) <= chunks:
            before = (len(self._full_chunks_ns) - 1) * self._budget
            self._full_chunks_ns.append(self._full_chunks_ns[-1] + self._chunk_ns(self._budget, before))
        if not rest:
            return self._full_chunks_ns[chunks]
        if rest == _ONE_DECODE and self._last_decodes:
            return self._full_chunks_ns[chunks] + self.decode_ns(tokens)
        return self._full_chunks_ns[chunks] + self._chunk_ns(rest, chunks * self._budget)

    def _chunk_ns(self, tokens: int, before: int) -> int:
        others = (0, 0) if self._apart else (self._beside, self._context)
        load = StepLoad(self._beside + 1, *others, tokens, before, chunk_pairs(tokens, before), 1)
        return self._step_time.mixed_ns(load) - (0 if self._apart else self._usual_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preempted:
    """Both costs of one server."""

    prefill: Prefill
    copies: Copies
    longest: int
    """Tokens of KV that a sequence can have here."""

    def swap_ns(self, tokens: int) -> Fraction:
        """Cost of a sequence with so many tokens of KV, copied out and in."""
        return 2 * self.copies.ns(tokens) + self.prefill.decode_ns(tokens)

    def recompute_ns(self, tokens: int) -> int:
        """The same, computed again."""
        return self.prefill.recompute_ns(tokens)

    def swap_is_cheaper(self, tokens: int) -> bool:
        """Strictly."""
        per_token = self.copies.per_token_ns
        left_ns = self._left_ns(tokens)
        return 2 * per_token.numerator * tokens < left_ns * per_token.denominator

    def break_even_bytes_per_s(self, tokens: int) -> Fraction | None:
        """The bandwidth, one way, at which both cost the same; None where no bandwidth suffices."""
        left_ns = self._left_ns(tokens)
        return Fraction(2 * tokens * self.copies.bytes_per_token * NS_PER_S, left_ns) if left_ns > 0 else None

    def _left_ns(self, tokens: int) -> int:
        """What copying the bytes may take, both ways."""
        return self.recompute_ns(tokens) - self.prefill.decode_ns(tokens) - 2 * self.copies.blocks_ns(tokens)


def preempted(scenario: Scenario, *, beside: int = 0, link_bytes_per_s: int | None = None) -> Preempted:
    """The costs of a scenario's server.

    Args:
        beside: sequences that decode meanwhile; they share the rest of a full pool.
        link_bytes_per_s: in place of what the scenario, or the GPU's link, has.
    Raises:
        ConfigError: rules without preemption of one sequence, a server that can't work, or `beside` out of range.
    """
    config = scenario.engine_config()
    if not 0 <= beside < config.max_num_seqs:
        raise ConfigError("beside", beside, f"must be from 0 to max_num_seqs - 1, {config.max_num_seqs - 1:,}")
    if isinstance(config, PreemptionLabConfig):
        return _of_lab(scenario, config, beside, link_bytes_per_s)
    if isinstance(config, VllmV0Config):
        return _of_v0(scenario, config, beside, link_bytes_per_s)
    if isinstance(config, VllmV1Config):
        return _of_v1(scenario, config, beside, link_bytes_per_s)
    known = f"{PREEMPTION_LAB}, {VLLM_V0} or {VLLM_V1}"
    raise ConfigError("rules", scenario.rules, f"knows neither swapping nor one sequence's recompute: take {known}")


def _others(capacity_tokens: int, beside: int) -> int:
    """Tokens of the others: preemptions happen when the pool is full, and it is shared evenly."""
    return capacity_tokens - capacity_tokens // (beside + 1)


def _of_lab(scenario: Scenario, config: PreemptionLabConfig, beside: int, link: int | None) -> Preempted:
    server = scenario.server
    assert isinstance(server, PreemptionLabServer)
    capacity = config.num_gpu_blocks * config.block_size
    step_time: AnyStepTime = LinearStepTime(
        base_ns=config.base_ns, per_running_ns=config.per_seq_ns, per_prefill_token_ns=config.per_prefill_token_ns
    )
    return Preempted(
        prefill=Prefill(
            step_time, config.prefill_budget_tokens, beside=beside, beside_context=_others(capacity, beside)
        ),
        copies=_copies(config, server.stored_bytes_per_token, link),
        longest=capacity - 1,
    )


def _of_v0(scenario: Scenario, config: VllmV0Config, beside: int, link: int | None) -> Preempted:
    server = scenario.server
    assert isinstance(server, VllmServer)
    capacity = config.num_gpu_blocks * config.block_size
    context = _others(capacity, beside)
    return Preempted(
        prefill=Prefill(config.step_time, None, beside=beside, beside_context=context, apart=True),
        copies=_copies(config, server.capacity().kv_bytes_per_token, link),
        longest=min(capacity, config.max_model_len) - 1,
    )


def _of_v1(scenario: Scenario, config: VllmV1Config, beside: int, link: int | None) -> Preempted:
    server = scenario.server
    assert isinstance(server, VllmServer)
    capacity = config.usable_blocks * config.block_size
    threshold = config.long_prefill_token_threshold
    budget = config.max_num_batched_tokens - beside
    assert budget > 0, "the engine asks for at least max_num_seqs"
    if threshold and beside:
        budget = min(budget, threshold)
    bytes_per_token = server.capacity().kv_bytes_per_token
    row = find_gpu(server.gpu)
    bandwidth, source = row.host_link_bytes_per_s, f"one way, the peak of the {row.name}'s link to its host"
    if link is not None:
        bandwidth, source = link, _GIVEN
    copies = Copies(
        bytes_per_token=bytes_per_token,
        per_token_ns=Fraction(bytes_per_token * NS_PER_S, bandwidth),
        per_block_ns=0,
        block_size=config.block_size,
        source=f"{gigabytes(Fraction(bandwidth))} {source}",
        space_tokens=None,
    )
    context = _others(capacity, beside)
    return Preempted(
        prefill=Prefill(config.step_time, budget, beside=beside, beside_context=context, last_decodes=True),
        copies=copies,
        longest=min(capacity, config.max_model_len) - 1,
    )


def _copies(config: PreemptionLabConfig | VllmV0Config, bytes_per_token: int, link: int | None) -> Copies:
    """As the engine charges them, or with the bandwidth of a link that is given."""
    per_token = Fraction(config.swap_per_token_ns)
    if link is not None:
        per_token = Fraction(bytes_per_token * NS_PER_S, link)
        source = f"{gigabytes(Fraction(link))} {_GIVEN}"
    elif per_token:
        rate = gigabytes(bytes_per_token * NS_PER_S / per_token)
        source = f"{rate} one way, as {format_duration(config.swap_per_token_ns)} a token (swap_per_token_ns) have it"
    else:
        source = "no time for tokens (swap_per_token_ns)"
    return Copies(
        bytes_per_token=bytes_per_token,
        per_token_ns=per_token,
        per_block_ns=config.swap_per_block_ns,
        block_size=config.block_size,
        source=f"{source}, and {format_duration(config.swap_per_block_ns)} a block",
        space_tokens=config.num_cpu_blocks * config.block_size,
    )


def gigabytes(bytes_per_s: Fraction) -> str:
    """
    >>> gigabytes(Fraction(21_845_333_333))
    '21.8 GB/s'
    """
    return f"{format_number(bytes_per_s / 10**9)} GB/s"

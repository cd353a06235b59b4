"""Rounds of chat: clients that send their whole history again, and 2,000 tokens more each time (case U37)."""

from __future__ import annotations

from typing import Final

from kvlab.core.config import Recording, VllmV1Config
from kvlab.core.engine import simulate
from kvlab.core.request import Content, Request
from kvlab.core.step_time import LinearStepTime

CLIENTS: Final = 20
ROUNDS: Final = 9
TOKENS_PER_ROUND: Final = 2_000
BLOCK_SIZE: Final = 16


class Rounds:
    """All clients send round r in turn, each as soon as the one before it has its answer; then comes round r + 1.

    Answers have one token, which no later prompt repeats.
    """

    def __init__(self) -> None:
        self._sent = 0
        self._next_ns: int | None = 0

    def next_arrival_ns(self) -> int | None:
        """When the next request arrives; None while one is being answered, and after the last."""
        return self._next_ns

    def pop(self) -> Request:
        """The next request: a client's history up to this round."""
        assert self._next_ns is not None, "pop() with no request left"
        turn, client = divmod(self._sent, CLIENTS)
        tokens = TOKENS_PER_ROUND * (turn + 1)
        request = Request(
            self._sent, self._next_ns, tokens, (1,), content=Content(((f"client {client}", 0, tokens),))
        )  # fmt: skip
        self._sent += 1
        self._next_ns = None
        return request

    def ended(self, request: Request, t_ns: int) -> None:
        """The next client sends."""
        self._next_ns = t_ns if self._sent < CLIENTS * ROUNDS else None


def hit_rates(pool_tokens: int) -> list[float]:
    """Share of prompt tokens found in the prefix cache, by round, 0..1."""
    config = VllmV1Config(
        num_gpu_blocks=pool_tokens // BLOCK_SIZE + 1,
        block_size=BLOCK_SIZE,
        max_num_seqs=256,
        max_num_batched_tokens=8_192,
        max_model_len=32_768,
        enable_prefix_caching=True,
        step_time=LinearStepTime(base_ns=10_000_000, per_prefill_token_ns=50_000),
    )
    requests = simulate(config, Rounds(), recording=Recording(requests=True)).requests
    rates = []
    for turn in range(ROUNDS):
        asked = requests[turn * CLIENTS : (turn + 1) * CLIENTS]
        rates.append(sum(one.cached_tokens for one in asked) / sum(one.prompt_tokens for one in asked))
    return rates

"""One arrival, and where arrivals come from."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import NamedTuple, Protocol

Segment = Hashable
"""A name for a run of tokens. Two tokens are equal when their segments and their offsets in them are."""


class Content(NamedTuple):
    """What the tokens of a request are, as far as others may have the same: for prefix caching."""

    prompt: tuple[tuple[Segment, int, int], ...]
    """Pieces in order: (segment, offset of the first token in it, tokens), each of at least one token."""
    output: Segment | None = None
    """The segment that the generated tokens make up, from offset 0; None: nobody ever repeats them."""


class Request(NamedTuple):
    """One arrival. `id` numbers the requests of a run from 0 in order of arrival."""

    id: int
    arrival_ns: int
    prompt_tokens: int
    output_tokens: tuple[int, ...]
    """One length per parallel sample, each at least 1."""
    hash_ids: tuple[int, ...] = ()
    """One id per block of the prompt where a trace gives them: equal ids, equal prefix up to that block."""
    priority: int = 0
    """Smaller is more urgent, under the priority policy."""
    rank: int = 0
    """Decides between equal priorities and arrivals, before the id."""
    content: Content | None = None
    """None: nobody else has these tokens, unless `hash_ids` say so."""


class RequestSource(Protocol):
    """Requests in order of arrival. An end may bring a later request about (closed loop)."""

    def next_arrival_ns(self) -> int | None:
        """When the next request arrives; None if none is known now."""

    def pop(self) -> Request:
        """The next request, with the next free id."""

    def ended(self, request: Request, t_ns: int) -> None:
        """`request` finished at `t_ns`, or was rejected (then `t_ns` is its arrival)."""


class OpenLoop:
    """Requests that come when they come, whatever the server does."""

    def __init__(self, requests: Iterable[Request]) -> None:
        self._rest: Iterator[Request] = iter(requests)
        self._next: Request | None = next(self._rest, None)

    def next_arrival_ns(self) -> int | None:
        """When the next request arrives; None after the last."""
        return None if self._next is None else self._next.arrival_ns

    def pop(self) -> Request:
        """The next request, in order of arrival."""
        request = self._next
        assert request is not None, "pop() with no request left"
        self._next = next(self._rest, None)
        assert self._next is None or self._next.arrival_ns >= request.arrival_ns, "arrivals out of order"
        return request

    def ended(self, request: Request, t_ns: int) -> None:
        """Nothing follows from an end."""

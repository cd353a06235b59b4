"""Swap or recompute: from what context length on, and at what bandwidth of the link, copying a victim's KV is cheaper.

What each costs is `kvlab.advice.preempted`'s; formulas and an example are in docs/crossover.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kvlab.advice.preempted import Copies, Preempted, gigabytes, preempted
from kvlab.errors import ConfigError
from kvlab.scenarios import Scenario
from kvlab.setting_table import VLLM_V1
from kvlab.tabular import Tabular
from kvlab.timing import step_time_notes
from kvlab.units import ceil_div, parse_bytes

if TYPE_CHECKING:
    import pyarrow as pa

SWAP: Final = "swap"
RECOMPUTE: Final = "recompute"
_MOST_SCANNED: Final = 2**15
_POINTS: Final = 192
"""Context lengths that are drawn."""
_LEAST_LINK: Final = 10**6
"""Bytes per second; less was a number without its unit."""
_MOST_LENGTH: Final = 2**20
"""Longer contexts are not looked at."""
_SHOWN_LENGTHS: Final = (1_024, 8_192)
_DOING: Final = {SWAP: "swapping", RECOMPUTE: "computing it again"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One context length."""

    context_tokens: int
    """Tokens of KV that the preempted sequence has."""
    swap_ns: Fraction
    recompute_ns: int
    break_even_bytes_per_s: Fraction | None
    """Bandwidth of the link, one way, from which on swapping is cheaper; None where no bandwidth suffices."""

    @property
    def cheaper(self) -> str:
        """Recompute, where both cost the same."""
        return SWAP if self.swap_ns < self.recompute_ns else RECOMPUTE


@dataclass(frozen=True, slots=True)
class Range:
    """Context lengths, both ends included, for which the same is cheaper."""

    first: int
    last: int
    cheaper: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossover(Tabular):
    """The answer for one server."""

    scenario: Scenario
    beside: int
    """Sequences that decode meanwhile."""
    link_bytes_per_s: int | None
    """The link's bandwidth where it was given."""
    copies: Copies
    step_times: tuple[str, ...]
    """Where the durations of steps are from, in sentences."""
    longest: int
    """Longest context that was looked at."""
    points: tuple[Point, ...]
    """By context length; enough to draw."""
    ranges: tuple[Range, ...]
    """All lengths from 1 to `longest`, in order."""

    @property
    def verdict(self) -> str:
        """ "swap" or "recompute", if that is cheaper for all lengths; else "depends"."""
        kinds = {found.cheaper for found in self.ranges}
        return kinds.pop() if len(kinds) == 1 else "depends"

    @property
    def break_even_tokens(self) -> int | None:
        """From this context on, up to the longest, swapping is cheaper; None where recompute is, at the longest."""
        last = self.ranges[-1]
        return last.first if last.cheaper == SWAP else None

    @property
    def text(self) -> str:
        """The answer in a few sentences."""
        return " ".join(_sentences(self))

    def at(self, context_tokens: int) -> Point:
        """Both costs for one context length, exactly.

        Raises:
            ConfigError: not from 1 to `longest`.
        """
        if not 1 <= context_tokens <= self.longest:
            raise ConfigError("context", context_tokens, f"must be from 1 to {self.longest:,} tokens")
        costs = preempted(self.scenario, beside=self.beside, link_bytes_per_s=self.link_bytes_per_s)
        return _point(costs, context_tokens)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {**self.summary(), "points": list(_rows(self))}

    def summary(self) -> dict[str, Any]:
        """The same without the points."""
        copies = self.copies
        return {
            "rules": self.scenario.rules,
            "verdict": self.verdict,
            "break_even_tokens": self.break_even_tokens,
            "text": self.text,
            "beside": self.beside,
            "longest_tokens": self.longest,
            "step_times": list(self.step_times),
            "copies": {
                "bytes_per_token": copies.bytes_per_token,
                "bytes_per_s": _float(copies.bytes_per_s),
                "per_token_ns": float(copies.per_token_ns),
                "per_block_ns": copies.per_block_ns,
                "block_size": copies.block_size,
                "swap_space_tokens": copies.space_tokens,
                "source": copies.source,
            },
            "ranges": [{"first": r.first, "last": r.last, "cheaper": r.cheaper} for r in self.ranges],
        }

    def table(self) -> pa.Table:
        """One row per point: context_tokens, swap_ns, recompute_ns, cheaper, break_even_bytes_per_s."""
        import pyarrow as pa

        return pa.Table.from_pylist(list(_rows(self)))

    def plot(self, path: str | Path) -> Path:
        """Draws both costs, and the bandwidth of break-even, against the context length: .png, .svg or .html.

        Raises:
            ConfigError: another ending.
            OutputError: the file can't be written.
        """
        from kvlab.advice.crossover_picture import picture
        from kvlab.advice.pictures import save

        return save(picture(self), Path(path))


def crossover(scenario: Scenario, *, beside: int = 0, link_bytes_per_s: int | None = None) -> Crossover:
    """Where swapping a preempted sequence becomes cheaper than computing it again.

    Args:
        beside: sequences that decode meanwhile; 0: it is alone.
        link_bytes_per_s: bandwidth to the host, one way, in place of what the scenario or its GPU has.
    Raises:
        ConfigError: rules that know neither, a server that can't work, or a value out of range.
        UnknownNameError: no such model, GPU or profile.
    """
    if link_bytes_per_s is not None and link_bytes_per_s < _LEAST_LINK:
        raise ConfigError("link", link_bytes_per_s, f"must be at least 1 MB/s, {_LEAST_LINK:,} bytes per second")
    costs = preempted(scenario, beside=beside, link_bytes_per_s=link_bytes_per_s)
    longest = min(costs.longest, _MOST_LENGTH)
    if longest < 1:
        raise ConfigError("max_model_len", longest + 1, "leaves no context that could be preempted")
    return Crossover(
        scenario=scenario,
        beside=beside,
        link_bytes_per_s=link_bytes_per_s,
        copies=costs.copies,
        step_times=tuple(step_time_notes(scenario)) or ("as the scenario sets them",),
        longest=longest,
        points=tuple(_point(costs, tokens) for tokens in _lengths(longest)),
        ranges=tuple(_ranges(costs, longest)),
    )


def parse_link(text: str) -> int:
    """Bytes per second from "25 GB/s"; without a unit, bytes.

    >>> parse_link("25 GB/s"), parse_link("12GiB")
    (25000000000, 12884901888)

    Raises:
        ConfigError: no such quantity, or less than 1 MB/s.
    """
    try:
        rate = parse_bytes(text.strip().removesuffix("/s"), "link")
    except ConfigError:
        rate = 0
    if rate < 1:
        raise ConfigError("link", text, "expected bytes per second, such as 25GB/s")
    if rate < _LEAST_LINK:
        number = text.strip().removesuffix("/s")
        example = f"{number}GB/s" if number.isascii() and number.replace(".", "", 1).isdigit() else "25GB/s"
        raise ConfigError("link", text, f"is less than 1 MB/s: with its unit, it is written {example}")
    return rate


def _point(costs: Preempted, tokens: int) -> Point:
    return Point(
        context_tokens=tokens,
        swap_ns=costs.swap_ns(tokens),
        recompute_ns=costs.recompute_ns(tokens),
        break_even_bytes_per_s=costs.break_even_bytes_per_s(tokens),
    )


def _lengths(longest: int) -> list[int]:
    """Evenly spread in ratio, with the powers of two and both ends."""
    spread = {max(1, round(longest ** (i / (_POINTS - 1)))) for i in range(_POINTS)}
    powers = {2**i for i in range(longest.bit_length())}
    return sorted(length for length in spread | powers | {1, longest} if length <= longest)


def _ranges(costs: Preempted, longest: int) -> Iterator[Range]:
    """All lengths; where there are very many, every so manieth is asked, and ends are found between by bisection."""
    stride = ceil_div(longest, _MOST_SCANNED)
    first, last, cheaper = 1, 1, costs.swap_is_cheaper(1)
    for length in [*range(1 + stride, longest, stride), longest]:
        if costs.swap_is_cheaper(length) != cheaper:
            low, high = last, length
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if costs.swap_is_cheaper(middle) == cheaper else (low, middle)
            yield Range(first, low, SWAP if cheaper else RECOMPUTE)
            first, cheaper = high, not cheaper
        last = length
    yield Range(first, longest, SWAP if cheaper else RECOMPUTE)


def _sentences(found: Crossover) -> Iterator[str]:
    others = f"beside {found.beside:,} others" if found.beside else "alone on the server"
    if found.verdict == "depends":
        answer = _crossings(found.ranges)
    else:
        answer = f"{_DOING[found.verdict]} is cheaper at every context up to {found.longest:,} tokens"
    yield f"For a preempted sequence, {others}, {answer}. Copies: {found.copies.source}."
    yield _bandwidths(found)
    space = found.copies.space_tokens
    if space is not None and space < found.longest:
        yield f"The swap space holds {space:,} tokens; what doesn't fit there is computed again."
    if found.scenario.rules == VLLM_V1:
        yield (
            "vLLM's V1 scheduler always recomputes, and then less than this if its prefix cache still holds blocks; "
            "swapping stands for an offload of KV to the host."
        )
    elif found.scenario.settings().get("preemption_mode") == "auto":
        yield "preemption_mode auto recomputes requests with one sample, and swaps those with several."


def _crossings(ranges: Sequence[Range]) -> str:
    first, last = ranges[0], ranges[-1]
    text = (
        f"{_DOING[first.cheaper]} is cheaper up to {first.last:,} tokens of context and "
        f"{_DOING[last.cheaper]} from {last.first:,} on"
    )
    between = "" if len(ranges) == 2 else f", with {len(ranges) - 1} changes between them, as blocks and steps fill"
    return text + between


def _bandwidths(found: Crossover) -> str:
    """At a few contexts, where there is such a bandwidth."""
    rates = {point.context_tokens: point.break_even_bytes_per_s for point in found.points}
    shown = [
        f"{gigabytes(rate)} at {tokens:,} tokens"
        for tokens in dict.fromkeys((*_SHOWN_LENGTHS, found.longest))
        if (rate := rates.get(tokens)) is not None
    ]
    if not shown:
        return "No link is fast enough to make swapping cheaper there."
    return f"The break-even bandwidth is {', '.join(shown)}."


def _rows(found: Crossover) -> Iterator[dict[str, Any]]:
    for point in found.points:
        yield {
            "context_tokens": point.context_tokens,
            "swap_ns": float(point.swap_ns),
            "recompute_ns": point.recompute_ns,
            "cheaper": point.cheaper,
            "break_even_bytes_per_s": _float(point.break_even_bytes_per_s),
        }


def _float(value: Fraction | None) -> float | None:
    return None if value is None else float(value)

"""How many requests of the user's own lengths fit at once: on average, and with 99 % certainty.

A request holds its prompt, grows by a token a step and leaves at its end. Of a pool of blocks follow three numbers:

    expected       pool / blocks of a running request, seen at a random moment of its life: prompt + half the output,
                   each request counted by how long it runs, which is by its output
    at full length pool / mean blocks of prompt + output: all at their ends at once
    p99-safe       the largest n such that n independent requests, all at their ends, fit with a probability of 99 %
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from kvlab.errors import ConfigError
from kvlab.sizing.layout import KvLayout
from kvlab.units import ceil_div

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SAFE: Final = 0.99
_POINTS: Final = 512
"""Values, equally likely, that stand for a distribution: its quantiles at (i + 1/2) / 512."""
_MAX_CELLS: Final = 2**16
"""Most units of the pool that sums are counted in; of larger pools a unit is several blocks."""
_MAX_ROWS: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthConcurrency:
    """Requests at once, for one distribution of lengths.

    Attributes:
        cut_ratio: share of requests that is longer than max_model_len; these count as that long.
    """

    lengths: str
    mean_prompt_tokens: Fraction
    mean_output_tokens: Fraction
    expected: Fraction
    at_full_length: Fraction
    p99_safe: int
    cut_ratio: Fraction


Pairs = Counter[tuple[int, int]]
"""(prompt, output) in tokens -> how often."""


def pairs_of_lengths(prompt_tokens: str, output_tokens: str) -> Pairs:
    """Independent prompts and outputs, each given as in scenarios: "512", "lognormal(p50=600, p95=3000)".

    Raises:
        ConfigError: not a distribution of lengths.
    """
    import numpy as np

    from kvlab.workloads.lengths import parse_lengths, sampler

    u = (np.arange(_POINTS) + 0.5) / _POINTS
    prompts, outputs = (
        Counter(sampler(parse_lengths(text, field))(u, 1.0).tolist())
        for text, field in ((prompt_tokens, "prompt_tokens"), (output_tokens, "output_tokens"))
    )
    return Counter({(p, o): n * m for p, n in prompts.items() for o, m in outputs.items()})


def pairs_of_trace(path: str) -> Pairs:
    """The prompts and outputs of a trace, as they belong together; at most a million rows.

    Raises:
        TraceError: it can't be read.
        ConfigError: it has too many rows.
    """
    from kvlab.workloads.traces import read_trace

    pairs = Pairs()
    for count, row in enumerate(read_trace(path, in_order=False), start=1):
        if count > _MAX_ROWS:
            raise ConfigError("trace", path, f"has more than {_MAX_ROWS:,} requests; cut it with `kvlab trace cut`")
        pairs[row.prompt_tokens, row.output_tokens] += 1
    return pairs


def concurrency(
    layout: KvLayout, num_blocks: int, pairs: Pairs, max_model_len: int | None, lengths: str
) -> LengthConcurrency:
    """How many requests of these lengths fit in the blocks at once.

    Args:
        pairs: at least one.
        max_model_len: longest request that the engine takes, in tokens; None for no limit.
        lengths: what the user called them.
    """
    limit = max_model_len or max(p + o for p, o in pairs)
    full, held = Counter[int](), 0
    time = cut = total_prompt = total_output = 0
    demand = _Demand(layout)
    for (prompt, output), count in pairs.items():
        longest = min(prompt + output, limit)
        full[demand(longest)] += count
        held += count * output * demand(min(prompt + ceil_div(output, 2), limit))
        time += count * output
        cut += count * (prompt + output > limit)
        total_prompt += count * prompt
        total_output += count * output
    number = pairs.total()
    mean_full = Fraction(sum(blocks * count for blocks, count in full.items()), number)
    return LengthConcurrency(
        lengths=lengths,
        mean_prompt_tokens=Fraction(total_prompt, number),
        mean_output_tokens=Fraction(total_output, number),
        expected=Fraction(num_blocks * time, held) if held else Fraction(0),
        at_full_length=num_blocks / mean_full,
        p99_safe=safe_count(full, num_blocks),
        cut_ratio=Fraction(cut, number),
    )


class _Demand:
    """Blocks of a sequence by its length, each length computed once."""

    def __init__(self, layout: KvLayout) -> None:
        self._layout = layout
        self._known: dict[int, int] = {}

    def __call__(self, tokens: int) -> int:
        if tokens not in self._known:
            self._known[tokens] = self._layout.held_blocks(tokens)
        return self._known[tokens]


def safe_count(demand: Counter[int], num_blocks: int) -> int:
    """The largest n such that n independent demands together take at most `num_blocks`, with a probability of 99 %.

    The distribution of the sum is computed, not approximated: by convolution, up to the size of the pool. Pools of
    more than 65,536 blocks are counted in larger units, demands rounded up, which errs to the safe side.

    >>> safe_count(Counter({563: 1}), 30_517)
    54
    """
    if len(demand) == 1:
        return num_blocks // next(iter(demand))
    import numpy as np

    unit = ceil_div(num_blocks + 1, _MAX_CELLS)
    cells = num_blocks // unit + 1
    one = np.zeros(cells)
    for blocks, count in demand.items():
        if (cell := ceil_div(blocks, unit)) < cells:
            one[cell] += count / demand.total()
    powers = [one]  # the sum of 1, 2, 4, ... requests, as far as it fits
    while float(powers[-1].sum()) >= SAFE:
        powers.append(_sum_of(powers[-1], powers[-1]))
    found, so_far = 0, None
    for exponent in reversed(range(len(powers))):
        tried = powers[exponent] if so_far is None else _sum_of(so_far, powers[exponent])
        if float(tried.sum()) >= SAFE:
            found, so_far = found + 2**exponent, tried
    return found


def _sum_of(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """The distribution of the sum of two independent numbers, cut at the same end."""
    import numpy as np

    size = 2 ** (2 * len(left) - 1).bit_length()
    product = np.fft.irfft(np.fft.rfft(left, size) * np.fft.rfft(right, size), size)
    return np.maximum(np.asarray(product[: len(left)], dtype=np.float64), 0.0)

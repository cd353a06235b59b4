"""What a change of a setting costs its operator, in points: one table for the missions and for advice.

The order is what matters. A flag is cheap; a lower limit makes users wait; memory costs money; FP8 risks quality and
wants an evaluation; turning users away is dearest. Moves that give something back (memory, swap space) are free.

    flag 1 < lower limit 2 < other allocator 3 < memory 1 per half GiB < FP8 8 < users 10 per 0.5 requests/s

To price another way, pass a table of your own: `price_of(field, before, after, {**PRICES, "kv_cache_dtype": ...})`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final, Protocol

from kvlab.errors import UnknownNameError
from kvlab.setting_table import SETTINGS
from kvlab.settings import RATE, RATIO, Setting, Value, exact_decimal
from kvlab.units import GIB


class Rule(Protocol):
    """How the price of a move depends on its two ends."""

    def points(self, before: Value, after: Value) -> int:
        """Price of moving a setting between two different values."""

    def describe(self, setting: Setting) -> str:
        """The same in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flat:
    """One price each way, however far a number is moved."""

    up: int
    down: int

    def points(self, before: Value, after: Value) -> int:
        """Price by direction alone."""
        return self.up if _number(after) > _number(before) else self.down

    def describe(self, setting: Setting) -> str:
        """Both directions."""
        return f"raise it: {_points(self.up)}; lower it: {_points(self.down)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PerStep:
    """A price for every step of that size that a number is moved; a step that is started counts whole."""

    step: int | Decimal
    up: int
    down: int

    def points(self, before: Value, after: Value) -> int:
        """Price by direction and distance."""
        change = _number(after) - _number(before)
        steps = -(-abs(change) // Fraction(self.step))
        return steps * (self.up if change > 0 else self.down)

    def describe(self, setting: Setting) -> str:
        """Both directions, with the step in the setting's unit."""
        if setting.kind is RATIO:
            step = f"{exact_decimal(Decimal(self.step) * 100)} %"
        else:
            unit = setting.kind.unit if setting.kind is RATE else setting.unit
            step = f"{setting.show(self.step)} {unit}".rstrip()
        return "; ".join(
            f"{way} it: {_points(points)}{f' per started {step}' if points else ''}"
            for way, points in (("raise", self.up), ("lower", self.down))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class To:
    """A price by where the setting ends."""

    values: tuple[Value, ...]
    price: int
    """Of a move to one of `values`."""
    others: int
    """Of a move to any other value."""

    def points(self, before: Value, after: Value) -> int:
        """Price by the new value."""
        return self.price if after in self.values else self.others

    def describe(self, setting: Setting) -> str:
        """The named values, and the rest."""
        if self.price == self.others:
            return f"change it: {_points(self.price)}"
        *most, last = map(setting.show, self.values)
        named = f"{', '.join(most)} or {last}" if most else last
        return f"to {named}: {_points(self.price)}; otherwise: {_points(self.others)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """One row of the table."""

    rule: Rule
    reason: str
    """What the operator really pays with, as a sentence."""

    def text(self, field: str) -> str:
        """The row as the page and the command line show it."""
        rule = self.rule.describe(SETTINGS[field])
        return f"{rule[0].upper()}{rule[1:]}. {self.reason}"


PRICES: Final[dict[str, Price]] = {
    "preemption_mode": Price(
        rule=To(values=(), price=1, others=1),
        reason="A flag and a restart.",
    ),
    "block_size": Price(
        rule=To(values=(8, 16, 32), price=1, others=2),
        reason="A flag and a restart; sizes that no attention kernel is tuned for cost a test as well.",
    ),
    "headroom_blocks": Price(
        rule=PerStep(step=128, up=1, down=0),
        reason="A flag, and blocks that stay empty.",
    ),
    "swap_space_bytes": Price(
        rule=PerStep(step=4 * GIB, up=1, down=0),
        reason="Pinned host memory, which is cheap.",
    ),
    "max_num_seqs": Price(
        rule=Flat(up=1, down=2),
        reason="A flag; under a lower limit users wait in the queue, under a higher one every step takes longer.",
    ),
    "max_tokens": Price(
        rule=Flat(up=1, down=2),
        reason="A default of your gateway; a lower one cuts the longest answers short.",
    ),
    "allocator": Price(
        rule=To(values=(), price=3, others=3),
        reason="Another engine, or another build of it.",
    ),
    "gpu_memory_utilization": Price(
        rule=PerStep(step=Decimal("0.01"), up=1, down=0),
        reason="Memory that nothing else can have; near 1, a spike of activations ends in out of memory.",
    ),
    "kv_memory_bytes": Price(
        rule=PerStep(step=GIB // 2, up=1, down=0),
        reason="Memory that nothing else can have.",
    ),
    "kv_cache_memory_bytes": Price(
        rule=PerStep(step=GIB // 2, up=1, down=0),
        reason="Memory of every GPU that nothing else can have.",
    ),
    "kv_cache_dtype": Price(
        rule=To(values=("fp8",), price=8, others=0),
        reason="FP8 can change answers: evaluate before you ship it.",
    ),
    "watermark": Price(
        rule=PerStep(step=Decimal("0.05"), up=1, down=0),
        reason="A flag, and blocks that stay empty.",
    ),
    "max_num_batched_tokens": Price(
        rule=To(values=(), price=1, others=1),
        reason="A flag; a larger budget makes every step with prefill longer, a smaller one the first token later.",
    ),
    "prefill_budget_tokens": Price(
        rule=To(values=(), price=1, others=1),
        reason="A flag; a larger budget makes every step with prefill longer, a smaller one the first token later.",
    ),
    "long_prefill_token_threshold": Price(
        rule=To(values=(), price=1, others=1),
        reason="A flag; long prompts take more steps.",
    ),
    "scheduler_reserve_full_isl": Price(
        rule=To(values=(), price=1, others=1),
        reason="A flag.",
    ),
    "enable_prefix_caching": Price(
        rule=To(values=(), price=1, others=1),
        reason="A flag.",
    ),
    "tensor_parallel_size": Price(
        rule=Flat(up=40, down=0),
        reason="More GPUs for every replica.",
    ),
    "request_rate": Price(
        rule=PerStep(step=Decimal("0.5"), up=0, down=10),
        reason="A lower rate means that users are turned away.",
    ),
    "trace_speed": Price(
        rule=PerStep(step=Decimal("0.1"), up=0, down=10),
        reason="A slower trace means that users are turned away.",
    ),
    "max_concurrency": Price(
        rule=PerStep(step=8, up=0, down=10),
        reason="Fewer users at once means that users are turned away.",
    ),
}


def price_of(field: str, before: Value, after: Value, prices: Mapping[str, Price] = PRICES) -> int:
    """Points for moving one setting; nothing for leaving it alone.

    >>> price_of("max_num_seqs", 256, 40), price_of("kv_memory_bytes", 3 * GIB, 5 * GIB)
    (2, 4)

    Raises:
        UnknownNameError: the table has no price for this field; names the nearest that it has.
    """
    if field not in prices:
        raise UnknownNameError("priced setting", field, prices)
    return 0 if before == after else prices[field].rule.points(before, after)


def cost_of(before: Mapping[str, object], after: Mapping[str, object], prices: Mapping[str, Price] = PRICES) -> int:
    """Points for all settings in which `after` differs from `before`, both as `Scenario.settings` gives them.

    Raises:
        UnknownNameError: one that differs has no price.
    """
    moved = (field for field in after if after[field] != before[field])
    return sum(price_of(field, _value(before[field]), _value(after[field]), prices) for field in moved)


def _value(given: object) -> Value:
    assert given is None or isinstance(given, int | str | Decimal), given
    return given


def _number(value: Value) -> Fraction:
    assert isinstance(value, int | Decimal), f"{value!r} can't be raised or lowered"
    return Fraction(value)


def _points(points: int) -> str:
    return "free" if points == 0 else f"{points} point{'' if points == 1 else 's'}"

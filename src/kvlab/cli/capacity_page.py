"""A capacity as a page of text: the answer in a sentence, the waterfall, the figures with their provenance."""

from __future__ import annotations

import textwrap
from fractions import Fraction
from typing import Final

from kvlab.cli.terminal import Terminal, columns, flow, pad, visible_length
from kvlab.sizing.accuracy import Band
from kvlab.sizing.figures import Figure
from kvlab.sizing.memory import Waterfall
from kvlab.sizing.result import Capacity
from kvlab.units import GIB, format_bytes, format_number

_LABEL_WIDTH: Final = 16
_SIZE_WIDTH: Final = 10
_WORD_WIDTH: Final = 10
_HINT: Final = "--json has the source of every figure"


def page(found: Capacity, errors: Band | None, starts_with: str | None, terminal: Terminal) -> str:
    """The whole page, ready to be written.

    Args:
        starts_with: a flag with which an engine that doesn't start would; None where none is known.
        errors: how far figures from scratch are from what engines logged; None where the KV memory was given.
    """
    lines = [*_title(found, terminal), "", *_answer(found, terminal), ""]
    if starts_with is not None:
        lines += [f"It would start with {starts_with}.", ""]
    if found.waterfall is not None:
        lines += [*_waterfall(found, found.waterfall, terminal), ""]
    lines += _facts(found, terminal)
    if found.notes:
        lines += ["", *(line for note in found.notes for line in textwrap.wrap(note, terminal.width))]
    closing = _HINT if errors is None else f"{_band(errors)} {_HINT}"
    lines += ["", *(terminal.style(line, "dim") for line in textwrap.wrap(closing + ".", terminal.width))]
    return terminal.render(lines)


def _title(found: Capacity, terminal: Terminal) -> list[str]:
    plan = found.plan
    name = "KV memory" if plan.architecture is None else plan.architecture.name
    gpus = plan.tensor_parallel_size * plan.pipeline_parallel_size
    parts = [terminal.style(name, "bold")]
    if plan.gpu is not None:
        parts.append(f"{gpus} × {plan.gpu.name}" if gpus > 1 else plan.gpu.name)
    elif gpus > 1:
        parts.append(f"{gpus} GPUs")
    if plan.architecture is not None:
        parts.append(f"{plan.weight_dtype} weights")
    if plan.kv_cache_dtype != "auto":
        parts.append(f"{plan.kv_cache_dtype} KV")
    parts.append(str(plan.settings()["engine"]))
    return flow(parts, terminal.width, 2)


def _answer(found: Capacity, terminal: Terminal) -> list[str]:
    if found.refusal is not None:
        head = terminal.style("The engine doesn't start. It says:", "bold", "red")
        said = textwrap.wrap(found.refusal, terminal.width - 2, break_long_words=False, break_on_hyphens=False)
        return [head, "", *("  " + line for line in said)]
    tokens = f"{found.kv_cache_tokens:,} tokens of KV fit."
    rest = f"That is {_requests(found.max_concurrency)} requests of {found.plan.max_model_len:,} tokens at once"
    if found.by_lengths is None:
        return _bold_first(tokens, f"{rest}, the worst case.", terminal)
    by = found.by_lengths
    return _bold_first(
        tokens,
        f"{rest}, the worst case; of your own, {_requests(by.expected)} on average "
        f"and {by.p99_safe:,} with 99 % certainty.",
        terminal,
    )


def _bold_first(first: str, rest: str, terminal: Terminal) -> list[str]:
    line, *others = textwrap.wrap(f"{first} {rest}", terminal.width)
    return [terminal.style(first, "bold") + line[len(first) :], *others]


def _waterfall(found: Capacity, split: Waterfall, terminal: Terminal) -> list[str]:
    """A bar per part, each beginning where the one above ends."""
    width = terminal.width - _LABEL_WIDTH - _SIZE_WIDTH - _WORD_WIDTH - 3
    total = split.total_bytes
    beyond = total - split.usable_bytes
    graphs = split.graph_bytes if split.graphs_counted else 0
    figures = found.figures
    share = format_number(Fraction(beyond, total) * 100)
    rows = [
        (f"Not used ({share} %)", beyond, figures["usable_bytes"], "dim"),
        ("Weights", split.weights_bytes, figures["weights_bytes"], "blue"),
        ("Activations", split.activation_bytes, figures["activation_bytes"], "yellow"),
        ("Outside PyTorch", split.non_torch_bytes, figures["non_torch_bytes"], "magenta"),
        ("CUDA graphs", graphs, figures["graph_bytes"], "cyan"),
        ("KV cache", split.kv_bytes, figures["kv_cache_bytes"], "green"),
    ]
    lines = [_bar_line("GPU memory", total, _bar(0, total, total, width), figures["gpu_memory_bytes"], "", terminal)]
    start = total
    for label, size, figure, colour in rows:
        if label == "CUDA graphs" and not graphs:
            continue
        end, start = start, start - size
        lines.append(_bar_line(label, size, _bar(start, end, total, width), figure, colour, terminal))
    if not split.graphs_counted and split.graph_bytes:
        more = format_bytes(split.graph_bytes)
        said = textwrap.wrap(f"CUDA graphs take {more} more, of what the engine doesn't use.", terminal.width)
        lines += [terminal.style(line, "dim") for line in said]
    return lines


def _bar(start: int, end: int, total: int, width: int) -> str:
    """Cells from start to end of a line that stands for the total; what is too small for one is a thin stroke.

    >>> _bar(50, 100, 100, 8), _bar(49, 50, 100, 8)
    ('    ████', '    │')
    """
    left, right = (min(width, max(0, round(Fraction(at * width, total)))) for at in (start, end))
    if left == right:
        return " " * min(left, width - 1) + ("│" if end > start else "")
    return " " * left + "█" * (right - left)


def _bar_line(label: str, size: int, bar: str, figure: Figure, colour: str, terminal: Terminal) -> str:
    shown = pad(_gib(size), _SIZE_WIDTH, ">")
    width = terminal.width - _LABEL_WIDTH - _SIZE_WIDTH - _WORD_WIDTH - 3
    drawn = pad(terminal.style(bar, colour) if colour else bar, width)
    return f"{label:<{_LABEL_WIDTH}} {shown} {drawn} {terminal.style(figure.provenance, 'dim')}"


def _facts(found: Capacity, terminal: Terminal) -> list[str]:
    layout, figures = found.layout, found.figures
    per_token = format_bytes(found.kv_bytes_per_token)
    gpus = found.plan.tensor_parallel_size * found.plan.pipeline_parallel_size
    rows = [
        ("KV per token", f"{per_token}{' on each GPU' if gpus > 1 else ''}", "kv_bytes_per_token"),
        ("KV cache", f"{found.kv_cache_tokens:,} tokens", "kv_cache_tokens"),
        (
            "Blocks",
            f"{found.num_gpu_blocks:,} of {layout.block_size} tokens, {format_bytes(found.block_bytes)} each",
            "num_gpu_blocks",
        ),
        (
            "Worst case",
            f"{_two(found.max_concurrency)}x {found.plan.max_model_len:,} tokens, as the engine logs it",
            "max_concurrency",
        ),
    ]
    if found.by_lengths is not None:
        by = found.by_lengths
        mean = f"{format_number(by.mean_prompt_tokens)} + {format_number(by.mean_output_tokens)} tokens on average"
        rows += [
            ("Your requests", mean, ""),
            ("  running", f"{_two(by.expected)} at once, at a random moment of their lives", "expected_concurrency"),
            (
                "  at their ends",
                f"{_two(by.at_full_length)} at once, if all are as long as they get",
                "full_length_concurrency",
            ),
            ("  p99-safe", f"{by.p99_safe:,} at once fit at their ends in 99 % of the cases", "p99_safe_concurrency"),
        ]
    longest = f"{found.longest_max_model_len:,} tokens is the largest max_model_len that starts"
    rows.append(
        ("Longest", longest if found.longest_max_model_len else "no max_model_len starts", "longest_max_model_len")
    )
    table = [
        [label, text, terminal.style(figures[name].provenance, "dim") if name else ""] for label, text, name in rows
    ]
    lines = columns(table, "<<<")
    if max(map(visible_length, lines)) > terminal.width:
        lines = [line for label, text, _ in rows for line in _wrapped(label, text, terminal.width)]
    assumed = [name for name in ("max_model_len", "block_size") if figures[name].provenance == "assumed"]
    if assumed:
        named = ", ".join(f"{name} {figures[name].value:,}" for name in assumed)
        said = textwrap.wrap(f"Assumed, because not given: {named}.", terminal.width)
        lines += [terminal.style(line, "dim") for line in said]
    return lines


def _wrapped(label: str, text: str, width: int) -> list[str]:
    """A row of a terminal that is too narrow for provenances beside it."""
    first, *rest = textwrap.wrap(text, width - _LABEL_WIDTH)
    return [f"{label:<{_LABEL_WIDTH}}{first}", *(" " * _LABEL_WIDTH + line for line in rest)]


def _band(errors: Band) -> str:
    median, most = (f"{float(share * 100):.1f} %" for share in (errors.median, errors.four_fifths))
    return (
        f"Of {errors.count} capacities that engines logged, half are within {median} of what this computes, "
        f"four of five within {most}; {errors.above} of them are lower."
    )


def _requests(count: Fraction) -> str:
    """
    >>> _requests(Fraction(12904, 100)), _requests(Fraction(461, 100)), _requests(Fraction(1, 3))
    ('129', '4.61', '0.33')
    """
    return f"{count.numerator // count.denominator:,}" if count >= 100 else _two(count)


def _two(count: Fraction) -> str:
    return f"{float(count):,.2f}"


def _gib(size: int) -> str:
    return f"{size / GIB:.2f} GiB"

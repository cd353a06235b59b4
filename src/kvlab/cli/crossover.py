"""`kvlab crossover`: from what context length, and with what link, swapping a preempted sequence is cheaper."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING, Any, Final

import click

from kvlab.cli.options import ScenarioCommand, setting_options
from kvlab.cli.terminal import Terminal, columns, stdout_terminal
from kvlab.cli.vllm import chosen, origin_lines, vllm_options
from kvlab.units import format_duration

if TYPE_CHECKING:
    from kvlab.advice.crossover import Crossover, Point

_LEAST_SHOWN: Final = 128
"""Context lengths in the table: twice as many from one row to the next, from these tokens on."""


@click.command(cls=ScenarioCommand)
@click.argument("scenario", metavar="[NAME|FILE]", required=False)
@vllm_options
@click.option("--link", metavar="SIZE/s", help="Bandwidth to the host, one way, such as 25GB/s.")
@click.option("--beside", metavar="N", type=int, default=0, help="Sequences that decode meanwhile; 0: it is alone.")
@click.option("--plot", metavar="FILE", help="Draw it: .png, .svg or .html.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@setting_options
def crossover(
    scenario: str | None,
    vllm: str | None,
    vllm_log: str | None,
    link: str | None,
    beside: int,
    plot: str | None,
    as_json: bool,
    assignments: tuple[str, ...],
    **flags: Any,
) -> None:
    """What a preemption costs NAME or the scenario in FILE: KV copied to the host and back, or computed again.

    \b
    kvlab crossover preemption-lab --slow-pcie 2
    kvlab crossover vllm-v0 --model Qwen/Qwen2.5-7B-Instruct --gpu A100-80GB --beside 64
    kvlab crossover vllm-v1 --gpu H100 --link 40GB/s --plot crossover.png

    Costs are exactly what the engine charges. vllm-v1 never swaps: there it is what an offload would have to beat.
    """
    from kvlab.advice.crossover import crossover as find_crossover
    from kvlab.advice.crossover import parse_link
    from kvlab.advice.pictures import check_path

    if plot is not None:
        check_path(plot)
    base, origins = chosen(scenario, vllm, vllm_log, flags, assignments)
    found = find_crossover(base, beside=beside, link_bytes_per_s=None if link is None else parse_link(link))
    if plot is not None:
        click.echo(f"wrote {found.plot(plot)}", err=True)
    if as_json:
        click.echo(json.dumps(found.to_dict(), indent=2, ensure_ascii=False))
    else:
        terminal = stdout_terminal()
        read = [] if origins is None else ["", *origin_lines(origins, terminal)]
        click.echo(_page(found, terminal) + terminal.render(read), nl=False)


def _page(found: Crossover, terminal: Terminal) -> str:
    lines = [terminal.style(found.scenario.name, "bold"), "", *_wrapped(found.text, terminal), ""]
    rows = [["context", "swap", "recompute", "cheaper", "break-even link"]]
    rows += [_row(point) for point in _shown(found)]
    lines += columns(rows, ">>><>")
    lines += ["", *_wrapped(f"Step times: {'; '.join(found.step_times)}.", terminal)]
    return terminal.render(lines)


def _wrapped(text: str, terminal: Terminal) -> list[str]:
    return textwrap.wrap(text, terminal.width, break_on_hyphens=False)


def _shown(found: Crossover) -> list[Point]:
    """Powers of two, both sides of the crossing, the longest."""
    lengths = {2**i for i in range(_LEAST_SHOWN.bit_length() - 1, found.longest.bit_length())} | {found.longest}
    crossing = found.break_even_tokens
    if crossing is not None:
        lengths |= {max(1, crossing - 1), crossing}
    known = {point.context_tokens: point for point in found.points}
    return [known.get(length) or found.at(length) for length in sorted(lengths) if length <= found.longest]


def _row(point: Point) -> list[str]:
    from kvlab.advice.preempted import gigabytes

    rate = point.break_even_bytes_per_s
    swap, recompute = format_duration(point.swap_ns), format_duration(point.recompute_ns)
    return [f"{point.context_tokens:,}", swap, recompute, point.cheaper, "none" if rate is None else gigabytes(rate)]

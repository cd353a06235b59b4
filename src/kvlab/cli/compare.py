"""`kvlab compare`: runs side by side, each against the first."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Final

import click

from kvlab.cli.options import parse_assignments, set_option
from kvlab.cli.report import accounts, changes_in_words
from kvlab.cli.run import say_timing, simulate
from kvlab.cli.terminal import Terminal, columns, flow, stdout_terminal
from kvlab.comparison import Change, Comparison, Result, Row, is_result
from kvlab.comparison import compare as compare_results
from kvlab.core.config import METRICS as METRICS_ONLY
from kvlab.errors import ConfigError
from kvlab.metrics import HEADLINES, Metric
from kvlab.scenarios import Scenario, load, read_document, read_text
from kvlab.units import format_number

_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_COMMAND: Final = re.compile(r"\bvllm\s+serve\s|\bvllm\.entrypoints\.|^(docker|podman)\s")
_WIDE: Final = 96
"""Columns of a terminal that has room for both the absolute and the relative change."""


@click.command()
@click.argument("runs", metavar="A B [C...]", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON.")
@click.option("--all", "show_all", is_flag=True, help="Show every metric, not the most telling ones.")
@click.option("--quiet", "-q", is_flag=True, help="No progress and no timing on stderr.")
@set_option
def compare(runs: tuple[str, ...], as_json: bool, show_all: bool, quiet: bool, assignments: tuple[str, ...]) -> None:
    """Run A, B, ... and show how each differs from A.

    Each is a preset, a scenario file, a result of `kvlab run --json`, a preset or file with changes after a colon, or
    a command "vllm serve ...", whose GPU --set gpu=NAME says.
    What --set says holds for all of them.

    \b
    kvlab compare preemption-lab preemption-lab:max_num_seqs=48
    kvlab compare preemption-lab:preemption_mode=recompute preemption-lab:preemption_mode=swap --set burst=2.5
    """
    if not 2 <= len(runs) <= len(_LETTERS):
        raise click.UsageError(f"give 2 to {len(_LETTERS)} runs to compare, not {len(runs)}")
    terminal = stdout_terminal()
    common = parse_assignments(assignments)
    sides = [_side(text, common) for text in runs]
    results = [side if isinstance(side, Result) else _result(side, quiet) for side in sides]
    comparison = compare_results(results)
    if as_json:
        click.echo(json.dumps(comparison.to_dict(), indent=2, ensure_ascii=False))
        return
    lines = [*_legend(sides, comparison, terminal), "", *_traffic(comparison), ""]
    lines += _table(comparison, terminal, show_all=show_all)
    click.echo(terminal.render(lines), nl=False)


def _side(text: str, common: dict[str, object]) -> Scenario | Result:
    """The scenario, or the stored result, that one argument means."""
    if _COMMAND.search(text):
        from kvlab.vllm_flags import parse_command
        from kvlab.vllm_setup import setup

        return setup([parse_command(text)], common).scenario
    name, changes = text, ""
    if not Path(text).exists() and ":" in text:
        name, _, changes = text.partition(":")
    if Path(name).is_file() and is_result(read_document(read_text(Path(name)), name)):
        if changes or common:
            raise ConfigError("runs", text, "a stored result can't be changed; name its scenario instead")
        stored = Result.read(name)
        return replace(stored, scenario=Scenario.from_dict(dict(stored.scenario), where=name).to_dict())
    own = parse_assignments(_split(changes))
    return load(name).replace(**{**common, **own})


def _split(changes: str) -> list[str]:
    """Cut at commas that are neither in brackets nor in quotes: lengths and SLOs have commas of their own.

    >>> _split("max_num_seqs=48,output_tokens=exponential(250, max=900)")
    ['max_num_seqs=48', 'output_tokens=exponential(250, max=900)']
    """
    parts, depth, quoted = [""], 0, False
    for char in changes:
        quoted ^= char == '"'
        depth += (char == "(") - (char == ")")
        if char == "," and depth <= 0 and not quoted:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts if part.strip()]


def _result(scenario: Scenario, quiet: bool) -> Result:
    run, took_ns = simulate(scenario, METRICS_ONLY, quiet=quiet)
    if not quiet:
        say_timing(run, took_ns)
    if run.interrupted:
        raise click.Abort
    return Result.of(run)


def _legend(sides: Sequence[Scenario | Result], comparison: Comparison, terminal: Terminal) -> list[str]:
    """What each letter means, and what became of all its requests."""
    lines = []
    for letter, side, result in zip(_LETTERS, sides, comparison.results, strict=False):
        if isinstance(side, Result):
            scenario = Scenario.from_dict(dict(side.scenario), where=side.name)
            changes = ["stored result", *changes_in_words(scenario, terminal)]
        else:
            changes = changes_in_words(side, terminal)
        partial = ["PARTIAL RESULT"] if result.interrupted else []
        parts = [terminal.style(side.name, "bold"), *changes, *partial, accounts(result.metrics)]
        head, *rest = flow(parts, terminal.width - 3, 2)
        lines += [f"{terminal.style(letter, 'bold')}  {head}", *("   " + line for line in rest)]
    return lines


def _traffic(comparison: Comparison) -> list[str]:
    caps = {result.scenario["server"].get("max_tokens") for result in comparison.results}
    if comparison.same_traffic and len(caps) == 1:
        return ["The same requests in all: differences come from the server."]
    if comparison.same_traffic:
        return ["The same requests in all, but for answers that max_tokens cuts."]
    first, *others = (result.traffic for result in comparison.results)
    names = {name for other in others for name in {**first, **other} if first.get(name) != other.get(name)}
    return [f"The traffic differs in {', '.join(sorted(names))}: differences come from that, too."]


def _table(comparison: Comparison, terminal: Terminal, *, show_all: bool) -> list[str]:
    chosen = [row for row in comparison.rows if show_all or row.metric.name in HEADLINES]
    wide = terminal.width >= _WIDE
    lines: list[str] = []
    for number in range(1, len(comparison.results)):
        head = ["", _LETTERS[0], _LETTERS[number], "change", *[""] * wide, ""]
        rows = [[terminal.style(word, "dim") for word in head]]
        rows += [_cells(row, row.changes[number - 1], terminal, wide=wide) for row in chosen]
        lines += [*columns(rows, "<>>>><" if wide else "<>>><"), ""]
    return lines[:-1]


def _cells(row: Row, change: Change, terminal: Terminal, *, wide: bool) -> list[str]:
    metric = row.metric
    colour = {"better": "green", "worse": "red"}.get(change.verdict, "dim")
    word = "" if change.verdict in ("changed", "unknown") else change.verdict
    absolute, relative = _differences(metric, change)
    deltas = [absolute, relative] if wide else [relative or absolute]
    values = (metric.format(value).removesuffix(" tokens") for value in (row.first, change.value))
    return [metric.label, *values, *deltas, terminal.style(word, colour)]


def _differences(metric: Metric, change: Change) -> tuple[str, str]:
    """The change with its sign: in the metric's unit, and in per cent of the first value where that says more."""
    if not change.delta:
        return "", ""
    size = abs(change.delta)
    if metric.unit == "ratio":
        return _signed(change.delta, f"{format_number(size * 100)} pp"), ""
    relative = "" if change.ratio is None else _signed(change.ratio, f"{format_number(abs(change.ratio) * 100)} %")
    return _signed(change.delta, metric.format(size).removesuffix(f" {metric.unit}")), relative


def _signed(value: Fraction, text: str) -> str:
    return ("+" if value > 0 else "-") + text

"""`kvlab explain`: what a metric or a setting means, its unit and source, and what the engines call it."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Final

import click

from kvlab.cli.lookup import SPREADS, known_words, look_up, plain
from kvlab.cli.terminal import Terminal, columns, pad, stdout_terminal
from kvlab.metrics import METRICS, Metric
from kvlab.scenarios import PRESETS, preset
from kvlab.setting_table import SETTINGS
from kvlab.settings import SWITCH, Setting

_NAME_WIDTH: Final = 14


@click.command()
@click.argument("name", metavar="[METRIC|SETTING]", required=False)
def explain(name: str | None) -> None:
    """Say what METRIC or SETTING means; without a name, list them all.

    A label of a table will do, and so will an engine's own name.

    \b
    kvlab explain p99_gap_ns
    kvlab explain ITL
    kvlab explain --max-num-seqs
    kvlab explain vllm:num_preemptions_total
    """
    terminal = stdout_terminal()
    lines = _everything(terminal) if name is None else _one(name, terminal)
    click.echo(terminal.render(lines), nl=False)


# A flag is a fine name for a setting: let click pass it on.
explain.context_settings = {"ignore_unknown_options": True}


def _one(given: str, terminal: Terminal) -> list[str]:
    found = look_up(given)
    if found is None:
        near = get_close_matches(plain(given), known_words(), n=1, cutoff=0.6)
        hint = f'did you mean "{near[0]}"? ' if near else ""
        raise click.UsageError(f'unknown metric or setting "{given}": {hint}`kvlab explain` lists all')
    lines = []
    if found.engines:
        names = ", ".join(meaning.called for meaning in found.meanings)
        lines = [f"{given.strip()} ({', '.join(found.engines)}) is {names} in kvlab.", ""]
    for meaning in found.meanings:
        entry = meaning.entry
        lines += _setting(entry, terminal) if isinstance(entry, Setting) else _metric(entry, meaning.names, terminal)
        lines.append("")
    return lines[:-1]


def _metric(metric: Metric, names: Sequence[str], terminal: Terminal) -> list[str]:
    label, formula = metric.label, metric.formula
    if len(names) > 1:  # the family: its formula ends with how this member is taken
        label, formula = label.rsplit(" ", 1)[0], formula.rsplit(";", 1)[0]
    better = "" if metric.better is None else f", {metric.better} is better"
    lines = [terminal.style(label, "bold") + "  " + terminal.style(", ".join(names), "dim")]
    lines += _entry("formula", formula, terminal)
    lines += _entry("unit", metric.unit + better, terminal)
    lines += _entry("source", metric.source, terminal)
    return lines + _engines(metric.engines, terminal)


def _setting(setting: Setting, terminal: Terminal) -> list[str]:
    flags = ", ".join([setting.flag, *setting.aliases])
    lines = [terminal.style(setting.name, "bold") + "  " + terminal.style(flags, "dim")]
    lines += _entry("meaning", setting.help, terminal)
    lines += _entry("values", _values(setting), terminal)
    for name in PRESETS:
        scenario = preset(name)
        if scenario.rules in setting.rules:
            default = setting.show(scenario.settings()[setting.name]) or "nothing"
            lines += _entry("default", f"{default} in {name}", terminal)
    lines += _entry("source", setting.source, terminal)
    return lines + _engines(setting.engines, terminal)


def _values(setting: Setting) -> str:
    if setting.choices is not None:
        text = ", ".join(setting.choices())
    elif setting.kind is SWITCH:
        text = "on, off"
    else:
        text = (
            f"{setting.kind.word.lower()} {f'({unit})' if (unit := setting.unit or setting.kind.unit) else ''}".strip()
        )
        for word, bound in (("above", setting.above), ("from", setting.at_least), ("to", setting.at_most)):
            text += "" if bound is None else f", {word} {setting.show(bound)}"
    text += "; or none" if setting.optional else ""
    return text if setting.bare is None else f"{text}; the flag alone means {setting.bare}"


def _engines(engines: Mapping[str, str], terminal: Terminal) -> list[str]:
    return [line for engine, word in engines.items() for line in _entry(engine, word, terminal)]


def _entry(head: str, text: str, terminal: Terminal) -> list[str]:
    wrapped = textwrap.wrap(text, terminal.width - _NAME_WIDTH - 2, break_on_hyphens=False) or [""]
    heads = [terminal.style(pad(f"  {head}", _NAME_WIDTH), "dim"), *[" " * _NAME_WIDTH] * (len(wrapped) - 1)]
    return [f"{left}  {line}" for left, line in zip(heads, wrapped, strict=True)]


def _everything(terminal: Terminal) -> list[str]:
    lines = ["`kvlab explain NAME` says more about each.", ""]
    groups: dict[str, list[list[str]]] = {}
    for metric in METRICS.values():
        rows = groups.setdefault(f"Metrics: {metric.group}", [])
        spread, _, family = metric.name.partition("_")
        if metric.group != "latency":
            rows.append([metric.name, metric.label, metric.unit])
        elif spread == SPREADS[0]:  # six names, one line
            label = metric.label.rsplit(" ", 1)[0]
            rows.append([family.removesuffix("_ns"), f"{label}: {spread}_{family}, p50_{family}, … max_{family}", "ns"])
    for setting in SETTINGS.values():
        summary = setting.help.split(":")[0].split(";")[0].rstrip(".")
        where = setting.group if len(setting.rules) > 1 else setting.rules[0]
        groups.setdefault(f"Settings: {where}", []).append([setting.name, summary, ""])
    for title, rows in groups.items():
        lines += [terminal.style(title, "bold"), *("  " + line for line in columns(rows, "<<<")), ""]
    return lines[:-1]

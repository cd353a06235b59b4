"""`kvlab advise`: the cheapest fixes for a scenario and a service level."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING, Any, Final

import click

from kvlab.cli.options import ScenarioCommand, good_option, setting_options, take_slo
from kvlab.cli.progress import RunCount
from kvlab.cli.terminal import Terminal, columns, stdout_terminal
from kvlab.cli.vllm import chosen, step_time_line, vllm_options
from kvlab.errors import ConfigError
from kvlab.metrics import METRICS
from kvlab.setting_table import SETTINGS

if TYPE_CHECKING:
    from kvlab.prices import Price
    from kvlab.scenarios import Scenario

MAX_SEEDS: Final = 100
_SHOWN: Final = 3
"""Fixes that are shown with all their figures."""


@click.command(cls=ScenarioCommand)
@click.argument("scenario", metavar="NAME|FILE", required=False)
@vllm_options
@good_option
@click.option("--levers", metavar="NAMES", help="Only these settings may change: max_num_seqs,watermark.")
@click.option("--prices", metavar="FILE", help="A price table of your own, as docs/advice.md has it.")
@click.option("--seeds", metavar="N", type=int, default=3, help="Every fix must hold with so many seeds (default 3).")
@click.option("--most-runs", metavar="N", type=int, help="Of combinations of settings (default 500).")
@click.option("--workers", metavar="N", type=int, help="Processes; by default one per processor.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.option("--quiet", "-q", is_flag=True, help="No progress on stderr.")
@setting_options
def advise(
    scenario: str | None,
    vllm: str | None,
    vllm_log: str | None,
    good: str | None,
    levers: str | None,
    prices: str | None,
    seeds: int,
    most_runs: int | None,
    workers: int | None,
    as_json: bool,
    quiet: bool,
    assignments: tuple[str, ...],
    **flags: Any,
) -> int:
    """The cheapest changes of settings with which NAME, the scenario in FILE or a server of vLLM keeps --slo.

    \b
    kvlab advise preemption-lab --slo "gap_max<=150ms, preemptions_per_1000<=10"
    kvlab advise vllm-v1 --slo "ttft_p95<=2s, itl_p99<=200ms" --max-num-seqs 512
    kvlab advise --vllm "vllm serve Qwen/Qwen2.5-7B-Instruct" --gpu L40S-48GB --trace day.csv --slo "ttft_p95<=2s"

    Here --slo limits figures of the whole run: a latency with _p50, _p95, _p99, _max or _mean, or any metric.
    Single settings first, then two together where that is cheaper. Prices are points: a flag is cheap, memory costs
    money, FP8 risks quality, turning users away is dearest. Exit status 1 if nothing helps.
    """
    from kvlab.advice.advise import MOST_RUNS, find_fixes
    from kvlab.advice.answer import NOTHING
    from kvlab.advice.goals import parse_goals
    from kvlab.sweeps.workers import local

    if not 1 <= seeds <= MAX_SEEDS:
        raise ConfigError("seeds", seeds, f"must be from 1 to {MAX_SEEDS}")
    if most_runs is not None and most_runs < 0:
        raise ConfigError("most_runs", most_runs, "must be at least 0")
    goals = parse_goals(take_slo(flags, good))
    base, _ = chosen(scenario, vllm, vllm_log, flags, assignments)
    table = _prices(prices, levers, base)
    first = base.traffic.seed
    with local(workers) as run, RunCount(run, quiet=quiet) as counted:
        advice = find_fixes(
            base,
            goals,
            seeds=range(first, first + seeds),
            executor=counted,
            prices=table,
            most_runs=MOST_RUNS if most_runs is None else most_runs,
        )
    if as_json:
        click.echo(json.dumps(advice.to_dict(), indent=2, ensure_ascii=False))
    else:
        click.echo(_page(advice, stdout_terminal()), nl=False)
    return 1 if advice.verdict == NOTHING else 0


def _prices(file: str | None, levers: str | None, scenario: Scenario) -> dict[str, Price]:
    """The table; of the levers only those that were asked for."""
    from kvlab.price_file import for_levers, read_prices
    from kvlab.prices import PRICES

    table = dict(PRICES) if file is None else read_prices(file)
    return table if levers is None else for_levers(table, levers.split(","), scenario)


def _page(advice: Any, terminal: Terminal) -> str:
    lines = [terminal.style(advice.scenario.name, "bold"), ""]
    lines += textwrap.wrap(_headline(advice), terminal.width)
    for number, fix in enumerate(advice.fixes, 1):
        lines += ["", *_fix(number, fix, terminal, with_figures=number <= _SHOWN)]
    if advice.nearest is not None:
        lines += ["", "Nearest to it:", *_fix(0, advice.nearest, terminal, with_figures=True)]
    if advice.crossover is not None and advice.preempts:
        lines += ["", *textwrap.wrap(f"Swap or recompute: {advice.crossover.text}", terminal.width)]
    lines += ["", *textwrap.wrap(_small_print(advice), terminal.width)]
    origin = step_time_line(advice.scenario)
    lines += [] if origin is None else textwrap.wrap(origin, terminal.width, break_on_hyphens=False)
    return terminal.render(lines)


def _headline(advice: Any) -> str:
    from kvlab.advice.advise import FULL

    wanted = "; ".join(goal.text for goal in advice.goals)
    usage = METRICS["peak_kv_usage_ratio"].format(advice.peak_kv_usage)
    if not advice.kv_is_bottleneck:
        memory = f"The KV cache is not the bottleneck: {usage} at most, nothing is preempted."
    elif advice.peak_kv_usage >= FULL:
        memory = f"The KV cache is full at times ({usage})."
    else:
        memory = f"Requests wait for room in the KV cache, of which {usage} is taken at most: the rest is kept free."
    found = {
        "holds": "holds already.",
        "fix": f"{len(advice.fixes)} of the changes that were tried will do, the cheapest first.",
        "nothing": "can't be had by any setting or pair of settings that was tried.",
    }[advice.verdict]
    away = f"{advice.turned_away:,} requests are turned away and in no figure; rejected<=0 limits them."
    return " ".join([f"{wanted}: {found}", memory, *([away] if advice.turned_away else [])])


def _fix(number: int, fix: Any, terminal: Terminal, *, with_figures: bool) -> list[str]:
    points = "1 point" if fix.price == 1 else f"{fix.price} points"
    now = ", ".join(SETTINGS[name].show(value) for name, value in fix.before)
    head = f"{f'{number}. ' if number else ''}{fix.text} (now {now})"
    lines = [f"{terminal.style(head, 'bold')}   {points}"]
    lines += textwrap.wrap(" ".join(fix.reasons), terminal.width, initial_indent="   ", subsequent_indent="   ")
    if fix.flags:
        lines.append(f"   vllm serve: {fix.flags}")
    if with_figures:
        lines += [f"   {line}" for line in columns([_figures(effect) for effect in fix.effects], "<><>>")]
    elif fix.side_effects:
        worse = ", ".join(METRICS[effect.metric].label for effect in fix.side_effects)
        lines += textwrap.wrap(f"Worse: {worse}", terminal.width, initial_indent="   ", subsequent_indent="   ")
    return lines


def _figures(effect: Any) -> list[str]:
    metric = METRICS[effect.metric]
    before, after, low, high = (
        metric.format(value) for value in (effect.before, effect.after, effect.low, effect.high)
    )
    interval = "" if low == high else f"{low} to {high}"
    return [metric.label, before, "->", after, f"{interval}{'  worse' if effect.is_worse else ''}"]


def _small_print(advice: Any) -> str:
    seeds = "one seed" if len(advice.seeds) == 1 else f"{len(advice.seeds)} seeds"
    text = f"{advice.runs:,} run{'' if advice.runs == 1 else 's'}, "
    text += f"every fix with {seeds}" if advice.fixes else f"with {seeds}"
    text += "; each change on the same requests." if advice.runs > 1 else "."
    if advice.complete:
        return text
    other = "a cheaper one" if advice.fixes else "one that works"
    return f"{text} The search for combinations stopped at its limit, which --most-runs raises: there may be {other}."

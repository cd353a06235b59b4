"""`kvlab plan`: the largest rate, the most users or the least memory within a service level."""

from __future__ import annotations

import json
import textwrap
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import click

from kvlab.cli.options import ScenarioCommand, scenario_from, setting_options, take_slo
from kvlab.cli.terminal import Terminal, columns, stdout_terminal
from kvlab.errors import ConfigError
from kvlab.metrics import METRICS
from kvlab.units import parse_decimal

if TYPE_CHECKING:
    from kvlab.advice.plan import Plan

MAX_SEEDS: Final = 100


@click.command(cls=ScenarioCommand)
@click.argument("scenario", metavar="NAME|FILE")
@click.option("--largest", metavar="FIELD", help="The setting whose largest value is wanted: request_rate by default.")
@click.option("--least", metavar="FIELD", help="The setting whose least value is wanted, such as kv_memory_bytes.")
@click.option("--step", metavar="VALUE", help="The answer is a multiple of it.")
@click.option("--profile", metavar="RATES", help="Rates over a day, 2,1,5,9: how many servers each needs.")
@click.option("--seeds", metavar="N", type=int, default=5, help="Seeds, each with a limit of its own (default 5).")
@click.option("--workers", metavar="N", type=int, help="Processes; by default one per processor.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@setting_options
def plan(
    scenario: str,
    largest: str | None,
    least: str | None,
    step: str | None,
    profile: str | None,
    seeds: int,
    workers: int | None,
    as_json: bool,
    assignments: tuple[str, ...],
    **flags: Any,
) -> int:
    """How far NAME or the scenario in FILE can go within the limits of --slo.

    \b
    kvlab plan vllm-v1 --slo "ttft_p95<=2s, itl_p99<=200ms"
    kvlab plan preemption-lab --largest max_concurrency --arrivals closed-loop --max-concurrency 32 --slo "e2e_p95<=30s"
    kvlab plan block-table-lab --least kv_memory_bytes --slo "ttft_p95<=2s"
    kvlab plan vllm-v1 --slo "ttft_p95<=2s" --profile 2,1,1,4,9,12,10,6

    Here --slo limits figures of the whole run: a latency with _p50, _p95, _p99, _max or _mean, or any metric. The
    answer holds with every seed; the interval says how far the seeds differ. Exit status 1 if no value holds.
    """
    from kvlab.advice.goals import parse_goals
    from kvlab.advice.plan import find_limit
    from kvlab.sweeps.workers import local

    if not 1 <= seeds <= MAX_SEEDS:
        raise ConfigError("seeds", seeds, f"must be from 1 to {MAX_SEEDS}")
    if largest is not None and least is not None:
        raise ConfigError("least", least, "give either --largest or --least")
    slo = take_slo(flags)
    field = (least or largest or "request_rate").replace("-", "_")
    rates = [] if profile is None else [parse_decimal(part, "profile") for part in profile.split(",")]
    if any(rate < 0 for rate in rates):
        raise ConfigError("profile", profile, "rates can't be negative")
    if rates and field != "request_rate":
        raise ConfigError("profile", profile, "needs the largest request_rate")
    base = scenario_from(scenario, flags, assignments)
    first = base.traffic.seed
    with local(workers) as run:
        found = find_limit(
            base,
            field,
            parse_goals(slo),
            largest=least is None,
            seeds=range(first, first + seeds),
            step=step,
            executor=run,
        )
    if as_json:
        click.echo(json.dumps(found.to_dict() | _servers(found, rates), indent=2, ensure_ascii=False))
    else:
        click.echo(_page(found, rates, stdout_terminal()), nl=False)
    return 1 if found.answer is None else 0


def _servers(found: Plan, rates: list[Decimal]) -> dict[str, Any]:
    from kvlab.advice.plan import replicas_for

    if not rates or not isinstance(found.answer, Decimal):
        return {}
    return {"profile": [float(rate) for rate in rates], "servers": replicas_for(rates, found.answer)}


def _page(found: Plan, rates: list[Decimal], terminal: Terminal) -> str:
    from kvlab.setting_table import SETTINGS
    from kvlab.settings import RATE

    setting = SETTINGS[found.field]
    unit = setting.unit or (setting.kind.unit if setting.kind is RATE else "")
    wanted = "; ".join(goal.text for goal in found.goals)
    low, high = found.interval
    if found.answer is None:
        text = f"{wanted}: no {found.field} that was tried holds with every seed."
    else:
        kind = "at most" if found.largest else "at least"
        text = f"{wanted}: {kind} {found.field} {setting.show(found.answer)} {unit}".rstrip()
        spread = f"between {setting.show(low)} and {setting.show(high)}" if low != high else f"at {setting.show(low)}"
        text += f". The limits of {len(found.limits)} seeds lie {spread}, in steps of {setting.show(found.step)}."
    lines = [terminal.style(found.scenario.name, "bold"), "", *textwrap.wrap(text, terminal.width), ""]
    names = list(found.probes[0].metrics) if found.probes else []
    rows = [[found.field, "seeds", *(METRICS[name].label for name in names)]]
    for probe in found.probes:
        kept = f"{probe.seeds_kept} of {probe.seeds_tried}"
        figures = (METRICS[name].format(probe.metrics[name]) for name in names)
        rows.append([setting.show(probe.value), kept, *figures])
    lines += columns(rows, ">" * len(rows[0]))
    servers = _servers(found, rates).get("servers")
    if servers:
        shown = ", ".join(f"{rate}: {count}" for rate, count in zip(rates, servers, strict=True))
        lines += ["", *textwrap.wrap(f"Servers for each rate: {shown}.", terminal.width)]
    lines += ["", f"{found.runs:,} runs."]
    return terminal.render(lines)

"""`kvlab plan`: the largest rate, the most users, the least memory or the smallest GPU within a service level."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import click

from kvlab.cli.options import ScenarioCommand, good_option, setting_options, take_slo
from kvlab.cli.progress import RunCount
from kvlab.cli.terminal import stdout_terminal
from kvlab.cli.vllm import chosen, origin_lines, vllm_options
from kvlab.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvlab.advice.daily import Daily, Stretch
    from kvlab.advice.goals import Goal
    from kvlab.advice.gpus import GpuPlan
    from kvlab.advice.plan import Plan
    from kvlab.scenarios import Scenario
    from kvlab.sweeps.workers import Executor

MAX_SEEDS: Final = 100
_RATE: Final = "request_rate"


@click.command(cls=ScenarioCommand)
@click.argument("scenario", metavar="[NAME|FILE]", required=False)
@vllm_options
@click.option("--largest", metavar="FIELD", help="The setting whose largest value is wanted; by default the load.")
@click.option("--least", metavar="FIELD", help="The setting whose least value is wanted, such as kv_memory_bytes.")
@click.option("--step", metavar="VALUE", help="The answer is a multiple of it, or the value that is set.")
@good_option
@click.option("--smallest-gpu", is_flag=True, help="The smallest GPU, and the fewest, for the rate that is set.")
@click.option("--gpus", metavar="NAMES", help="Only these, with --smallest-gpu: A100-80GB,H100-80GB,L40S.")
@click.option(
    "--profile", metavar="RATES|FILE", help="Rates over a day, 2,1,5,9 or a CSV file time,rate: servers, GPUs."
)
@click.option("--headroom", metavar="RATIO", help="With --profile: raise every rate by that, such as 20%.")
@click.option("--seeds", metavar="N", type=int, default=5, help="Seeds, each with a limit of its own (default 5).")
@click.option("--workers", metavar="N", type=int, help="Processes; by default one per processor.")
@click.option("--plot", metavar="FILE", help="Draw the knee: .png, .svg or .html. Tries every seed around it.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.option("--quiet", "-q", is_flag=True, help="No progress on stderr.")
@setting_options
def plan(
    scenario: str | None,
    vllm: str | None,
    vllm_log: str | None,
    largest: str | None,
    least: str | None,
    step: str | None,
    good: str | None,
    smallest_gpu: bool,
    gpus: str | None,
    profile: str | None,
    headroom: str | None,
    seeds: int,
    workers: int | None,
    plot: str | None,
    as_json: bool,
    quiet: bool,
    assignments: tuple[str, ...],
    **flags: Any,
) -> int:
    """How far NAME, the scenario in FILE or a server of vLLM can go within the limits of --slo.

    \b
    kvlab plan vllm-v1 --slo "ttft_p95<=2s, itl_p99<=200ms" --plot knee.png
    kvlab plan vllm-v1 --slo "good_ratio>=95%" --good "ttft<=2s, tpot<=60ms"
    kvlab plan preemption-lab --arrivals closed-loop --max-concurrency 32 --slo "e2e_p95<=30s"
    kvlab plan block-table-lab --least kv_memory_bytes --slo "ttft_p95<=2s"
    kvlab plan vllm-v1 --smallest-gpu --gpus A100-80GB,L40S,H100 --slo "ttft_p95<=2s" --request-rate 12
    kvlab plan vllm-v1 --slo "ttft_p95<=2s" --profile 2,1,1,4,9,12,10,6 --headroom 20%

    Here --slo limits figures of the whole run: a latency with _p50, _p95, _p99, _max or _mean, or any metric. The
    answer holds with every seed; the interval says how far the seeds differ. Exit status 1 if nothing holds.
    """
    from kvlab.advice.goals import parse_goals
    from kvlab.advice.pictures import check_path
    from kvlab.advice.plan import default_field, find_limit
    from kvlab.cli.plan_page import gpu_page, plan_page
    from kvlab.sweeps.workers import local
    from kvlab.timing import step_time_notes

    if not 1 <= seeds <= MAX_SEEDS:
        raise ConfigError("seeds", seeds, f"must be from 1 to {MAX_SEEDS}")
    if plot is not None:
        check_path(plot)
    _check_together(smallest_gpu, gpus, largest=largest, least=least, step=step, profile=profile, plot=plot)
    goals = parse_goals(take_slo(flags, good))
    base, origins = chosen(scenario, vllm, vllm_log, flags, assignments)
    field = (least or largest or default_field(base)).replace("-", "_")
    day = _day(profile, headroom, field, least)
    terminal = stdout_terminal()
    tried = range(base.traffic.seed, base.traffic.seed + seeds)
    with local(workers) as run, RunCount(run, quiet=quiet) as counted:
        if smallest_gpu:
            sizes = () if flags["tensor_parallel_size"] is None else (int(flags["tensor_parallel_size"]),)
            choice = _smallest(base, goals, gpus, sizes, tried, counted)
            document, page, holds = choice.to_dict(), gpu_page(choice, terminal), choice.answer is not None
        else:
            found = find_limit(
                base,
                field,
                goals,
                largest=least is None,
                seeds=tried,
                step=step,
                executor=counted,
                every_seed=plot is not None,
            )
            needed = _needed(found, day)
            document = found.to_dict() | {"step_times": step_time_notes(base)}
            document |= {} if needed is None else {"day": needed.to_dict()}
            page, holds = plan_page(found, needed, terminal), found.answer is not None
            if plot is not None:
                click.echo(f"wrote {found.plot(plot)}", err=True)
    if as_json:
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        read = [] if origins is None else ["", *origin_lines(origins, terminal)]
        click.echo(page + terminal.render(read), nl=False)
    return 0 if holds else 1


def _check_together(smallest_gpu: bool, gpus: str | None, **others: str | None) -> None:
    """Options that contradict each other."""
    if others["largest"] is not None and others["least"] is not None:
        raise ConfigError("least", others["least"], "give either --largest or --least")
    if gpus is not None and not smallest_gpu:
        raise ConfigError("gpus", gpus, "goes with --smallest-gpu")
    for name, value in others.items():
        if smallest_gpu and value is not None:
            raise ConfigError(name, value, "has no meaning beside --smallest-gpu, which asks for the rate that is set")


def _day(
    profile: str | None, headroom: str | None, field: str, least: str | None
) -> tuple[tuple[Stretch, ...], Decimal] | None:
    """The rates of the day and the headroom; None where nobody asks for them."""
    from kvlab.advice.daily import parse_headroom, parse_profile

    if profile is None:
        if headroom is not None:
            raise ConfigError("headroom", headroom, "goes with --profile")
        return None
    if field != _RATE or least is not None:
        raise ConfigError("profile", profile, "needs the largest request_rate of one server")
    return parse_profile(profile), Decimal(0) if headroom is None else parse_headroom(headroom)


def _needed(found: Plan, day: tuple[tuple[Stretch, ...], Decimal] | None) -> Daily | None:
    from kvlab.advice.daily import daily, gpus_of

    if day is None or not isinstance(found.answer, Decimal):
        return None
    profile, headroom = day
    return daily(profile, found.answer, gpus_per_server=gpus_of(found.scenario), headroom=headroom)


def _smallest(
    base: Scenario,
    goals: Sequence[Goal],
    gpus: str | None,
    sizes: Sequence[int],
    seeds: Sequence[int],
    executor: Executor,
) -> GpuPlan:
    from kvlab.advice.gpus import SIZES, smallest_gpu

    names = [] if gpus is None else [name.strip() for name in gpus.split(",")]
    return smallest_gpu(base, goals, gpus=names, sizes=sizes or SIZES, seeds=seeds, executor=executor)

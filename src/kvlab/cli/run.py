"""`kvlab run`: simulate one scenario and show what happened."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kvlab.cli.options import ScenarioCommand, setting_options
from kvlab.cli.vllm import chosen, vllm_options
from kvlab.core.config import Recording
from kvlab.errors import ConfigError, UnknownNameError
from kvlab.results import Run
from kvlab.scenarios import Scenario
from kvlab.servers import VllmServer
from kvlab.setting_table import BLOCK_TABLE_LAB, PREEMPTION_LAB
from kvlab.units import format_duration

if TYPE_CHECKING:
    from kvlab.vllm_setup import Origins

INTERRUPTED: Final = 130
_TABLE_FORMAT: Final = "parquet"
_CHART_REQUESTS: Final = 100_000
"""Traffic that is expected to bring more is simulated without keeping its steps, unless a file needs them."""

_LEVERS: Final = {PREEMPTION_LAB: "max_num_seqs=48", BLOCK_TABLE_LAB: "kv_memory_bytes=5GiB"}


@click.command(cls=ScenarioCommand)
@click.argument("scenario", metavar="[NAME|FILE]", required=False)
@vllm_options
@click.option("--json", "as_json", is_flag=True, help="Print scenario and metrics as JSON.")
@click.option("--out", metavar="DIR", help="Write result.json, requests, timeline and preemptions there.")
@click.option("--format", "table_format", metavar="parquet|csv", help="Of the tables in --out; parquet by default.")
@click.option(
    "--plot",
    "plots",
    metavar="FILE",
    multiple=True,
    help="Draw the run: .html (interactive), .png or .svg; may be given again.",
)
@click.option("--save-scenario", metavar="FILE", help="Write the scenario as JSON, to be run again.")
@click.option("--no-chart", is_flag=True, help="Leave the chart out; keeps no steps, so memory stays small.")
@click.option("--quiet", "-q", is_flag=True, help="No progress and no timing on stderr.")
@setting_options
def run(
    scenario: str | None,
    vllm: str | None,
    vllm_log: str | None,
    as_json: bool,
    out: str | None,
    table_format: str | None,
    plots: tuple[str, ...],
    save_scenario: str | None,
    no_chart: bool,
    quiet: bool,
    assignments: tuple[str, ...],
    **flags: Any,
) -> int:
    """Simulate NAME (preemption-lab, block-table-lab or vllm-v1), the scenario in FILE, or a server of vLLM.

    \b
    kvlab run preemption-lab --max-num-seqs 48
    kvlab run --vllm "vllm serve Qwen/Qwen2.5-7B-Instruct --max-num-seqs 128" --gpu A100-80GB
    kvlab run block-table-lab --set allocator=contiguous --burst
    kvlab run preemption-lab --trace azure.csv --from 10min --until 20min
    """
    simulated, origins = chosen(scenario, vllm, vllm_log, flags, assignments)
    _check_files(out, table_format, plots)
    if save_scenario is not None:
        _save(simulated, Path(save_scenario))
    with_chart = not (as_json or no_chart) and _expected_requests(simulated) <= _CHART_REQUESTS
    tables = out is not None
    recording = Recording(requests=tables, steps=tables or with_chart or bool(plots))
    result, timing = simulate(simulated, recording, quiet=quiet)
    _write_files(result, out, table_format or _TABLE_FORMAT, plots)
    click.echo(
        _as_json(result, simulated, origins) if as_json else _as_text(result, simulated, origins, with_chart), nl=False
    )
    if not quiet:
        say_timing(result, timing)
    if not result.record.totals.finished and result.record.totals.rejected and not result.interrupted:
        raise _nothing_fits(result, simulated)
    if not quiet:
        _say_next(simulated)
    if result.interrupted:
        click.echo("kvlab: interrupted: these are partial results", err=True)
        return INTERRUPTED
    return 0


def simulate(scenario: Scenario, recording: Recording, *, quiet: bool) -> tuple[Run, int]:
    """The run and the ns it took. A progress bar on stderr; Ctrl-C ends it early, with the results so far."""
    from kvlab import api
    from kvlab.cli.progress import watched

    begun_ns = time.perf_counter_ns()
    with watched(scenario, quiet=quiet) as progress:
        result = api.simulate(scenario, record=recording, monitor=progress.monitor)
    return result, time.perf_counter_ns() - begun_ns


def say_timing(result: Run, took_ns: int) -> None:
    """How long the run took, on stderr, because it is not the same twice."""
    totals = result.record.totals
    work = f"{totals.arrived:,} requests, {totals.steps:,} steps, {format_duration(totals.end_ns)}"
    click.echo(f"simulated {work} in {format_duration(took_ns)}", err=True)


def _say_next(scenario: Scenario) -> None:
    """To somebody who looks at a preset for the first time: the lever that mends it."""
    lever = _LEVERS.get(scenario.rules)
    if lever is not None and not scenario.changes() and sys.stderr is not None and sys.stderr.isatty():
        click.echo(f"next: kvlab compare {scenario.rules} {scenario.rules}:{lever}", err=True)


def _as_json(result: Run, scenario: Scenario, origins: Origins | None) -> str:
    document = result.to_dict()
    if isinstance(scenario.server, VllmServer):
        from kvlab.timing import timing_notes
        from kvlab.vllm_print import vllm_flags

        document["step_times"] = timing_notes(result, scenario)
        document["vllm"] = {"command": vllm_flags(scenario), **({} if origins is None else origins.to_dict())}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _as_text(result: Run, scenario: Scenario, origins: Origins | None, with_chart: bool) -> str:
    from kvlab.cli.report import report
    from kvlab.cli.terminal import stdout_terminal
    from kvlab.cli.vllm import command_lines, origin_lines

    terminal = stdout_terminal()
    text = report(result, scenario, terminal, with_chart=with_chart)
    for lines in ([] if origins is None else origin_lines(origins, terminal), command_lines(scenario, terminal)):
        text += terminal.render(["", *lines]) if lines else ""
    return text


def _write_files(result: Run, out: str | None, table_format: str, plots: tuple[str, ...]) -> None:
    written = [] if out is None else list(result.write(out, table_format))
    for plot in plots:
        result.plot(plot)
        written.append(Path(plot))
    for path in written:
        click.echo(f"wrote {path}", err=True)


def _check_files(out: str | None, table_format: str | None, plots: tuple[str, ...]) -> None:
    """What can be known to fail before a long run."""
    from kvlab.export import TABLE_FORMATS
    from kvlab.plots import FILE_TYPES

    if table_format is not None and table_format not in TABLE_FORMATS:
        raise UnknownNameError("table format", table_format, TABLE_FORMATS)
    if table_format is not None and out is None:
        raise ConfigError("--format", table_format, "there are no tables without --out DIR")
    for plot in plots:
        if Path(plot).suffix.lower() not in FILE_TYPES:
            raise ConfigError("plot", plot, f"expected a file name that ends in {', '.join(FILE_TYPES)}")


def _save(scenario: Scenario, path: Path) -> None:
    from kvlab.files import write_file

    write_file(path, lambda stream: stream.write(scenario.to_json().encode()))
    click.echo(f"wrote {path}", err=True)


def _expected_requests(scenario: Scenario) -> int:
    traffic = scenario.traffic
    if traffic.trace is not None:
        return 0  # nobody knows before it is read
    if traffic.num_requests is not None:
        return traffic.num_requests
    return round(traffic.rate_curve().expected(traffic.duration_ns))


def _nothing_fits(result: Run, scenario: Scenario) -> ConfigError:
    from kvlab.cli.report import capacity

    rejected = result.record.totals.rejected
    remedy = (
        f"every request is rejected ({rejected:,} of {rejected:,}): none can ever fit. "
        "Raise the KV memory, or shorten prompts and answers"
    )
    return ConfigError(f"{scenario.rules} with a KV cache", capacity(result), remedy)

"""`kvlab sweep`: many scenarios along axes, resumable, as one table."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kvlab.cli.options import ScenarioCommand, given_settings, setting_options
from kvlab.cli.vllm import chosen, vllm_options
from kvlab.errors import ConfigError
from kvlab.units import counted, format_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kvlab.scenarios import Scenario
    from kvlab.settings import Value
    from kvlab.sweeps.sweep import Sweep
    from kvlab.sweeps.workers import Crew

INTERRUPTED: Final = 130
EXECUTORS: Final = ("local", "ray")
_EVERY_S: Final = 0.1
_BAR: Final = 24


@click.command(cls=ScenarioCommand)
@click.argument("scenario", metavar="NAME|FILE", required=False)
@vllm_options
@click.option(
    "--axis",
    "axes",
    metavar="AXIS",
    multiple=True,
    help="A setting that varies: max_num_seqs=16,32,64, request_rate=2:8:0.5 or max_num_seqs=log(8, 256, 6); "
    "a+b=1+2,3+4 moves two together. May be given again.",
)
@click.option("--list", "listed", metavar="FILE", help="Points in place of axes: CSV with a header, or JSON objects.")
@click.option("--seeds", metavar="N", type=int, default=1, help="Runs of every point, with seeds from --seed on.")
@click.option("--sample", metavar="N", type=int, help="A Latin hypercube of so many points in place of the whole grid.")
@click.option("--workers", metavar="N", type=int, help="Processes; by default one per processor.")
@click.option("--executor", type=click.Choice(EXECUTORS), default="local", help="local: processes here; or Ray.")
@click.option("--address", metavar="HOST:PORT", help="Of a Ray cluster, or ray://HOST:PORT; by default one of its own.")
@click.option("--out", metavar="DIR", required=True, help="Results; an interrupted sweep goes on from there.")
@click.option("--overwrite", is_flag=True, help="Replace another sweep in DIR.")
@click.option("--quiet", "-q", is_flag=True, help="No progress on stderr.")
@setting_options
def sweep(
    scenario: str | None,
    vllm: str | None,
    vllm_log: str | None,
    axes: tuple[str, ...],
    listed: str | None,
    seeds: int,
    sample: int | None,
    workers: int | None,
    executor: str,
    address: str | None,
    out: str,
    overwrite: bool,
    quiet: bool,
    assignments: tuple[str, ...],
    **flags: Any,
) -> int:
    """Simulate NAME, the scenario in FILE or a server of vLLM along axes: every combination, with every seed.

    \b
    kvlab sweep preemption-lab --axis max_num_seqs=16,32,48,64 --axis request_rate=2:5:0.5 --seeds 3 --out sweep
    kvlab sweep vllm-v1 --axis watermark=0,0.02,0.05,0.1 --out watermark
    kvlab sweep --vllm "vllm serve Qwen/Qwen2.5-7B-Instruct" --gpu L40S-48GB --axis max_num_seqs=64,128 --out qwen

    DIR gets sweep.parquet and sweep.csv, one row per run: settings, seed, every metric. What was finished is
    kept in DIR/results.jsonl: the same command again goes on where it was interrupted.
    """
    from kvlab.sweeps.seeds import seeds_of
    from kvlab.sweeps.sweep import run_sweep
    from kvlab.sweeps.table import written

    if not out.strip():
        raise ConfigError("out", out, "name a folder, such as --out sweep; the current one is --out .")
    base, _ = chosen(scenario, vllm, vllm_log, flags, assignments)
    tried = seeds_of(seeds, base.traffic.seed)
    points = _points(base, axes, listed, sample)
    _check_flags(points[0], given_settings(flags, assignments))
    folder = Path(out)
    bar = _Bar(visible=not quiet and sys.stderr is not None and sys.stderr.isatty())
    try:
        with _crew(executor, address, workers) as run:
            done = run_sweep(
                base,
                points,
                seeds=tried,
                executor=run,
                folder=folder,
                overwrite=overwrite,
                progress=bar.show,
            )
    except KeyboardInterrupt:
        bar.close()
        click.echo(
            f"kvlab: interrupted after {bar.done:,} of {counted(bar.total, 'run')}; the same command goes on", err=True
        )
        return INTERRUPTED
    bar.close()
    click.echo(_summary(done, len(points), len(tried)))
    for path in written(folder):
        click.echo(f"wrote {path}")
    if done.num_failed:
        first = next(row for row in done.rows if row.outcome.error is not None)
        where = ", ".join(f"{name}={value}" for name, value in first.settings.items())
        click.echo(f"the first that failed: {where}: {first.outcome.error}", err=True)
    return 1 if done.num_failed == len(done.rows) else 0


def _summary(done: Sweep, asked: int, seeds: int) -> str:
    text = f"{counted(len(done.rows), 'run')} of {counted(done.num_points, 'point')}"
    if asked > done.num_points:
        text += f" ({asked:,} with repeats, which are run once)"
    if done.reused:
        text += f", {done.reused:,} of them already there"
    if len(done.rows) < done.num_points * seeds:
        text += "; a trace is run once: it draws nothing, whatever the seed"
    return f"{text}; {done.num_failed:,} failed" if done.num_failed else text


def _points(base: Scenario, axes: Sequence[str], listed: str | None, sample: int | None) -> list[dict[str, Value]]:
    from kvlab.sweeps.axes import grid, hypercube, parse_axis
    from kvlab.sweeps.points import read_points

    if listed is not None:
        for name, given in (("axis", axes), ("sample", sample)):
            if given:
                raise ConfigError("list", listed, f"is in place of axes: leave out --{name}")
        return read_points(Path(listed), base.rules)
    if not axes:
        raise ConfigError("axis", "none", "give at least one, such as --axis max_num_seqs=16,32,64, or --list FILE")
    parsed = [parse_axis(axis, base.rules) for axis in axes]
    return list(grid(parsed) if sample is None else hypercube(parsed, sample, base.traffic.seed))


def _crew(executor: str, address: str | None, workers: int | None) -> Crew:
    if executor == "ray":
        from kvlab.sweeps.ray import ray_executor

        return ray_executor(address, workers)
    from kvlab.sweeps.workers import local

    if address is not None:
        raise ConfigError("address", address, "is of a Ray cluster: give --executor ray, too")
    return local(workers)


def _check_flags(varied: Iterable[str], given: Mapping[str, object]) -> None:
    for name in varied:
        if name in given:
            raise ConfigError(name, given[name], "varies in the sweep, too: give it once")


class _Bar:
    """Progress on a terminal, with throughput and time left."""

    def __init__(self, *, visible: bool) -> None:
        self.done = self.total = 0
        self._visible = visible
        self._begun_s = time.monotonic()
        self._next_s = 0.0

    def show(self, done: int, total: int, free: int) -> None:
        """See `kvlab.sweeps.sweep.Progress`."""
        self.done, self.total = done, total
        now_s = time.monotonic()
        if not self._visible or (now_s < self._next_s and done < total):
            return
        self._next_s = now_s + _EVERY_S
        filled = done * _BAR // max(1, total)
        text = f"[{'#' * filled}{'.' * (_BAR - filled)}] {done:,} of {total:,} runs"
        new, took_s = done - free, now_s - self._begun_s
        if new and took_s > 0:
            left_ns = int((total - done) * took_s / new * 1e9)
            text += f", {new / took_s:.1f}/s, {format_duration(left_ns)} left"
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()

    def close(self) -> None:
        """Takes the bar away."""
        if self._visible:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

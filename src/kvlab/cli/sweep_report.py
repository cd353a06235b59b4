"""`kvlab report`: a sweep as pictures."""

from __future__ import annotations

from pathlib import Path

import click

from kvlab.cli.options import OnceCommand
from kvlab.errors import ConfigError


@click.command(cls=OnceCommand)
@click.argument("folder", metavar="DIR")
@click.option("--metric", "metrics", metavar="NAME", multiple=True, help="What to draw; may be given again.")
@click.option("--at", metavar="SETTING=VALUE", multiple=True, help="Only points with it; may be given again.")
@click.option("--out", metavar="FILE", help="report.html in DIR by default; .png and .svg are for papers.")
def report(folder: str, metrics: tuple[str, ...], at: tuple[str, ...], out: str | None) -> None:
    """Draw the sweep in DIR: heatmaps or curves with the spread of the seeds, and the Pareto front.

    \b
    kvlab report sweep
    kvlab report sweep --metric gap_p99 --at max_num_seqs=64 --out gaps.svg

    The two longest axes make a heatmap, with one for each value of the others. Names of metrics are those of
    `kvlab explain`, or short: ttft_p95, itl_p99, throughput.
    """
    from kvlab.sweeps.report import write_report

    if not folder.strip():
        raise ConfigError("DIR", folder, "name the folder that kvlab sweep wrote, its --out")
    path = Path(folder) / "report.html" if out is None else Path(out)
    click.echo(f"wrote {write_report(Path(folder), path, metrics, at)}")

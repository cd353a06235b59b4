"""`kvlab report`: a sweep as pictures."""

from __future__ import annotations

from pathlib import Path

import click

from kvlab.cli.options import OnceCommand


@click.command(cls=OnceCommand)
@click.argument("folder", metavar="DIR")
@click.option("--metric", "metrics", metavar="NAME", multiple=True, help="What to draw; may be given again.")
@click.option("--out", metavar="FILE", help="report.html in DIR by default; .png and .svg are for papers.")
def report(folder: str, metrics: tuple[str, ...], out: str | None) -> None:
    """Draw the sweep in DIR: heatmaps or curves with the spread of the seeds, and the Pareto front.

    \b
    kvlab report sweep
    kvlab report sweep --metric p99_gap_ns --out gaps.svg
    """
    from kvlab.sweeps.report import write_report

    path = Path(folder) / "report.html" if out is None else Path(out)
    click.echo(f"wrote {write_report(Path(folder), path, metrics)}")

"""A sweep as pictures: curves with the spread of the seeds, heatmaps, the Pareto front. HTML, PNG or SVG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kvlab.advice.goals import metric_named
from kvlab.errors import ConfigError
from kvlab.files import write_file
from kvlab.sweeps.report_data import Points, read_points
from kvlab.sweeps.report_layout import Layout, chosen, layout
from kvlab.units import counted

USUAL: Final = ("p95_ttft_ns", "p99_gap_ns", "throughput_tokens_per_s", "preemptions_per_1000")
"""Metrics that are drawn unless others are asked for."""
FILE_TYPES: Final = (".html", ".png", ".svg")
_REASONS: Final = 5
"""Of impossible runs, where there is nothing else to show."""


def summary(points: Points, plan: Layout) -> list[str]:
    """What is drawn, in sentences."""
    sentences = [f"{counted(len(points.points), 'point')} along {', '.join(points.names)}, {_over_seeds(points)}."]
    if plan.note:
        sentences.append(plan.note)
    if points.is_empty:
        sentences.append(f"{_all(points.num_failed)} impossible, so that there is nothing to draw:")
        reasons = dict.fromkeys(error for point in points.points for error in point.errors)
        sentences += [f"{reason}." for reason in list(reasons)[:_REASONS]]
        if len(reasons) > _REASONS:
            sentences.append(f"sweep.csv has {len(reasons) - _REASONS:,} more reasons.")
    elif points.num_failed:
        were = "was impossible and is" if points.num_failed == 1 else "were impossible and are"
        sentences.append(f"{counted(points.num_failed, 'run')} {were} in no picture; sweep.csv has the reasons.")
    return sentences


def _over_seeds(points: Points) -> str:
    return "one seed" if points.num_seeds == 1 else f"{points.num_seeds} seeds; lines and colours are medians over them"


def _all(count: int) -> str:
    return "The only run was" if count == 1 else f"All {count:,} runs were"


def checked(metrics: Sequence[str]) -> tuple[str, ...]:
    """The metrics to draw, by their own names or by those of goals: ttft_p95, gap_p99, throughput.

    Raises:
        UnknownNameError: no such metric; names the nearest.
    """
    return tuple(dict.fromkeys(metric_named(metric, "metric") for metric in metrics)) or USUAL


def write_report(folder: Path, path: Path, metrics: Sequence[str] = (), at: Sequence[str] = ()) -> Path:
    """Draws a sweep's table into a file.

    Args:
        at: of some settings only this value, as "max_num_seqs=8".
    Raises:
        InputError: the folder holds no sweep.
        ConfigError: a file type that isn't known, or a value that the sweep hasn't.
        UnknownNameError: no such metric, or a setting that doesn't vary.
        OutputError: the file can't be written.
    """
    kind = path.suffix.lower()
    if kind not in FILE_TYPES:
        raise ConfigError("out", str(path), f"expected a file name that ends in {', '.join(FILE_TYPES)}")
    drawn, points = checked(metrics), chosen(read_points(folder), at)
    plan = layout(points)
    if kind == ".html":
        from kvlab.sweeps import report_html

        page = report_html.page(points, plan, drawn, folder.name, summary(points, plan)).encode()
        return write_file(path, lambda stream: stream.write(page))
    from kvlab.sweeps import report_static

    figure = report_static.draw(points, plan, drawn, summary(points, plan))
    return write_file(path, lambda stream: report_static.write(figure, stream, kind[1:]))

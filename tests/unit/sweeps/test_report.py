"""Pictures of a sweep."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

import kvlab
from kvlab.errors import ConfigError, InputError, UnknownNameError
from kvlab.metrics import METRICS
from kvlab.sweeps.report import write_report
from kvlab.sweeps.report_data import FRONT, Point, Points, front, label, read_points
from kvlab.sweeps.report_layout import MOST_FACETS, chosen, heatmaps, layout


@pytest.fixture(scope="module")
def flat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("flat")
    kvlab.sweep("preemption-lab", seeds=2, workers=1, folder=folder, max_num_seqs=[2, 4], num_requests=[3, 5, 8])
    return folder


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("line")
    modes = ["swap", "recompute"]
    kvlab.sweep("preemption-lab", seeds=2, workers=1, folder=folder, preemption_mode=modes, num_requests=[5])
    return folder


def test_seeds_are_put_together(flat: Path) -> None:
    points = read_points(flat)
    assert points.names == ("max_num_seqs", "num_requests")
    assert points.axis("num_requests") == [3, 5, 8]
    assert points.num_seeds == 2
    assert len(points.points) == 6
    assert all(len(point.values["steps"]) == 2 for point in points.points)


def test_one_html_file_that_needs_no_network(flat: Path) -> None:
    path = write_report(flat, flat / "report.html")
    text = path.read_text()
    assert text.count("<h2>") == text.count("Plotly.newPlot(") == 5
    assert "6 points along max_num_seqs, num_requests, 2 seeds" in text
    assert 'src="http' not in text
    assert text == write_report(flat, flat / "again.html").read_text()


def test_pictures_for_papers(flat: Path, line: Path) -> None:
    first, second = (write_report(flat, flat / f"{name}.svg", ["ttft_p95"]) for name in "ab")
    assert first.read_bytes() == second.read_bytes()
    assert first.stat().st_size > 4_000
    assert write_report(line, line / "a.png", ["ttft_p95", "throughput"]).read_bytes().startswith(b"\x89PNG")


def cube(*sizes: int) -> Points:
    """Every combination of so many values of max_num_seqs, block_size and so on."""
    names = ("max_num_seqs", "block_size", "headroom_blocks", "swap_space_bytes")[: len(sizes)]
    points = (
        Point(settings=place, values={metric: [1.0] for metric in METRICS})
        for place in product(*(range(1, size + 1) for size in sizes))
    )
    return Points(names=names, points=tuple(points), num_seeds=1)


def test_settings_that_are_on_no_axis_have_heatmaps_of_their_own() -> None:
    plan = layout(cube(2, 5, 3))
    assert (plan.across, plan.up) == ("block_size", "headroom_blocks")
    assert [plan.title(facet) for facet in plan.facets] == ["max_num_seqs 1", "max_num_seqs 2"]
    (first, second) = heatmaps(cube(2, 5, 3), plan, "steps")
    assert first == second == [[1.0] * 5] * 3
    assert layout(cube(4)).up is None
    assert layout(cube(4, 1, 1)).facets == ({},)


def test_a_median_over_settings_is_told() -> None:
    plan = layout(cube(6, 6, 5, 2))
    assert len(plan.facets) == 1
    assert plan.note == (
        "Each cell of a heatmap is the median over 10 mixes of headroom_blocks, swap_space_bytes: "
        "--at headroom_blocks=VALUE picks one."
    )
    assert len(layout(cube(9, 9, MOST_FACETS)).facets) == MOST_FACETS
    one = chosen(cube(6, 6, 5, 2), ["headroom-blocks=3"])
    assert [plan.title(facet) for facet in layout(one).facets] == ["swap_space_bytes 1 B", "swap_space_bytes 2 B"]


def test_settings_that_move_together_are_one_axis() -> None:
    tied = Points(
        names=("max_num_seqs", "block_size"),
        points=tuple(Point(settings=place, values={}) for place in ((64, 8), (48, 16), (32, 32))),
        num_seeds=1,
    )
    assert layout(tied).up is None


@pytest.mark.parametrize(
    ("at", "problem"),
    [
        (["max_num_seqs"], "expected SETTING=VALUE"), (["max_num_seq=1"], 'did you mean "max_num_seqs"'),
        (["max_num_seqs=7"], "the sweep has 1, 2"), (["max_num_seqs=1", "max_num_seqs=2"], "twice"),
        (["max_num_seqs=many"], "expected a number"),
    ],
)  # fmt: skip
def test_what_the_sweep_has_not_can_not_be_chosen(at: list[str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        chosen(cube(2, 3), at)


def test_a_unit_is_told_once() -> None:
    assert label("p95_ttft_ns") == "TTFT p95 (s)"
    assert label("preemptions_per_1000") == "Preemptions per 1,000 requests"


def test_what_cannot_be_drawn_is_refused(flat: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder: make one with kvlab sweep"):
        write_report(tmp_path / "nowhere", tmp_path / "report.html")
    with pytest.raises(InputError, match=r"has no sweep\.parquet: give the folder"):
        write_report(tmp_path, tmp_path / "report.html")
    (tmp_path / "sweep.json").write_text("{}")
    with pytest.raises(InputError, match="was interrupted: the same kvlab sweep again finishes it"):
        write_report(tmp_path, tmp_path / "report.html")
    (tmp_path / "sweep.parquet").write_text("no table")
    with pytest.raises(InputError, match="make one with kvlab sweep"):
        write_report(tmp_path, tmp_path / "report.html")
    with pytest.raises(UnknownNameError, match="p95_ttft_ns"):
        write_report(flat, tmp_path / "report.html", ["p96_ttft"])
    with pytest.raises(ConfigError, match="png"):
        write_report(flat, tmp_path / "report.pdf")


def test_the_front_has_no_point_that_another_beats() -> None:
    more, less = FRONT
    figures = [(10.0, 1.0), (20.0, 2.0), (15.0, 2.5), (20.0, 3.0), (30.0, 4.0)]
    points = [Point(settings=(i,), values={more: [m], less: [few]}) for i, (m, few) in enumerate(figures)]
    assert [point.settings[0] for point in front(points, more, less)] == [0, 1, 4]

"""Pictures of a sweep."""

from __future__ import annotations

from pathlib import Path

import pytest

import kvlab
from kvlab.errors import ConfigError, InputError, UnknownNameError
from kvlab.sweeps.report import FRONT, Point, front, read_points, write_report


@pytest.fixture(scope="module")
def flat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("flat")
    sweep = kvlab.sweep(
        "preemption-lab", seeds=2, workers=1, folder=folder, max_num_seqs=[16, 32], num_requests=[20, 30, 40]
    )
    sweep.write(folder)
    return folder


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("line")
    kvlab.sweep("preemption-lab", seeds=2, workers=1, preemption_mode=["swap", "recompute"], num_requests=[30]).write(
        folder
    )
    return folder


def test_seeds_are_put_together(flat: Path) -> None:
    points = read_points(flat)
    assert points.names == ("max_num_seqs", "num_requests")
    assert points.axis("num_requests") == [20, 30, 40]
    assert points.num_seeds == 2
    assert len(points.points) == 6
    assert all(len(point.values["steps"]) == 2 for point in points.points)


def test_one_html_file_that_needs_no_network(flat: Path) -> None:
    path = write_report(flat, flat / "report.html")
    text = path.read_text()
    assert text.count("<h2>") == 5
    assert "6 points along max_num_seqs, num_requests, 2 seeds" in text
    assert 'src="http' not in text
    assert text == write_report(flat, flat / "again.html").read_text()


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_pictures_for_papers(flat: Path, line: Path, kind: str) -> None:
    for folder in (flat, line):
        first, second = (write_report(folder, folder / f"{name}.{kind}", ["p95_ttft_ns"]) for name in "ab")
        assert first.read_bytes() == second.read_bytes()
        assert first.stat().st_size > 4_000


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
        write_report(flat, tmp_path / "report.html", ["p95_ttft"])
    with pytest.raises(ConfigError, match="png"):
        write_report(flat, tmp_path / "report.pdf")


def test_the_front_has_no_point_that_another_beats() -> None:
    more, less = FRONT
    figures = [(10.0, 1.0), (20.0, 2.0), (15.0, 2.5), (20.0, 3.0), (30.0, 4.0)]
    points = [Point(settings=(i,), values={more: [m], less: [few]}) for i, (m, few) in enumerate(figures)]
    assert [point.settings[0] for point in front(points, more, less)] == [0, 1, 4]

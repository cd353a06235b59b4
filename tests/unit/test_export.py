from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.runs import ONE_SAMPLE, PREEMPTION, preemption_run, run_of

from kvlab import export
from kvlab.columns import Columns
from kvlab.core.config import METRICS
from kvlab.errors import OutputError, UnknownNameError
from kvlab.results import Run

TABLES = ("requests", "timeline", "preemptions")


def columns_of(run: Run, table: str) -> Columns:
    return {"requests": run.requests, "timeline": run.timeline, "preemptions": run.preemptions}[table]


def test_csv_tables_hold_every_value_and_leave_missing_ones_empty(tmp_path: Path) -> None:
    run = preemption_run()
    paths = run.write(tmp_path / "out", "csv")
    assert [path.name for path in paths] == ["result.json", *(f"{table}.csv" for table in TABLES)]
    for table in TABLES:
        with (tmp_path / "out" / f"{table}.csv").open(newline="", encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream))
        columns = columns_of(run, table)
        assert len(rows) == len(next(iter(columns.values()))) > 0
        for name, column in columns.items():
            expected = ["" if value == -1 else str(value).lower() for value in column.tolist()]
            assert [row[name] for row in rows] == expected, (table, name)


def test_parquet_tables_hold_every_value_and_null_for_missing_ones(tmp_path: Path) -> None:
    run = preemption_run()
    run.write(str(tmp_path))
    for table in TABLES:
        stored = pq.read_table(tmp_path / f"{table}.parquet")
        for name, column in columns_of(run, table).items():
            expected = [None if value == -1 else value for value in column.tolist()]
            assert stored[name].to_pylist() == expected, (table, name)


def test_the_result_file_is_the_json_of_the_run(tmp_path: Path) -> None:
    run = preemption_run()
    run.write(tmp_path)
    assert json.loads((tmp_path / "result.json").read_text(encoding="utf-8")) == run.to_dict()


@pytest.mark.parametrize("table_format", export.TABLE_FORMATS)
def test_equal_runs_write_equal_bytes(tmp_path: Path, table_format: str) -> None:
    for name in ("a", "b"):
        run_of(PREEMPTION, ONE_SAMPLE).write(tmp_path / name, table_format)
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes(), path.name


def test_a_lean_run_writes_only_its_result(tmp_path: Path) -> None:
    paths = run_of(PREEMPTION, ONE_SAMPLE, recording=METRICS).write(tmp_path)
    assert [path.name for path in paths] == ["result.json"]


def test_a_run_without_preemptions_writes_an_empty_table(tmp_path: Path) -> None:
    run_of(PREEMPTION, ONE_SAMPLE[-1:]).write(tmp_path, "csv")
    assert (tmp_path / "preemptions.csv").read_text() == "t_ns,step,request_id,outcome\n"


def test_tables_of_an_earlier_run_go_whatever_their_format(tmp_path: Path) -> None:
    run = preemption_run()
    run.write(tmp_path, "parquet")
    (tmp_path / "notes.csv").write_text("mine")
    run.write(tmp_path, "csv")
    names = {"result.json", "notes.csv", *(f"{table}.csv" for table in TABLES)}
    assert set(os.listdir(tmp_path)) == names
    run_of(PREEMPTION, ONE_SAMPLE, recording=METRICS).write(tmp_path)
    assert set(os.listdir(tmp_path)) == {"result.json", "notes.csv"}


@pytest.mark.parametrize("other", [None, "{}", "not JSON"])
def test_files_that_no_run_wrote_stay(tmp_path: Path, other: str | None) -> None:
    (tmp_path / "requests.parquet").write_text("mine")
    if other is not None:
        (tmp_path / "result.json").write_text(other)
    preemption_run().write(tmp_path, "csv")
    assert (tmp_path / "requests.parquet").read_text() == "mine"


def test_an_unknown_format_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match='unknown table format "parket": did you mean "parquet"'):
        preemption_run().write(tmp_path / "out", "parket")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("table_format", export.TABLE_FORMATS)
def test_a_full_disk_leaves_no_directory_and_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table_format: str
) -> None:
    opened = Path.open

    def small_disk(path: Path, mode: str = "r", **options: object) -> object:
        # the stream of a real device that is full
        return opened(Path("/dev/full"), "wb") if "timeline" in path.name else opened(path, mode, **options)  # type: ignore[call-overload]

    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    monkeypatch.setattr(Path, "open", small_disk)
    with pytest.raises(OutputError, match=r"timeline\.\w+: can't be written: No space left on device"):
        preemption_run().write(tmp_path / "out", table_format)
    assert os.listdir(tmp_path) == []

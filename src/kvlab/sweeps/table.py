"""A sweep as a table: the same bytes for the same sweep, whoever ran it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from kvlab.files import new_directory, write_files
from kvlab.metrics import METRICS
from kvlab.setting_table import SETTINGS
from kvlab.settings import FACTOR, RATE, RATIO, SWITCH
from kvlab.sweeps.folder import TABLE
from kvlab.sweeps.sweep import Sweep

_DECIMALS: Final = (FACTOR, RATE, RATIO)


def table(sweep: Sweep) -> pa.Table:
    """Columns: varied settings, seed, every metric of the catalog, error."""
    columns: dict[str, pa.Array] = {}
    for name in sweep.names:
        columns[name] = settings_column(name, [row.settings[name] for row in sweep.rows])
    columns["seed"] = pa.array([row.seed for row in sweep.rows], pa.int64())
    for name in METRICS:
        values = [None if row.outcome.metrics is None else row.outcome.metrics[name] for row in sweep.rows]
        whole = all(value is None or isinstance(value, int) for value in values) and METRICS[name].unit != "ratio"
        columns[name] = pa.array(values, pa.int64() if whole else pa.float64())
    columns["error"] = pa.array([row.outcome.error for row in sweep.rows], pa.string())
    return pa.table(columns)


def settings_column(name: str, values: list[Any]) -> pa.Array:
    """Values of a setting, as the table has them."""
    setting = SETTINGS[name]
    if setting.kind in _DECIMALS:
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    if setting.kind is SWITCH:
        return pa.array(values, pa.bool_())
    if all(value is None or isinstance(value, int) for value in values):
        return pa.array(values, pa.int64())
    return pa.array([None if value is None else str(value) for value in values], pa.string())


def written(folder: Path) -> tuple[Path, Path]:
    """The files of a sweep's tables: Parquet and CSV."""
    return folder / TABLE, folder / "sweep.csv"


def write(sweep: Sweep, folder: Path) -> tuple[Path, ...]:
    """Writes sweep.parquet and sweep.csv, both or neither."""
    made = table(sweep)
    parquet, plain = written(folder)
    with new_directory(folder):
        write_files(
            {
                parquet: lambda stream: pq.write_table(made, stream, compression="zstd"),
                plain: lambda stream: pa_csv.write_csv(made, stream),
            }
        )
    return parquet, plain

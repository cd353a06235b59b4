"""What a user measured: step logs (CSV) and results of `vllm bench serve` (JSON), read strictly.

A step log has one row per step. `dur` holds durations with a unit ("12.5 ms"), or the column says it: `dur_ns`,
`dur_us`, `dur_ms`, `dur_s`. `num_decodes` and `decode_context` are needed, `prefill_tokens` where there are any;
`prefill_context`, `num_prefills`, `chunk_context` and `num_running` make a fit better. Other columns are left alone.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from kvlab.core.step_time import StepLoad
from kvlab.errors import ConfigError, MeasurementError
from kvlab.strict_json import unique_keys
from kvlab.units import NS_PER_MS, NS_PER_S, NS_PER_US, parse_count

NEEDED: Final = ("num_decodes", "decode_context")
OPTIONAL: Final = ("prefill_tokens", "prefill_context", "num_prefills", "chunk_context", "num_running")
_SIZES: Final = {"ns": 1, "us": NS_PER_US, "µs": NS_PER_US, "ms": NS_PER_MS, "s": NS_PER_S}
_DURATION: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]{1,2})?)\s*([a-zµ]*)")
_COLUMNS: Final = ("dur", "dur_ns", "dur_us", "dur_ms", "dur_s")
_BENCH: Final = ("completed", "duration", "total_input_tokens", "total_output_tokens", "mean_ttft_ms", "mean_tpot_ms")


@dataclass(frozen=True, slots=True)
class MeasuredStep:
    """One row of a step log."""

    load: StepLoad
    duration_ns: int


@dataclass(frozen=True, slots=True)
class StepLog:
    """All rows of a step log."""

    path: str
    steps: tuple[MeasuredStep, ...]
    columns: frozenset[str]
    """Figures of the load that the file has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchResult:
    """A run of `vllm bench serve`: means over its requests."""

    path: str
    concurrency: Decimal
    """Requests at a time: as asked for, or by Little's law where only a rate was."""
    prompt_tokens: Decimal
    output_tokens: Decimal
    ttft_ns: Decimal
    tpot_ns: Decimal
    itl_p50_ns: Decimal | None


def read_measurements(path: str) -> StepLog | BenchResult:
    """A file of either kind, told by its name's ending: .json is a benchmark result, anything else a step log.

    Raises:
        MeasurementError: it can't be read, or a row of it can't be used: names line, column and value.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise MeasurementError(path, f"can't be read: {reason}") from None
    if path.lower().endswith(".json"):
        return _bench(path, text)
    return _step_log(path, text)


def _step_log(path: str, text: str) -> StepLog:
    reader = csv.reader(text.splitlines())
    header = [name.strip() for name in next(reader, [])]
    duration = [name for name in header if name in _COLUMNS]
    if len(duration) != 1:
        found = ", ".join(duration) or "none"
        raise MeasurementError(path, f"needs one column dur, dur_ns, dur_us, dur_ms or dur_s; found: {found}", line=1)
    for name in NEEDED:
        if name not in header:
            raise MeasurementError(path, f"has no column {name}; found: {', '.join(header)}", line=1)
    for name in (*NEEDED, *OPTIONAL, *duration):
        if header.count(name) > 1:
            raise MeasurementError(path, f"has the column {name} twice", line=1)
    steps = tuple(_steps(path, reader, header, duration[0]))
    if not steps:
        raise MeasurementError(path, "has no steps")
    return StepLog(path, steps, frozenset(name for name in (*NEEDED, *OPTIONAL) if name in header))


def _steps(path: str, reader: Any, header: list[str], duration: str) -> Iterator[MeasuredStep]:
    for row in reader:
        line = reader.line_num
        if not row:
            continue
        if len(row) != len(header):
            raise MeasurementError(path, f"has {len(row)} values for {len(header)} columns", line=line)
        values = dict(zip(header, (value.strip() for value in row), strict=True))
        try:
            load = _load(values)
            duration_ns = _duration(values[duration], duration)
        except ConfigError as error:
            raise MeasurementError(path, error.remedy, line=line, field=error.field, value=error.value) from None
        yield MeasuredStep(load, duration_ns)


def _duration(text: str, column: str) -> int:
    """Whole ns, rounded: what a clock says has more digits than it knows."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ConfigError(
            column, text, "expected a duration, such as 12.5 ms" if column == "dur" else "expected a number"
        )
    number, unit = match[1], match[2]
    if column == "dur" and unit not in _SIZES:
        raise ConfigError(column, text, 'needs a unit, such as "12.5 ms", or the column a name such as dur_ms')
    if column != "dur" and unit:
        raise ConfigError(column, text, f"expected a number: the column's name says the unit, {column[4:]}")
    ns = round(Decimal(number) * _SIZES[unit or column[4:]])
    if not 1 <= ns <= 10**15:
        raise ConfigError(column, text, "must be more than 0 and at most 10^6 s")
    return ns


def _load(values: Mapping[str, str]) -> StepLoad:
    def figure(name: str, default: int) -> int:
        count = parse_count(values[name], name) if values.get(name) else default
        if count < 0:
            raise ConfigError(name, count, "must be at least 0")
        return count

    for name in NEEDED:
        if not values[name]:
            raise ConfigError(name, "", "needs a value")
    decodes, tokens = figure("num_decodes", 0), figure("prefill_tokens", 0)
    before = figure("prefill_context", 0)
    prefills = figure("num_prefills", 1 if tokens else 0)
    if tokens and not 1 <= prefills <= tokens:
        raise ConfigError("num_prefills", prefills, f"{tokens} prefill tokens come in 1 to {tokens} chunks")
    if not decodes and not tokens:
        raise ConfigError("num_decodes", 0, "the step computes nothing; leave it out")
    pairs = figure("chunk_context", even_pairs(tokens, before, prefills))
    load = StepLoad(0, decodes, figure("decode_context", 0), tokens, before, pairs, prefills)
    return load._replace(num_running=figure("num_running", decodes + prefills))


def even_pairs(tokens: int, before: int, chunks: int) -> int:
    """(query, key) pairs when chunks are alike, rounded down: what can be said without a column for it.

    >>> from kvlab.core.step_time import chunk_pairs
    >>> even_pairs(100, 50, 1) == chunk_pairs(100, 50), even_pairs(100, 0, 2) == 2 * chunk_pairs(50, 0)
    (True, True)
    """
    if not tokens:
        return 0
    return (tokens * before + (tokens * tokens + tokens * chunks) // 2) // chunks


def _bench(path: str, text: str) -> BenchResult:
    try:
        document = json.loads(text, object_pairs_hook=unique_keys, parse_float=Decimal)
    except json.JSONDecodeError as error:
        raise MeasurementError(path, f"not JSON: {error.msg}", line=error.lineno) from None
    except ValueError as error:
        raise MeasurementError(path, f"not JSON: {error}") from None
    if not isinstance(document, dict) or not all(name in document for name in _BENCH):
        missing = [name for name in _BENCH if not isinstance(document, dict) or name not in document]
        problem = f"not a result of vllm bench serve --save-result: {', '.join(missing)} missing"
        raise MeasurementError(path, problem)
    number = {name: _positive(path, document, name) for name in _BENCH}
    completed = number["completed"]
    output = number["total_output_tokens"] / completed
    if output <= 1:
        raise MeasurementError(path, "answers of one token have no time per token", field="total_output_tokens")
    ms = {name: number[name] * NS_PER_MS for name in ("mean_ttft_ms", "mean_tpot_ms")}
    asked = document.get("max_concurrency")
    if asked is None:
        latency = ms["mean_ttft_ms"] + ms["mean_tpot_ms"] * (output - 1)
        concurrency = completed * latency / (number["duration"] * NS_PER_S)
    else:
        concurrency = min(_positive(path, document, "max_concurrency"), completed)
    p50 = document.get("median_itl_ms")
    return BenchResult(
        path=path,
        concurrency=concurrency,
        prompt_tokens=number["total_input_tokens"] / completed,
        output_tokens=output,
        ttft_ns=ms["mean_ttft_ms"],
        tpot_ns=ms["mean_tpot_ms"],
        itl_p50_ns=None if p50 is None else _positive(path, document, "median_itl_ms") * NS_PER_MS,
    )


def _positive(path: str, document: Mapping[str, Any], name: str) -> Decimal:
    value = document[name]
    if isinstance(value, bool) or not isinstance(value, int | Decimal) or not value > 0:
        raise MeasurementError(path, "expected a number above 0", field=name, value=value)
    return Decimal(value)

"""`kvlab trace`: describe, convert, cut, scale and make traces of requests."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar, cast

import click

from kvlab.cli.terminal import columns as aligned
from kvlab.cli.terminal import stdout_terminal
from kvlab.errors import ConfigError, OutputError, TraceError
from kvlab.files import write_file
from kvlab.units import NS_PER_S, format_duration, format_number, parse_count, parse_decimal, parse_duration_ns
from kvlab.workloads.traces import (
    TRACE_FORMATS,
    TraceRow,
    TraceSummary,
    cut,
    describe,
    read_trace,
    reading,
    scale,
    sort,
    trace_format,
)

_Command = TypeVar("_Command", bound=Callable[..., Any])
_STDOUT: Final = "-"
_BY_ENDING: Final = {".csv": "csv", ".jsonl": "jsonl", ".json": "vllm-bench", ".parquet": "parquet"}
"""What a name's ending means where no other format of that ending is asked for."""


def _parsed(parse: Callable[[object, str], Any]) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    """A callback that reads an option's text by one of the parsers of `kvlab.units`, with its error messages."""
    return lambda _, param, text: None if text is None else parse(text, param.opts[0])


_DURATION: Final = _parsed(parse_duration_ns)
_NUMBER: Final = _parsed(parse_decimal)
_COUNT: Final = _parsed(parse_count)


def _reads(command: _Command) -> _Command:
    """The options of every command that reads a trace."""
    options = (
        click.option("--format", "format_name", metavar="FORMAT", help="Of FILE; found out by default."),
        click.option(
            "--columns", metavar="MAP", help='Of csv, jsonl, parquet: "arrival=ts:ms, prompt=in, output=out".'
        ),
        click.option(
            "--from", "from_ns", callback=_DURATION, default="0s", metavar="TIME", help="Requests from then on."
        ),
        click.option("--until", "until_ns", callback=_DURATION, metavar="TIME", help="Requests before then."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _writes(command: _Command) -> _Command:
    """The option of every command that writes a trace."""
    return click.option("--to", "to", metavar="FORMAT", help="Of OUT: " + ", ".join(TRACE_FORMATS) + ".")(command)


@click.group()
def trace() -> None:
    """Describe, convert, cut, scale or make a trace of requests.

    FILE may be packed by gzip; its format is found out. Times count from its first request. OUT is another file, or "-"
    for standard output; its name says its format (.csv, .jsonl, .json, .parquet) and whether it is packed (.gz).
    """


@trace.command(name="describe")
@click.argument("file")
@_reads
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def describe_command(
    file: str, format_name: str | None, columns: str | None, from_ns: int, until_ns: int | None, as_json: bool
) -> None:
    """Show rate, burstiness and lengths of FILE."""
    with reading(file, format_name, columns) as (name, rows):
        summary = describe(_window(file, rows, from_ns, until_ns))
    if as_json:
        click.echo(json.dumps({"file": file, "format": name, **summary.to_dict()}, indent=2))
    else:
        click.echo(stdout_terminal().render(_report(file, name, summary)), nl=False)


@trace.command()
@click.argument("file")
@click.argument("out")
@_reads
@_writes
@click.option("--sort", "sorting", is_flag=True, help="Put requests in order of arrival; needs memory for all of them.")
def convert(
    file: str,
    out: str,
    format_name: str | None,
    columns: str | None,
    from_ns: int,
    until_ns: int | None,
    to: str | None,
    sorting: bool,
) -> None:
    """Write FILE in another format.

    OUT has the format that its name ends in, csv by default.
    """
    with reading(file, format_name, columns, in_order=not sorting) as (_, rows):
        ordered = iter(sort(rows)) if sorting else rows
        _write(_window(file, ordered, from_ns, until_ns), out, to or _format_of(out, "csv"), file)


@trace.command(name="cut")
@click.argument("file")
@click.argument("out")
@_reads
@_writes
@click.option("--num-requests", callback=_COUNT, metavar="N", help="At most that many.")
def cut_command(
    file: str,
    out: str,
    format_name: str | None,
    columns: str | None,
    from_ns: int,
    until_ns: int | None,
    to: str | None,
    num_requests: int | None,
) -> None:
    """Write a part of FILE.

    OUT has the format of FILE, unless its name ends in another.
    """
    if num_requests is not None and num_requests < 1:
        raise ConfigError("--num-requests", num_requests, "must be at least 1")
    with reading(file, format_name, columns) as (name, rows):
        _write(_first(_window(file, rows, from_ns, until_ns), num_requests), out, to or _format_of(out, name), file)


@trace.command(name="scale")
@click.argument("file")
@click.argument("out")
@_reads
@_writes
@click.option("--speed", callback=_NUMBER, metavar="FACTOR", help="2 doubles the rate.")
@click.option("--request-rate", callback=_NUMBER, metavar="RATE", help="Mean requests per second to scale to.")
def scale_command(
    file: str,
    out: str,
    format_name: str | None,
    columns: str | None,
    from_ns: int,
    until_ns: int | None,
    to: str | None,
    speed: Decimal | None,
    request_rate: Decimal | None,
) -> None:
    """Write FILE faster or slower.

    Requests come closer together or further apart. OUT has the format of FILE, unless its name ends in another.
    """
    if (speed is None) == (request_rate is None):
        raise click.UsageError("Give either --speed or --request-rate.")
    for option, value in (("--speed", speed), ("--request-rate", request_rate)):
        if value is not None and not Decimal("0.000001") <= value <= 1_000_000:
            raise ConfigError(option, value, "must be from 0.000001 to 1,000,000")
    if speed is not None:
        factor = Fraction(speed)
    else:
        assert request_rate is not None, "one of the two is given"
        now = describe(_window(file, read_trace(file, format_name, columns), from_ns, until_ns)).request_rate
        if now is None:
            raise TraceError(file, "all requests arrive at once: there is no rate to scale")
        factor = Fraction(request_rate) / now
    with reading(file, format_name, columns) as (name, rows):
        _write(scale(_window(file, rows, from_ns, until_ns), factor), out, to or _format_of(out, name), file)


@trace.command()
@click.argument("out")
@_writes
@click.option("--num-requests", default="200", show_default=True, metavar="N")
@click.option("--seed", default="1", show_default=True, metavar="N")
@click.option("--arrivals", default="poisson", show_default=True, metavar="NAME", help="Such as gamma or constant.")
@click.option("--request-rate", default="4", show_default=True, metavar="RATE", help="Per second.")
@click.option("--burstiness", default="1", show_default=True, metavar="SHAPE", help="Of gamma.")
@click.option("--prompt-tokens", default="uniform(200, 1500)", show_default=True, metavar="LENGTHS")
@click.option("--output-tokens", default="exponential(250, max=1500)", show_default=True, metavar="LENGTHS")
def make(out: str, to: str | None, **texts: str) -> None:
    """Write a sample trace of made-up requests.

    OUT has the format that its name ends in, csv by default.
    """
    from kvlab.setting_table import SETTINGS
    from kvlab.workloads.traffic import Traffic, requests

    settings: dict[str, Any] = {name: SETTINGS[name].parse(text) for name, text in texts.items()}
    made = requests(Traffic(**settings))
    rows = (TraceRow(request.id + 1, *request[1:3], request.output_tokens[0]) for request in made)
    _write(rows, out, to or _format_of(out, "csv"))


def _window(file: str, rows: Iterator[TraceRow], from_ns: int, until_ns: int | None) -> Iterator[TraceRow]:
    """The rows in [from_ns, until_ns); none at all is an error."""
    if from_ns < 0:
        raise ConfigError("--from", from_ns, "must be at least 0")
    if until_ns is not None and until_ns <= from_ns:
        raise ConfigError("--until", format_duration(until_ns), f"must be after --from {format_duration(from_ns)}")
    row = None
    for row in cut(rows, from_ns, until_ns):
        yield row
    if row is None:
        raise TraceError(file, "no request between --from and --until; `kvlab trace describe` shows how long it lasts")


def _first(rows: Iterator[TraceRow], count: int | None) -> Iterator[TraceRow]:
    for number, row in enumerate(rows, 1):
        yield row
        if number == count:
            return


class _Counted:
    """Rows on their way into a file, and what its format can't keep of them."""

    def __init__(self, rows: Iterator[TraceRow], resolution_ns: int) -> None:
        self._rows = rows
        self._resolution_ns = resolution_ns
        self.num_rows = 0
        self.num_rounded = 0
        self.num_with_ids = 0

    def __iter__(self) -> Iterator[TraceRow]:
        for row in self._rows:
            self.num_rows += 1
            self.num_rounded += row.arrival_ns % self._resolution_ns != 0
            self.num_with_ids += bool(row.hash_ids)
            yield row


def _ending(out: str) -> str:
    """The ending of OUT that says a format, or nothing."""
    ending = Path(out.lower().removesuffix(".gz")).suffix
    return ending if ending in _BY_ENDING else ""


def _format_of(out: str, usual: str) -> str:
    """The format of OUT where nobody says it: the usual one, if its name doesn't end in another."""
    ending = _ending(out)
    return usual if ending in ("", TRACE_FORMATS[usual].suffix) else _BY_ENDING[ending]


def _check_out(out: str, to: str, file: str | None) -> None:
    """OUT is a name for what is written, and not that of what is read."""
    ending, right = _ending(out), TRACE_FORMATS[to].suffix
    if ending not in ("", right):
        remedy = f"the name {out} ends in {ending}; drop --to, or let it end in {right}"
        raise ConfigError("--to", to, remedy)
    if to == "parquet" and out.lower().endswith(".gz"):
        raise OutputError(f"{out}: parquet is packed as it is; drop .gz from the name")
    if file is not None and Path(out).is_file() and Path(out).samefile(file):
        raise OutputError(f"{out} is the file that is read; name another as OUT")


def _write(rows: Iterator[TraceRow], out: str, to: str, file: str | None = None) -> None:
    chosen = trace_format(to, "--to")
    _check_out(out, to, file)
    replaced = ", in place of what was there" if Path(out).is_file() else ""
    counted = _Counted(rows, chosen.resolution_ns)
    if out == _STDOUT:
        if to == "parquet":
            raise OutputError("parquet is not text: name a file as OUT")
        chosen.write(counted, sys.stdout.buffer)
    elif out.lower().endswith(".gz"):
        write_file(Path(out), lambda stream: _pack(counted, chosen.write, stream))
    else:
        write_file(Path(out), lambda stream: chosen.write(counted, stream))
    click.echo(f"{counted.num_rows:,} requests written to {out} ({to}){replaced}", err=True)
    if counted.num_rounded:
        click.echo(f"{counted.num_rounded:,} times rounded down to {format_duration(chosen.resolution_ns)}", err=True)
    if counted.num_with_ids and not chosen.has_hash_ids:
        click.echo(f"block ids of {counted.num_with_ids:,} prompts left out: {to} has no place for them", err=True)


def _pack(rows: _Counted, write: Callable[[Any, BinaryIO], None], stream: BinaryIO) -> None:
    """No name and no time in the header: the same trace gives the same bytes."""
    with gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0) as packed:
        write(rows, cast(BinaryIO, packed))


def _report(file: str, name: str, summary: TraceSummary) -> list[str]:
    lines = [f"{file} ({name}): {summary.num_requests:,} requests in {format_duration(summary.span_ns)}", ""]
    if summary.request_rate is None or summary.gap_cv is None:
        lines.append("arrivals  all at once")
    else:
        burstiness = "" if summary.burstiness is None else f", burstiness {format_number(summary.burstiness)}"
        busiest = f", {summary.busiest_minute:,} in the busiest minute" if summary.span_ns >= 60 * NS_PER_S else ""
        lines.append(f"arrivals  {format_number(summary.request_rate)} requests/s{busiest}")
        lines.append(f"gaps      CV {format_number(summary.gap_cv)}{burstiness} (Poisson: 1)")
    rows = [["tokens", "mean", "p50", "p95", "p99", "max"]]
    for label, lengths in (("prompt", summary.prompt), ("output", summary.output)):
        numbers = (lengths.mean, lengths.p50, lengths.p95, lengths.p99, lengths.max)
        rows.append([label, *(format_number(number) for number in numbers)])
    lines += ["", *aligned(rows, "<>>>>>")]
    if summary.hash_blocks:
        lines += ["", f"block ids {summary.hash_blocks:,}"]
    return lines

"""`kvlab validate`: the page that puts the simulator beside real servers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kvlab.cli.terminal import columns
from kvlab.errors import OutputError
from kvlab.files import Writer, write_files

if TYPE_CHECKING:
    from kvlab.validation.numbers import Numbers

_MEANT: Final = (Path("shared/data"), Path("../shared/data"))
"""Where the recordings are looked for, after what KVLAB_SHARED names."""


@click.command()
@click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="The folder with the recorded runs; by default $KVLAB_SHARED/data, shared/data or ../shared/data.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("docs"),
    metavar="DIR",
    show_default=True,
    help="Where validation.md, validation.html and the pictures go.",
)
@click.option("--again", is_flag=True, help="Simulate the cases and the watermark table, too; about a minute.")
@click.option(
    "--numbers", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write the numbers as JSON."
)
def validate(data: Path | None, out: Path, again: bool, numbers: Path | None) -> None:
    """Rebuild the page that compares kvlab with real servers: two recorded runs, logged capacities, public cases.

    Where the recordings are, both runs are simulated anew. Without them the page is made from the numbers that come
    with the package, and the pictures of the runs stay as they are.

    \b
    kvlab validate
    kvlab validate --data ../shared/data --out docs
    """  # fmt: skip
    from kvlab.validation import recordings
    from kvlab.validation.blocks import as_html, as_markdown
    from kvlab.validation.numbers import committed
    from kvlab.validation.page import WATERMARK_PICTURE, build, run_picture_path
    from kvlab.validation.pictures import run_picture, watermark_picture
    from kvlab.validation.runs import simulate_runs

    shown = committed()
    files: dict[str, bytes] = {}
    folder = data if data is not None else _data_folder()
    if folder is not None and recordings.is_there(folder):
        click.echo(f"recordings in {folder}: both runs are simulated anew", err=True)
        runs, replayed = simulate_runs(folder)
        shown = shown.with_runs(runs)
        files |= {run_picture_path(run): run_picture(done) for run, done in zip(runs, replayed, strict=True)}
    elif data is not None:
        raise OutputError(f"{data} has no recorded runs: expected runs/*/requests.csv in it")
    else:
        click.echo("no recordings here: the page is made from the numbers that come with the package", err=True)
    if again:
        shown = _again(shown)
    if shown.watermark is not None:
        files[WATERMARK_PICTURE] = watermark_picture(shown.watermark)
    blocks = build(shown)
    files |= {"validation.md": as_markdown(blocks).encode(), "validation.html": as_html(blocks).encode()}
    _write(out, files)
    if numbers is not None:
        write_files({numbers: lambda stream: stream.write(shown.to_json().encode())})
    click.echo("\n".join(line.rstrip() for line in summary(shown)))
    click.echo(f"wrote {out / 'validation.md'}, {out / 'validation.html'}", err=True)


def summary(shown: Numbers) -> list[str]:
    """Headline figures, and which cases hold."""
    from kvlab.validation.page import AIMED_AT, number, percent

    lines = []
    for run in shown.runs:
        rows = [
            (f"  {name}", number(f.real), number(f.simulated), f.unit, percent(f.error_percent))
            for name in AIMED_AT
            for f in (run.figure(name),)
        ]
        lines += [run.title, *columns([("", "real", "simulated", "", "error"), *rows], "<>><>"), ""]
    return [*lines, *columns([(case.id, case.verdict, case.title) for case in shown.cases], "<<<")]


def _again(shown: Numbers) -> Numbers:
    from dataclasses import replace

    from kvlab.validation.simulated_cases import SIMULATED
    from kvlab.validation.sized_cases import SIZED
    from kvlab.validation.watermark import watermark_table

    cases = sorted((check() for check in (*SIMULATED, *SIZED)), key=lambda case: case.id)
    return replace(shown, cases=tuple(cases), watermark=watermark_table())


def _data_folder() -> Path | None:
    shared = os.environ.get("KVLAB_SHARED")
    places = (Path(shared) / "data", *_MEANT) if shared else _MEANT
    return next((place for place in places if place.is_dir()), None)


def _write(out: Path, files: dict[str, bytes]) -> None:
    try:
        for name in files:
            (out / name).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{out}: can't be made: {error.strerror or error}") from error
    write_files({out / name: _writer(content) for name, content in files.items()})


def _writer(content: bytes) -> Writer:
    return lambda stream: stream.write(content)

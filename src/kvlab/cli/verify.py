"""`kvlab verify`: replay golden files with both engines."""

from __future__ import annotations

import glob
from pathlib import Path

import click

from kvlab import goldens, vllm_goldens
from kvlab.errors import GoldenError


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
def verify(files: tuple[str, ...]) -> None:
    """Replay golden FILEs with both engines, and name the first difference.

    FILE is a golden of the labs (*.json.gz) or of the vLLM V1 scheduler (*.golden.jsonl.gz), a folder of them, or a
    pattern such as "goldens/*.gz". Everything is computed anew and compared field by field, block tables included.
    Exit status 1 if any file fails or can't be read.
    """
    passed = failed = 0
    for path in _expanded(files):
        problems = _verify_file(path)
        if problems:
            failed += 1
            click.echo(f"FAIL  {path}")
            for problem in problems:
                click.echo(f"      {problem}")
        else:
            passed += 1
            click.echo(f"ok    {path}")
    click.echo(f"{passed} passed, {failed} failed")
    if failed:
        raise click.exceptions.Exit(1)


def _expanded(names: tuple[str, ...]) -> list[Path]:
    """Files as named; of a folder and of a pattern, what they hold, sorted. What doesn't exist stays as it is."""
    paths: list[Path] = []
    for name in names:
        path = Path(name)
        if path.is_dir():
            found = sorted((*path.rglob("*.json.gz"), *path.rglob(f"*{vllm_goldens.SUFFIX}")))
        elif not path.exists():
            found = [Path(match) for match in sorted(glob.glob(name, recursive=True))]
        else:
            found = [path]
        paths += found or [path]
    return paths


def _verify_file(path: Path) -> list[str]:
    """What is wrong: one line for an unreadable file, or one per engine that disagrees."""
    if path.is_dir():
        return [f"{path}: a folder without any *.json.gz or *{vllm_goldens.SUFFIX}"]
    try:
        if path.name.endswith(vllm_goldens.SUFFIX):
            return _verify_vllm(vllm_goldens.read_golden(path))
        return _verify_lab(goldens.read_golden(path))
    except GoldenError as error:
        return [str(error)]


def _verify_vllm(golden: vllm_goldens.VllmGolden) -> list[str]:
    problems = []
    for engine, replay in vllm_goldens.ENGINES.items():
        try:
            difference = vllm_goldens.first_difference(golden.lines, replay(golden))
        except Exception as error:  # a golden may well be the input that an engine's own checks fail on
            problems.append(f"{engine}: stopped with {type(error).__name__}: {error}")
        else:
            problems += [] if difference is None else [f"{engine}: {difference}"]
    return problems


def _verify_lab(golden: goldens.Golden) -> list[str]:
    problems = []
    agreed_log: list[goldens.Row] | None = None
    for engine in goldens.ENGINES:
        difference, log = _replay_lab(engine, golden, agreed_log)
        if difference is None:
            agreed_log = log
        else:
            problems.append(f"{engine}: {difference}")
    return problems


def _replay_lab(
    engine: str, golden: goldens.Golden, agreed_log: list[goldens.Row] | None
) -> tuple[goldens.Difference | str | None, list[goldens.Row]]:
    """The first difference from the golden; in rows that it only has a hash of, from the log that has that hash."""
    try:
        result, log = goldens.ENGINES[engine](golden)
    except Exception as error:  # see above
        return f"stopped with {type(error).__name__}: {error}", []
    difference = goldens.first_difference(golden.result, result)
    if difference is not None and difference.step is None and agreed_log is not None:
        difference = goldens.first_row_difference(agreed_log, log) or difference
    return difference, log

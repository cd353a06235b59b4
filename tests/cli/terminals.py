"""How the command line is driven in tests: in this process, or as a program of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import NamedTuple

import pytest

from kvlab.cli import execute


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


class Cli:
    """Runs commands in this process and captures what they write."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *args: object) -> Outcome:
        self._capsys.readouterr()
        code = execute([str(arg) for arg in args])
        out, err = self._capsys.readouterr()
        return Outcome(code, out, err)

    def refuses(self, *args: object) -> str:
        """The one-line error of a command that must fail without results."""
        code, out, err = self(*args)
        assert (code, out) == (2, "")
        assert err.startswith("kvlab: error: ")
        assert err.count("\n") == 1
        assert err.rstrip("\n").isprintable()
        return err.removeprefix("kvlab: error: ").rstrip("\n")


def program(*args: object, **environment: str) -> subprocess.Popen[str]:
    """`python -m kvlab` as a process, with piped streams."""
    return subprocess.Popen(
        [sys.executable, "-m", "kvlab", *map(str, args)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONIOENCODING": "utf-8", **environment},
    )

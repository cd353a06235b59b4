"""Commands and their output in Markdown files: found, run and, on request, refreshed.

In a ```console block a line "$ command" is followed by what it prints on standard output. A line "..." stands for any
lines; a command without lines below it is run and its output not compared.

    python docs/console.py README.md docs/cli.md     # writes the present output into the files
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
LINKED = ("examples", "tests", "docs")
"""Folders of the repository that commands may name."""
SHARED_FILES = {"azure.csv": "data/traces/azure_llm_2023_conv.csv"}
"""Names in documents of public data that is not in the repository."""
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Command:
    """One command of a document."""

    line: int
    """Of the document, from 1."""
    text: str
    expected: tuple[str, ...]

    @property
    def shared(self) -> list[str]:
        """The public files that it needs."""
        return [name for name in SHARED_FILES if name in self.text]


def blocks(text: str, language: str) -> Iterator[tuple[int, str]]:
    """(line of the fence, content) of every fenced block in a language."""
    for match in _FENCE.finditer(text):
        if match[1] == language:
            yield text.count("\n", 0, match.start()) + 1, match[2]


def commands(text: str) -> list[Command]:
    """All commands of a document, in order."""
    found = []
    for fence_line, content in blocks(text, "console"):
        lines = content.splitlines()
        starts = [i for i, line in enumerate(lines) if line.startswith("$ ")]
        assert starts[:1] == [0], f"line {fence_line}: a console block begins with a command"
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
            found.append(Command(fence_line + 1 + start, lines[start][2:], tuple(lines[start + 1 : end])))
    return found


def run(command: Command, folder: Path) -> list[str]:
    """What the command prints in `folder`, line by line.

    Raises:
        AssertionError: it failed; says what it printed on standard error.
    """
    here = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": f"{here}{os.pathsep}{os.environ['PATH']}", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        ["bash", "-c", command.text],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, f"`{command.text}` exits with {done.returncode}:\n{done.stderr}"
    return done.stdout.splitlines()


def matches(expected: tuple[str, ...], printed: list[str]) -> bool:
    """Whether the lines are those expected, where "..." stands for any."""
    pattern = "".join("(?:.*\n)*" if line == "..." else re.escape(line) + "\n" for line in expected)
    return re.fullmatch(pattern, "".join(line + "\n" for line in printed)) is not None


def prepare(folder: Path, shared: Path | None) -> None:
    """Links the repository's folders, and the public data where it is, into a folder for commands."""
    for name in LINKED:
        (folder / name).symlink_to(ROOT / name)
    for name, path in SHARED_FILES.items():
        if shared is not None and (shared / path).exists():
            (folder / name).symlink_to((shared / path).resolve())


def refresh(path: Path, shared: Path | None) -> None:
    """Writes the present output of every command into a document; outputs with "..." stay as they are."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder), shared)
        answers = [
            (command, run(command, Path(folder)))
            for command in commands(text)
            if all((Path(folder) / name).exists() for name in command.shared)
        ]
    for command, printed in reversed(answers):
        if command.expected and "..." not in command.expected:
            lines[command.line : command.line + len(command.expected)] = printed
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    public = Path(os.environ.get("KVLAB_SHARED", ROOT.parent / "shared"))
    for document in sys.argv[1:]:
        refresh(Path(document), public)

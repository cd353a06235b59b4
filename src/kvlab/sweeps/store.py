"""Outcomes on disk, one small file each, named by what decides them: a killed sweep loses none that was finished."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from kvlab.errors import OutputError
from kvlab.files import write_file
from kvlab.sweeps.outcome import Outcome


class Store:
    """A folder of outcomes. Files are written whole or not at all; one that can't be read counts as missing."""

    def __init__(self, folder: Path) -> None:
        """
        Raises:
            OutputError: the folder can't be made.
        """
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"can't make {folder}: {error.strerror or error}") from None

    def get(self, key: str) -> Outcome | None:
        """What was kept under a key."""
        with suppress(OSError, ValueError, KeyError):
            return Outcome.from_json(self._path(key).read_text(encoding="utf-8"))
        return None

    def put(self, key: str, outcome: Outcome) -> None:
        """
        Raises:
            OutputError: no permission or no space; what was there before stays.
        """
        path = self._path(key)
        try:
            path.parent.mkdir(exist_ok=True)
        except OSError as error:
            raise OutputError(f"can't make {path.parent}: {error.strerror or error}") from None
        write_file(path, lambda stream: stream.write(outcome.to_json().encode()))

    def keys(self) -> Iterator[str]:
        """Of all that is kept."""
        return (path.stem for path in self._folder.glob("??/*.json"))

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.json"

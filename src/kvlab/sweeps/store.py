"""Outcomes on disk, a line each, named by what decides them: a killed sweep loses none that was finished."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from kvlab.errors import OutputError
from kvlab.sweeps.outcome import Outcome

_BEGIN: Final = b'{"key":"'


class Store:
    """A file of outcomes that only grows. Torn and damaged lines count as missing; of two alike, the later counts."""

    def __init__(self, path: Path) -> None:
        """
        Raises:
            OutputError: the file or its folder can't be made, or read.
        """
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._out = path.open("ab", buffering=0)
        except OSError as error:
            raise self._refused(error) from None
        self._in = path.open("rb")
        self._places: dict[str, tuple[int, int]] = {}
        self._is_torn = False
        place = 0
        for line in self._in:
            self._is_torn = not line.endswith(b"\n")
            if line.startswith(_BEGIN) and not self._is_torn:
                key = line[len(_BEGIN) : line.find(b'"', len(_BEGIN))]
                self._places[key.decode(errors="replace")] = (place, len(line))
            place += len(line)

    def get(self, key: str) -> Outcome | None:
        """What was kept under a key when the file was opened."""
        if key not in self._places:
            return None
        place, length = self._places[key]
        with suppress(OSError, ValueError, KeyError):
            self._in.seek(place)
            return Outcome.from_json(self._in.read(length).decode())
        return None

    def put(self, key: str, outcome: Outcome) -> None:
        """Keeps an outcome for the next time.

        Raises:
            OutputError: no permission or no space; what was there before stays.
        """
        assert '"' not in key, key
        line = _BEGIN + key.encode() + b'",' + outcome.to_json().encode()[1:]
        rest = memoryview(b"\n" + line if self._is_torn else line)
        self._is_torn = True
        try:
            while rest:
                rest = rest[self._out.write(rest) or 0 :]
        except OSError as error:
            raise self._refused(error) from None
        self._is_torn = False

    def close(self) -> None:
        """What was put stays."""
        self._in.close()
        self._out.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _refused(self, error: OSError) -> OutputError:
        return OutputError(f"{self._path}: can't be written: {error.strerror or error}")

"""Outcomes on disk, a line each, named by what decides them: a killed sweep loses none that was finished.

{"key":"8f3a...","check":"1c291ca3","format":1,"metrics":{...},"error":null}

`check` is the CRC-32 of key and outcome: what a disk or an editor changed is run again.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self
from zlib import crc32

from kvlab.errors import ConfigError, OutputError
from kvlab.sweeps.outcome import Outcome

fcntl: Any
try:
    import fcntl
except ImportError:  # an operating system without it: nothing keeps two sweeps apart there
    fcntl = None

_BEGIN: Final = b'{"key":"'
_CHECK: Final = b'","check":"'


class Store:
    """A file of outcomes that only grows. Torn and damaged lines count as missing; of two alike, the later counts.

    It belongs to one sweep at a time: the operating system lets go of it when that sweep's process ends, however.
    """

    def __init__(self, path: Path) -> None:
        """
        Raises:
            ConfigError: another sweep is using it now.
            OutputError: the file or its folder can't be made, or read.
        """
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._out = path.open("ab", buffering=0)
        except OSError as error:
            raise self._refused(error) from None
        self._lock()
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
            line = self._in.read(length)
            _, _, rest = line.partition(b",")
            _, _, rest = rest.partition(b",")
            kept = b"{" + rest
            if line == _line(key, kept):
                return Outcome.from_json(kept.decode())
        return None

    def put(self, key: str, outcome: Outcome) -> None:
        """Keeps an outcome for the next time.

        Raises:
            OutputError: no permission or no space; what was there before stays.
        """
        assert '"' not in key, key
        line = _line(key, outcome.to_json().encode())
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

    def _lock(self) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(self._out, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._out.close()
            remedy = "another sweep is writing there now: wait until it has ended, or name another folder"
            raise ConfigError("folder", str(self._path.parent), remedy) from None
        except OSError:  # a file system without locks
            pass

    def _refused(self, error: OSError) -> OutputError:
        return OutputError(f"{self._path}: can't be written: {error.strerror or error}")


def _line(key: str, outcome: bytes) -> bytes:
    """What stands in the file; `outcome` is `Outcome.to_json`."""
    name = key.encode()
    check = b"%08x" % crc32(name + outcome)
    return _BEGIN + name + _CHECK + check + b'",' + outcome[1:]

"""Opening a trace: plain or gzip, read once from front to back, in bounded memory.

Whatever is wrong with the file itself (missing, a directory, no permission, binary, cut off) becomes a TraceError.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, Final, cast

from kvlab.errors import TraceError

MAX_LINE_BYTES: Final = 8 * 2**20
"""Longest line: a prompt of 10,000,000 tokens has some 200 kB of block ids."""
_BLOCK_BYTES: Final = 2**18
_GZIP_MAGIC: Final = b"\x1f\x8b"


class TraceFile:
    """An open trace whose first bytes have been looked at."""

    def __init__(self, path: str, stream: BinaryIO) -> None:
        self.path = path
        """As the user named it."""
        self._stream = stream
        self.head = self._read()
        """The first bytes (unpacked): enough for a header or a first row."""

    def blocks(self) -> Iterator[bytes]:
        """All bytes, in pieces; to be asked for once."""
        block = self.head
        while block:
            yield block
            block = self._read()

    def lines(self) -> Iterator[str]:
        """Lines without their ends; a byte order mark and a missing last line end are fine.

        Raises:
            TraceError: not UTF-8, or a line of more than 8 MiB: no text trace.
        """
        num_lines = 0
        rest = b""
        for block in self.blocks():
            end = block.rfind(b"\n") + 1
            if not end:
                rest += block
                if len(rest) > MAX_LINE_BYTES:
                    problem = f"a line of more than {MAX_LINE_BYTES // 2**20} MiB: is this a text trace?"
                    raise TraceError(self.path, problem, line=num_lines + 1)
                continue
            lines = self._decoded(rest + block[:end], num_lines).split("\n")
            lines.pop()
            num_lines += len(lines)
            yield from lines
            rest = block[end:]
        if rest:
            yield self._decoded(rest, num_lines)

    def _decoded(self, block: bytes, num_lines: int) -> str:
        try:
            text = block.decode("utf-8-sig" if num_lines == 0 else "utf-8")
        except UnicodeDecodeError as error:
            line = num_lines + block.count(b"\n", 0, error.start) + 1
            raise TraceError(self.path, "not UTF-8 text: is this a text trace?", line=line) from None
        if "\0" in text:
            line = num_lines + text.count("\n", 0, text.index("\0")) + 1
            raise TraceError(self.path, "binary data: is this a text trace?", line=line)
        return text.replace("\r\n", "\n")

    def _read(self) -> bytes:
        try:
            return self._stream.read(_BLOCK_BYTES)
        except EOFError:
            raise TraceError(self.path, "the gzip data ends too early: was the file copied whole?") from None
        except (zlib.error, gzip.BadGzipFile) as error:
            raise TraceError(self.path, f"damaged gzip data ({error}): copy the file again") from None
        except OSError as error:
            raise TraceError(self.path, f"can't be read: {error.strerror or error}") from None


@contextmanager
def open_trace(path: str) -> Iterator[TraceFile]:
    """The file, unpacked if it is gzip.

    Raises:
        TraceError: missing, empty, a directory, no permission.
    """
    try:
        raw = open(path, "rb")  # noqa: SIM115 # closed below
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = error.strerror if isinstance(error, OSError) else error
        raise TraceError(path, f"can't be opened: {reason}") from None
    with raw:
        try:
            packed = raw.peek(2)[:2] == _GZIP_MAGIC
        except OSError as error:
            raise TraceError(path, f"can't be read: {error.strerror or error}") from None
        stream = cast(BinaryIO, gzip.GzipFile(fileobj=raw, mode="rb")) if packed else raw
        with stream:
            file = TraceFile(path, stream)
            if not file.head:
                raise TraceError(path, "the file is empty: it needs a header and a row per request")
            yield file

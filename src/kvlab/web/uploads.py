"""Traces that were dropped on the page: a few files in a folder of their own, gone when the server ends."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
from collections import OrderedDict
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from kvlab.web.errors import NOT_FOUND, TOO_LARGE, Refusal, RefusedError
from kvlab.web.limits import MAX_UPLOAD_BYTES

_MAX_FILES: Final = 16
_DRAINED_BYTES: Final = 2**28
"""Read and dropped of a file that is too large: browsers show an answer only after they have sent all."""
_TOKEN: Final = re.compile(r"[0-9a-f]{24}\Z")
_MAX_NAME: Final = 80


@dataclass(frozen=True, slots=True)
class Upload:
    """One trace."""

    token: str
    """Of its bytes: the same file has the same."""
    path: str
    name: str
    """What its owner calls it."""
    format: str | None
    """What its owner says it is; None: to be detected."""


class Uploads:
    """The folder, made for the first file. Files beyond the sixteenth push out the oldest."""

    def __init__(self) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._files: OrderedDict[str, Upload] = OrderedDict()

    def find(self, token: str) -> Upload:
        """The trace of that token.

        Raises:
            RefusedError: there is none (any more).
        """
        upload = self._files.get(token) if _TOKEN.match(token) else None
        if upload is None:
            message = "trace: no such trace on this server; drop the file on the page again"
            raise RefusedError(Refusal(status=NOT_FOUND, message=message, field="trace", value=token))
        self._files.move_to_end(token)
        return upload

    async def receive(self, chunks: AsyncIterator[bytes], name: str, trace_format: str | None) -> Upload:
        """Stores a body. It is not known to `find` before `keep`.

        Raises:
            RefusedError: too large.
        """
        digest = hashlib.sha256((trace_format or "").encode())
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="kvlab-traces-", ignore_cleanup_errors=True)
        handle, path = tempfile.mkstemp(dir=self._folder.name)
        size = 0
        try:
            with os.fdopen(handle, "wb") as file:
                async for chunk in chunks:
                    size += len(chunk)
                    if size <= MAX_UPLOAD_BYTES:
                        digest.update(chunk)
                        file.write(chunk)
                    elif size > MAX_UPLOAD_BYTES + _DRAINED_BYTES:
                        break
            if size > MAX_UPLOAD_BYTES:
                raise too_large(size)
        except BaseException:
            _remove(path)
            raise
        return Upload(digest.hexdigest()[:24], path, _plain_name(name), trace_format)

    def keep(self, upload: Upload) -> None:
        """Makes a trace known, once it was found to be one."""
        before = self._files.pop(upload.token, None)
        if before is not None:  # the same bytes; a run may be reading the older file
            _remove(upload.path)
            upload = replace(upload, path=before.path)
        self._files[upload.token] = upload
        if len(self._files) > _MAX_FILES:
            _, oldest = self._files.popitem(last=False)
            _remove(oldest.path)

    def drop(self, upload: Upload) -> None:
        """Removes a file that is no trace."""
        _remove(upload.path)

    def close(self) -> None:
        """Removes the folder."""
        if self._folder is not None:
            self._folder.cleanup()


def too_large(size: int) -> RefusedError:
    """The refusal of a body of that many bytes."""
    message = (
        f"the file has {size / 2**20:,.1f} MiB or more, the page takes at most {MAX_UPLOAD_BYTES // 2**20}. "
        "Cut it with `kvlab trace cut`, or run it with `kvlab run --trace FILE`"
    )
    return RefusedError(Refusal(status=TOO_LARGE, message=message, field="body", value=size, limit=MAX_UPLOAD_BYTES))


def _plain_name(name: str) -> str:
    """A file name without its folders and without what can't be printed."""
    last = re.split(r"[/\\]", name)[-1]
    shown = "".join(char for char in last if char.isprintable()).strip()[-_MAX_NAME:]
    return shown or "trace"


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        Path(path).unlink()

"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from kvlab.errors import OutputError

Writer = Callable[[BinaryIO], object]
"""Puts a file's bytes into a stream that is open for writing."""


def write_file(path: Path, write: Writer) -> Path:
    """Write one file; see `write_files`."""
    write_files({path: write})
    return path


def write_files(writers: Mapping[Path, Writer]) -> None:
    """Write several files beside their final names, then rename them all.

    A reader never sees half a file, and a failure leaves every earlier file as it was. A device or a pipe, such as
    /dev/stdout, can't be renamed over and is written straight away.

    Raises:
        OutputError: a directory stands there, permission or space is missing, or the folder doesn't exist.
    """
    with ExitStack() as stack:
        staged = [(stack.enter_context(_staged(path, write)), path) for path, write in writers.items()]
        for temporary, path in staged:
            if temporary is not None:
                with _explained(path):
                    os.replace(temporary, path.resolve())


def remove_file(path: Path) -> None:
    """Remove one file.

    Raises:
        OutputError: permission is missing.
    """
    with _explained(path):
        path.unlink()


@contextmanager
def new_directory(path: Path) -> Iterator[None]:
    """Make a directory and its parents if they are missing; remove what was made if the body fails.

    Raises:
        OutputError: it can't be made, or a file stands there.
    """
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    with _explained(path):
        if path.exists() and not path.is_dir():
            raise NotADirectoryError(20, "a file stands there; name a directory")
        path.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        for folder in missing:
            with suppress(OSError):
                folder.rmdir()
        raise


@contextmanager
def _staged(path: Path, write: Writer) -> Iterator[Path | None]:
    """The written temporary file, removed at the end if it's still there; None where `path` is no ordinary file."""
    with _explained(path):
        if path.is_dir():
            raise IsADirectoryError(21, "a directory stands there; name a file")
        if path.exists() and not path.is_file():
            with path.open("wb") as stream:
                write(stream)
            temporary = None
        else:
            target = path.resolve()  # a link stays one: what it points to is replaced
            temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    if temporary is None:
        yield None
        return
    try:
        with _explained(path):
            with temporary.open("xb") as stream:
                write(stream)
            if target.exists():
                temporary.chmod(target.stat().st_mode & 0o7777)
        yield temporary
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(f"{path}: can't be written: {error.strerror or error}") from error

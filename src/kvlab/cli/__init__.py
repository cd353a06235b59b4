"""The way into the command line, `kvlab.cli.program`, which is only imported once Ctrl-C can end it quietly."""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType
    from typing import Final, NoReturn

INTERRUPTED: Final = 130


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Runs the command line and exits. Errors are one line on stderr, never a traceback."""
    signal.signal(signal.SIGINT, _leave)  # an exception from the middle of an import is for nobody's eyes
    from kvlab.cli import program

    try:
        program.preload(sys.argv[1:] if argv is None else argv)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        code = program.execute(argv)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is said: what is left takes no time
    except KeyboardInterrupt:
        code = INTERRUPTED  # between two of these lines, or while an error was being told
    sys.exit(code)


def execute(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit code; Ctrl-C is left to the caller's handler."""
    from kvlab.cli import program

    return program.execute(argv)


def _leave(number: int, frame: FrameType | None) -> None:
    os._exit(INTERRUPTED)

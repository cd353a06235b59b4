"""The command line. Commands load when they are called; every error is one line and an exit code.

0  done       1  `verify` found a difference       2  an error in what was asked
130  interrupted (Ctrl-C)       141  the reader of a pipe went away
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

import click

from kvlab.cli import INTERRUPTED
from kvlab.errors import KvlabError

ERROR: Final = 2
BUG: Final = 70
PIPE_CLOSED: Final = 141

COMMANDS: Final = {
    "lab": "Open the labs in the browser.",
    "run": "Simulate a lab on drawn traffic or on a trace.",
    "compare": "Put runs side by side, with the change of every figure.",
    "advise": "The cheapest changes of settings that keep a service level.",
    "plan": "The largest rate, the most users or the least memory within a service level.",
    "crossover": "Swap or recompute: the context length and the bandwidth at which both cost the same.",
    "sweep": "Simulate every combination of settings, as one table.",
    "report": "Draw a sweep: heatmaps, curves, the Pareto front.",
    "capacity": "How many tokens and requests fit on a GPU, and where its memory goes.",
    "calibrate": "Fit how long a step lasts to your own measurements.",
    "explain": "Say what a metric or a setting means, and what engines call it.",
    "trace": "Describe, convert, cut, scale or make a request trace.",
    "verify": "Replay goldens with both engines, and show the first difference.",
    "validate": "Rebuild the page that compares kvlab with real servers.",
}
"""Name -> what it does. The command is the attribute of that name in `kvlab.cli.NAME`, but see `_ELSEWHERE`."""
_ELSEWHERE: Final = {"report": "sweep_report"}
"""Commands in a module of another name."""


class LazyGroup(click.Group):
    """A group whose help costs no import of its commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports the one command that is asked for."""
        if cmd_name not in COMMANDS:
            return None
        command = getattr(import_module(f"kvlab.cli.{_ELSEWHERE.get(cmd_name, cmd_name)}"), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Names the nearest command when there is none of that name."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from kvlab.errors import UnknownNameError

            raise UnknownNameError("command", args[0], COMMANDS)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """From the table alone."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _show_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        from kvlab.version import __version__

        click.echo(f"kvlab {__version__}")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version, help="Show it.")
def kvlab() -> None:
    """See how the KV cache of an LLM server fills, and what its scheduler does then.

    \b
    kvlab run preemption-lab
    kvlab run preemption-lab --max-num-seqs 48
    kvlab compare preemption-lab preemption-lab:max_num_seqs=48
    kvlab explain preemptions_per_1000
    """


def preload(args: Sequence[str]) -> None:
    """Imports the command that is asked for, if there is one of that name."""
    if args and args[0] in COMMANDS:
        import_module(f"kvlab.cli.{args[0]}")


def execute(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit code."""
    if sys.stdout is None:
        return _fail("standard output is closed: there is nowhere to write results")
    stdout = sys.stdout
    args = list(sys.argv[1:] if argv is None else argv)
    try:
        code = kvlab.main(args=args or ["--help"], prog_name="kvlab", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        return _fail(_usage(error))
    except KvlabError as error:
        return _fail(str(error))
    except (click.Abort, KeyboardInterrupt):
        return _fail("interrupted, without results", INTERRUPTED)
    except MemoryError:
        return _fail("out of memory. Take fewer requests, or leave out --out and --plot and use --no-chart")
    except BrokenPipeError:
        _silence_stdout()
        return PIPE_CLOSED
    except OSError as error:
        _silence_stdout()
        place = error.filename or "standard output"
        return _fail(f"can't write to {place}: {error.strerror or errno.errorcode.get(error.errno or 0, error)}")
    except SystemExit as exit_:
        if sys.stdout is not stdout:  # click puts another in its place when the reader has gone
            sys.stdout = stdout
            _silence_stdout()
            return PIPE_CLOSED
        return exit_.code if isinstance(exit_.code, int) else ERROR if exit_.code else 0
    except Exception as error:
        if os.environ.get("KVLAB_TRACEBACK"):
            raise
        kind = type(error).__name__
        return _fail(f"this is a bug in kvlab: {kind}: {error}. KVLAB_TRACEBACK=1 shows where", BUG)
    return code if isinstance(code, int) else 0


def _usage(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    hint = f" (see {context.command_path} --help)" if context is not None else ""
    return error.format_message() + hint


def _fail(message: str, code: int = ERROR) -> int:
    line = " ".join(message.split())
    shown = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in line)
    try:
        click.echo(f"kvlab: error: {shown}", err=True)
    except OSError:
        return code  # nobody can be told
    return code


def _silence_stdout() -> None:
    """What is still in the buffer can't be written: let the interpreter's last flush go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

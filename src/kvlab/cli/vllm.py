"""`--vllm` and `--vllm-log`: a server as its own command line or its own log has it, and what became of both."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from kvlab.cli.options import given_settings, scenario_from
from kvlab.cli.terminal import Terminal
from kvlab.errors import ConfigError
from kvlab.scenarios import ALIASES
from kvlab.setting_table import VLLM_V0, VLLM_V1

if TYPE_CHECKING:
    from kvlab.scenarios import Scenario
    from kvlab.vllm_flags import ParsedCommand, Said
    from kvlab.vllm_setup import Origins, Setup

_F = TypeVar("_F", bound=Callable[..., Any])
_LABEL_WIDTH: Final = 14


def vllm_options(function: _F) -> _F:
    """Adds both."""
    log = click.option("--vllm-log", metavar="FILE", help="Take settings and KV cache from vLLM's start-up log.")
    command = click.option("--vllm", metavar="COMMAND", help='Take settings from "vllm serve MODEL --flags ...".')
    return command(log(function))


def chosen(
    name: str | None, command: str | None, log: str | None, flags: dict[str, object], assignments: Sequence[str] = ()
) -> tuple[Scenario, Origins | None]:
    """The scenario that a preset, a file, a command or a log of vLLM stands for, with the settings that the user gave.

    Warnings of a log are told on stderr.

    Args:
        name: a preset or a file; beside a command or a log only the name of its rules.
    Returns:
        Also where the settings are from; None without a command or a log.
    Raises:
        KvlabError: no such scenario or setting, a value that can't work, or a command that can't be simulated.
        click.UsageError: none of the three.
    """
    if command is None and log is None:
        if name is None:
            raise click.UsageError("which scenario? Give a preset or a file, or --vllm COMMAND or --vllm-log FILE")
        return scenario_from(name, flags, assignments), None
    made = _setup(name, command, log, given_settings(flags, assignments))
    warn(made.origins.warnings)
    return made.scenario, made.origins


def _setup(name: str | None, command: str | None, log: str | None, given: dict[str, object]) -> Setup:
    rules = VLLM_V1 if name is None else ALIASES.get(name, name)
    if rules not in (VLLM_V1, VLLM_V0):
        flag = "--vllm" if command is not None else "--vllm-log"
        remedy = f"is a server with the rules of {VLLM_V1}, or of {VLLM_V0}: leave {name} out"
        raise ConfigError(flag, command or log, remedy)
    from kvlab.vllm_setup import setup

    return setup(sources(command, log, rules), given, rules)


def sources(command: str | None, log: str | None, rules: str = VLLM_V1) -> list[ParsedCommand]:
    """What was read, the log last: it tells what the engine did, not what it was asked for.

    Args:
        rules: vllm-v1, or vllm-v0 for the engine before it.
    Raises:
        ConfigError: no command that starts a server, or flags that can't be simulated.
        LogError: the log can't be read, or isn't one.
    """
    found = []
    if command is not None:
        from kvlab.vllm_flags import parse_command

        found.append(parse_command(command, rules))
    if log is not None:
        from kvlab.vllm_log import read_log

        found.append(read_log(log, rules))
    return found


def warn(texts: Sequence[str]) -> None:
    """On stderr: what in a log doesn't fit together."""
    for text in texts:
        click.echo(f"kvlab: warning: {text}", err=True)


def origin_lines(made: Origins, terminal: Terminal) -> list[str]:
    """What was read, left out and assumed, as lines of a page."""
    mapped = ", ".join(f"{each.setting} {each.value}{_line(each.flag)}" for each in made.mapped)
    parts = [("Read", mapped)] if mapped else []
    parts += [("Noted", "; ".join(f"{said.flag}: {said.why}" for said in made.noted))] if made.noted else []
    parts += [("Ignored", _by_reason(made.ignored))] if made.ignored else []
    assumed: dict[str, list[str]] = {}
    for each in made.assumed:
        assumed.setdefault(each.why, []).append(f"{each.setting} {each.value}")
    if assumed:
        parts.append(("Assumed", "; ".join(f"{', '.join(names)} ({why})" for why, names in assumed.items())))
    return [line for label, text in parts for line in _entry(label, text, terminal)]


def _line(shown: str) -> str:
    """Of a log: the line that a setting is from."""
    line, colon, _ = shown.partition(":")
    return f" ({line})" if colon and line.startswith("line ") else ""


def _by_reason(ignored: Sequence[Said]) -> str:
    reasons: dict[str, list[str]] = {}
    for said in ignored:
        reasons.setdefault(said.why, []).append(said.flag)
    return "; ".join(f"{', '.join(dict.fromkeys(flags))} ({why})" for why, flags in reasons.items())


def _entry(label: str, text: str, terminal: Terminal) -> list[str]:
    wrapped = textwrap.wrap(text, terminal.width - _LABEL_WIDTH, break_on_hyphens=False)
    return [f"{label if i == 0 else '':<{_LABEL_WIDTH}}{line}" for i, line in enumerate(wrapped)]


def command_lines(scenario: Scenario, terminal: Terminal) -> list[str]:
    """`vllm serve ...` for the scenario's server, ready to be pasted; nothing for a lab, which is no server."""
    from kvlab.servers import VllmServer
    from kvlab.vllm_print import serve_words

    if not isinstance(scenario.server, VllmServer):
        return []
    lines = [""]
    for word in serve_words(scenario.server):
        if lines[-1] and len(lines[-1]) + len(word) + 3 > terminal.width:
            lines[-1] += " \\"
            lines.append(f"  {word}")
        else:
            lines[-1] = f"{lines[-1]} {word}".lstrip() if len(lines) == 1 else f"{lines[-1]} {word}"
    return [terminal.style("The same server in vLLM:", "dim"), *lines]


def step_time_line(scenario: Scenario) -> str | None:
    """Where the durations of a server's steps are from, as a line of a page; None where settings give them."""
    from kvlab.timing import step_time_notes

    notes = step_time_notes(scenario)
    return f"Step times: {'; '.join(notes)}." if notes else None

"""Options that every command with a scenario has: one flag per setting, and `--set FIELD=VALUE` for the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import click

from kvlab.errors import ConfigError
from kvlab.scenarios import Scenario, load
from kvlab.setting_table import RULES, SETTINGS
from kvlab.settings import SWITCH, Setting

_F = TypeVar("_F", bound=Callable[..., Any])
_EVENTS: Final = {flag: s for s in SETTINGS.values() if s.bare is not None for flag in (s.flag, *s.aliases)}


class SettingOption(click.Option):
    """The flag of one setting."""

    def __init__(self, *args: Any, setting: Setting, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.setting = setting


class ScenarioCommand(click.Command):
    """A command with one flag per setting: help in sections, and events that need no value (`--burst`)."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Gives bare events their value before click takes the next word for it."""
        return super().parse_args(ctx, [_with_value(arg, args[i + 1 : i + 2]) for i, arg in enumerate(args)])

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The command's own options first, then settings by group."""
        sections: dict[str, list[tuple[str, str]]] = {"Options": []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                title = _section(param.setting) if isinstance(param, SettingOption) else "Options"
                sections.setdefault(title, []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


def _with_value(arg: str, following: Sequence[str]) -> str:
    setting = _EVENTS.get(arg)
    if setting is None or (following and following[0][:1].isdigit()):
        return arg
    return f"{arg}={setting.bare}"


def _section(setting: Setting) -> str:
    if setting.group == "server":
        return "Server" if setting.rules == RULES else f"Server of the {setting.rules}"
    if setting.name.startswith("trace"):
        return "Traffic from a trace"
    return "Traffic" if setting.group == "traffic" else "Service level"


def setting_options(function: _F) -> _F:
    """Adds the flags of all settings, and `--set`."""
    for setting in reversed(SETTINGS.values()):
        function = click.option(
            *_flags(setting),
            cls=SettingOption,
            setting=setting,
            default=None,
            metavar=setting.kind.word or None,
            help=_help(setting),
        )(function)
    return set_option(function)


def set_option(function: _F) -> _F:
    """Adds `--set FIELD=VALUE` alone."""
    help_text = "Set any setting by its name; may be given again."
    return click.option("--set", "assignments", multiple=True, metavar="FIELD=VALUE", help=help_text)(function)


def _flags(setting: Setting) -> list[str]:
    if setting.kind is SWITCH:
        return [f"{setting.flag}/--no-{setting.flag[2:]}", setting.name]
    return [setting.flag, *setting.aliases, setting.name]


def _help(setting: Setting) -> str:
    unit = setting.unit or setting.kind.unit
    text = setting.help + (f" [{unit}]" if unit else "")
    return text if setting.bare is None else f"{text} Without a value: {setting.bare}."


def parse_assignments(assignments: Sequence[str]) -> dict[str, object]:
    """Settings from "FIELD=VALUE" texts; a field may have hyphens, as its flag has.

    Raises:
        ConfigError: no "=", or a field given twice.
    """
    values: dict[str, object] = {}
    for text in assignments:
        field, equals, value = text.partition("=")
        name = field.strip().replace("-", "_")
        if not equals or not name:
            raise ConfigError("--set", text, "expected FIELD=VALUE, such as max_num_seqs=48")
        if name in values:
            raise ConfigError(name, value, "is given twice")
        values[name] = value.strip()
    return values


def scenario_from(name_or_path: str, flags: dict[str, object], assignments: Sequence[str] = ()) -> Scenario:
    """The named scenario with the settings that the user gave.

    Raises:
        KvlabError: no such scenario or setting, or a value that can't work.
    """
    values = {name: value for name, value in flags.items() if value is not None}
    for name, value in parse_assignments(assignments).items():
        if name in values:
            raise ConfigError(name, str(value), "is given twice, as a flag and by --set")
        values[name] = value
    return load(name_or_path).replace(**values)

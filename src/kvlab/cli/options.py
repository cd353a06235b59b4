"""Options that every command with a scenario has: one flag per setting, and `--set FIELD=VALUE` for the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import click

from kvlab.errors import ConfigError
from kvlab.scenarios import Scenario, load
from kvlab.setting_table import RULES, SETTINGS
from kvlab.settings import SWITCH, Setting
from kvlab.slo_text import parse_slo

_F = TypeVar("_F", bound=Callable[..., Any])
_BARE: Final = re.compile(r"[<=≤]\s*[\d.]+\s*(,|\Z)")
_EVENTS: Final = {flag: s for s in SETTINGS.values() if s.bare is not None for flag in (s.flag, *s.aliases)}
_OWN: Final = "Options"
_TRAFFIC: Final = "Traffic"
_TRACE: Final = "Traffic from a trace"
_SLO: Final = "Service level"
_VALUES: Final = {
    "SIZE": "4GiB, 512MiB, 16GB; a bare number is bytes",
    "TIME": "1.5s, 25ms, 300us, 2min; a bare number is nanoseconds",
    "RATIO": '0.92 or "92 %"',
    "LENGTHS": '512, "uniform(200, 1500)", "exponential(250, max=1500)", "lognormal(p50=600, p95=3000)", '
    '"histogram(100:5, 200:3)", "empirical(FILE, COLUMN)"',
}


class SettingOption(click.Option):
    """The flag of one setting."""

    def __init__(self, *args: Any, setting: Setting, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.setting = setting


class OnceCommand(click.Command):
    """A command whose options have one value each."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuses contradictions before click takes the last of them."""
        self._refuse_contradictions(ctx, args)
        return super().parse_args(ctx, args)

    def _refuse_contradictions(self, ctx: click.Context, args: Sequence[str]) -> None:
        """Of an option that is given twice with different values, click would silently take the last."""
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option) and not param.multiple]
        by_flag = {flag: option for option in options for flag in (*option.opts, *option.secondary_opts)}
        given: dict[str | None, tuple[str, str]] = {}
        words = iter(args)
        for word in words:
            flag, equals, value = word.partition("=")
            option = by_flag.get(flag)
            if option is None:
                continue
            if option.is_flag:
                value = "off" if flag in option.secondary_opts else "on"
            elif not equals:
                value = next(words, "")
            shown = flag if option.is_flag else f"{flag} {value}"
            before, before_shown = given.setdefault(option.name, (value, shown))
            if value != before:
                raise ConfigError(str(option.name), value, f"is given twice, as {before_shown} and as {shown}")


class ScenarioCommand(OnceCommand):
    """A command with one flag per setting: help in sections, and events that need no value (`--burst`)."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Gives bare events their value before click takes the next word for it."""
        return super().parse_args(ctx, [_with_value(arg, args[i + 1 : i + 2]) for i, arg in enumerate(args)])

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The command's own options first, then settings by group."""
        sections: dict[str, list[tuple[str, str]]] = {title: [] for title in _sections()}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and isinstance(param, click.Option):
                title = _section(param.setting) if isinstance(param, SettingOption) else _OWN
                sections[title].append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """How values are written."""
        with formatter.section("Values"):
            formatter.write_dl(list(_VALUES.items()))


def _with_value(arg: str, following: Sequence[str]) -> str:
    setting = _EVENTS.get(arg)
    if setting is None or (following and following[0][:1].isdigit()):
        return arg
    return f"{arg}={setting.bare}"


def _sections() -> tuple[str, ...]:
    """Titles in order; of the server, first what all rules have, then what fewer and fewer have."""
    combinations = dict.fromkeys(s.rules for s in SETTINGS.values() if s.group == "server")
    server = sorted(combinations, key=lambda rules: (-len(rules), [RULES.index(name) for name in rules]))
    return (_OWN, *map(_of_server, server), _TRAFFIC, _TRACE, _SLO)


def _of_server(rules: tuple[str, ...]) -> str:
    *others, last = rules
    names = f"{', '.join(others)} and {last}" if others else last
    return "Server" if rules == RULES else f"Server, {names} only"


def _section(setting: Setting) -> str:
    if setting.group == "server":
        return _of_server(setting.rules)
    if setting.group == "slo":
        return _SLO
    return _TRACE if setting.name.startswith("trace") else _TRAFFIC


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
    text = setting.help + (f" [{setting.unit}]" if setting.unit else "")
    return text if setting.bare is None else f"{text} Without a value: {setting.bare}."


def good_option(function: _F) -> _F:
    """Adds `--good`: the scenario's own slo, where `--slo` limits the whole run."""
    text = 'What a good request meets, for goals on goodput: "ttft<=2s, tpot<=60ms".'
    return click.option("--good", metavar="LIMITS", help=text)(function)


def take_slo(flags: dict[str, Any], good: str | None) -> str:
    """The limits on a whole run that `kvlab advise` and `kvlab plan` need; the settings get those of `--good`.

    Raises:
        ConfigError: none were given, or what is good is no list of limits, or lacks units: a bare number would be
            nanoseconds.
    """
    slo = flags["slo"]
    if slo is None:
        raise ConfigError("slo", None, 'is missing: what must hold? Such as --slo "gap_p99<=150ms, ttft_p95<=2s"')
    if good is not None:
        if _BARE.search(good):
            raise ConfigError("good", good, 'needs units, such as "ttft<=2s, tpot<=60ms"')
        try:
            parse_slo(good)
        except ConfigError as error:
            raise ConfigError("good", good, error.remedy) from None
    flags["slo"] = good
    return str(slo)


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


def given_settings(flags: dict[str, object], assignments: Sequence[str] = ()) -> dict[str, object]:
    """The settings that the user gave, as flags and by `--set`.

    Raises:
        ConfigError: one is given twice.
    """
    values = {name: value for name, value in flags.items() if value is not None}
    for name, value in parse_assignments(assignments).items():
        if name in values:
            raise ConfigError(name, str(value), "is given twice, as a flag and by --set")
        values[name] = value
    return values


def scenario_from(name_or_path: str, flags: dict[str, object], assignments: Sequence[str] = ()) -> Scenario:
    """The named scenario with the settings that the user gave.

    Raises:
        KvlabError: no such scenario or setting, or a value that can't work.
    """
    return load(name_or_path).replace(**given_settings(flags, assignments))

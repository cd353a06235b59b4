"""Everything that kvlab raises on purpose.

    KvlabError
    ├── ConfigError             a setting has a value that can't work: names field, value, remedy
    │   ├── UnknownNameError    a field, policy, preset or metric that doesn't exist: names the nearest one
    │   └── VllmCommandError    a pasted command has flags that can't be simulated: names all, with reasons and remedies
    ├── ScenarioError           a scenario file or document that can't be read
    ├── InputError              a row or file of a user that can't be used: names file, line, field, value
    │   ├── TraceError          of a trace
    │   ├── LogError            of a start-up log of vLLM
    │   └── MeasurementError    of measured step times, which `kvlab calibrate` reads
    ├── GoldenError             a golden file that can't be read
    └── OutputError             a result that can't be written

Messages say what, how much, the limit and what to do. They are for people: programs read the attributes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

_LISTED = 12
"""The longest list of known names that a message spells out."""


class KvlabError(Exception):
    """Base of every error that a user's input or environment can cause."""


class ConfigError(KvlabError):
    """A setting has a value that can't work.

    Attributes:
        field: name of the setting, as in scenario JSON.
        value: what was given.
        remedy: what to do, or what would be accepted.
    """

    def __init__(self, field: str, value: object, remedy: str) -> None:
        super().__init__(f"{field} = {_shown(value)}: {remedy}")
        self.field = field
        self.value = value
        self.remedy = remedy


class UnknownNameError(ConfigError):
    """A name that isn't known; the message gives the nearest that is."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        names = list(known)
        alike = {known_name.replace("-", "_"): known_name for known_name in names}
        near = [alike[match] for match in get_close_matches(name.replace("-", "_"), alike, n=5, cutoff=0.5)]
        hint = f'did you mean "{near[0]}"? ' if near else ""
        if len(names) <= _LISTED:
            remedy = f"{hint}Known: {', '.join(names)}"
        else:
            remedy = f"{hint}Near: {', '.join(near)}" if near else f"none of the {len(names)} known names is near"
        super().__init__(kind, name, remedy)
        self.args = (f"unknown {kind} {_shown(name)}: {remedy}",)
        self.nearest = near[0] if near else None


@dataclass(frozen=True, slots=True)
class Problem:
    """One flag of a pasted command that can't be simulated."""

    flag: str
    """As the command has it."""
    why: str
    remedy: str

    def __str__(self) -> str:
        return f"{_shown(self.flag, quoted=False)}: {self.why}; {self.remedy}"


class VllmCommandError(ConfigError):
    """A pasted command, or the start that a log tells of, has flags that can't be simulated.

    Attributes:
        problems: one per flag, in the order of the command.
    """

    def __init__(self, problems: Sequence[Problem], where: str = "--vllm") -> None:
        first = problems[0]
        super().__init__(where, first.flag, f"{first.why}; {first.remedy}")
        self.problems = tuple(problems)
        sentences = (text if (text := str(problem)).endswith("?") else f"{text}." for problem in problems)
        self.args = (f"{where}: {' '.join(sentences)}",)


class ScenarioError(KvlabError):
    """A scenario document that can't be read: not JSON, the wrong version, the wrong shape."""


class InputError(KvlabError):
    """A file of rows that can't be used.

    Attributes:
        path: the file as the user named it.
        line: 1-based line (or row of a binary table), or None when the whole file is meant.
        field: the column, or None.
        value: what stood there, or None.
    """

    def __init__(
        self,
        path: str,
        problem: str,
        *,
        line: int | None = None,
        field: str | None = None,
        value: object = None,
    ) -> None:
        place = path if line is None else f"{path}, line {line}"
        what = "" if field is None else f"{field} = {_shown(value)}: "
        super().__init__(f"{place}: {what}{problem}")
        self.path = path
        self.line = line
        self.field = field
        self.value = value


class TraceError(InputError):
    """A trace that can't be used."""


class LogError(InputError):
    """A start-up log of vLLM that can't be used."""


class MeasurementError(InputError):
    """Measured step times that can't be used."""


class GoldenError(KvlabError):
    """A golden file that can't be read or isn't one."""


class OutputError(KvlabError):
    """A result that can't be written: names the path and the reason."""


def _shown(value: object, limit: int = 60, *, quoted: bool = True) -> str:
    """The value as a reader recognises it, cut where it is long."""
    text = f'"{value}"' if isinstance(value, str) and quoted else str(value)
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text):,} characters)"

"""A pasted `vllm serve` command as settings of kvlab, and a server's settings as flags.

    parse_command("vllm serve Qwen/Qwen2.5-7B-Instruct --max-num-seqs 128 --port 8000").settings
    # {"model": "Qwen/Qwen2.5-7B-Instruct", "max_num_seqs": 128}

The flags are in `kvlab.vllm_flag_table`; the shell around them is taken off by `kvlab.vllm_words`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final

from kvlab.errors import ConfigError, Problem, VllmCommandError
from kvlab.setting_table import SETTINGS, VLLM_V0, VLLM_V1
from kvlab.vllm_flag_table import FLAGS, FLAGS_OF_V0, SHORTS, Flag
from kvlab.vllm_words import server_words

_NUMBER: Final = re.compile(r"-\d+(\.\d+)?\Z")
_NAME: Final = re.compile(r"(?:line \d+: )?[^ =]+")
_LEVEL: Final = re.compile(r"-O(\d+)\Z")
_ON: Final = ("true", "1", "yes", "on")
_OFF: Final = ("false", "0", "no", "off")
_BEFORE_V1: Final = (0, 8)
"""Versions before this one start the engine before V1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A flag that became a setting."""

    flag: str
    """As the command has it, with its value."""
    setting: str
    value: str
    """As kvlab shows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A flag that became none, and why that is right or what it leaves out."""

    flag: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedCommand:
    """What a command line means.

    Attributes:
        settings: value of each setting that the command sets, as `Scenario.replace` takes them.
        mapped: the same, flag by flag.
        noted: flags that change something which isn't simulated.
        ignored: flags that change nothing here.
        warnings: of a log: what in it doesn't fit together.
    """

    settings: dict[str, object] = field(default_factory=dict)
    mapped: tuple[Taken, ...] = ()
    noted: tuple[Said, ...] = ()
    ignored: tuple[Said, ...] = ()
    warnings: tuple[str, ...] = ()


def parse_command(text: str, rules: str = VLLM_V1) -> ParsedCommand:
    """The settings that a command line means.

    >>> parse_command("vllm serve Qwen/Qwen3-8B -tp 2 --max-model-len 8k").settings
    {'model': 'Qwen/Qwen3-8B', 'tensor_parallel_size': 2, 'max_model_len': 8000}

    Args:
        rules: vllm-v1, or vllm-v0 for the engine before it.
    Raises:
        ConfigError: no command that starts a server.
        VllmCommandError: flags that would change the answer, or aren't known, or have a value that can't work; all
            of them, each with its reason and its remedy.
    """
    found = server_words(text)
    reader = FlagReader(rules)
    for assignment in found.environment:
        reader.environment(assignment)
    if found.engine_version is not None:
        reader.version(found.engine_version)
    reader.read(found.words)
    return reader.result()


class FlagReader:
    """Goes through the words once and keeps what each flag became."""

    def __init__(self, rules: str = VLLM_V1) -> None:
        self.rules = rules
        self.settings: dict[str, object] = {}
        self.mapped: dict[str, Taken] = {}
        self.noted: list[Said] = []
        self.ignored: list[Said] = []
        self.problems: list[Problem] = []

    def result(self, warnings: Sequence[str] = (), *, where: str = "--vllm") -> ParsedCommand:
        """What was read.

        Args:
            where: what to call it in messages.
        Raises:
            VllmCommandError: some of it can't be simulated.
        """
        if self.problems:
            raise VllmCommandError(self.problems, where)
        return ParsedCommand(
            settings=dict(self.settings),
            mapped=tuple(self.mapped.values()),
            noted=tuple(self.noted),
            ignored=tuple(self.ignored),
            warnings=tuple(warnings),
        )

    def read(self, words: Sequence[str]) -> None:
        """All words of the server."""
        number = 0
        while number < len(words):
            word = words[number]
            if _LEVEL.match(word):
                self.take(FLAGS["--optimization-level"], word, word[2:], off=False)
                number += 1
            elif word.startswith("-") and not _NUMBER.match(word):
                number += 1 + self._flag(word, words[number + 1 :])
            else:
                self._model(word)
                number += 1

    def find(self, name: str) -> Flag | None:
        """The row of a flag under the rules; None: it isn't known."""
        special = FLAGS_OF_V0 if self.rules == VLLM_V0 else {}
        return special.get(name, FLAGS.get(name))

    def environment(self, assignment: str) -> None:
        """A variable of the environment."""
        name, _, value = assignment.partition("=")
        if name == "VLLM_USE_V1" and value == "0" and self.rules == VLLM_V1:
            remedy = f"leave it out, or take the rules of {VLLM_V0}"
            self.problems.append(Problem(assignment, "the engine before V1 has other rules", remedy))
        else:
            self.ignored.append(Said(flag=name, why="a variable of the environment"))

    def version(self, version: str) -> None:
        """The version that the image's name has."""
        self.set("engine_version", version, f"image {version}")
        if self.rules == VLLM_V1 and tuple(int(part) for part in version.split(".")[:2]) < _BEFORE_V1:
            why = f"it starts the engine before V1, whose rules {VLLM_V0} has; the rules here are those of V1"
            self.noted.append(Said(flag=f"image {version}", why=why))

    def _model(self, word: str) -> None:
        if self.settings.get("model", word) == word:
            self.set("model", word, word)
        else:
            self.problems.append(Problem(word, "belongs to no flag", "put quotes around a value with spaces"))

    def _flag(self, word: str, following: Sequence[str]) -> int:
        """Reads one flag; the number of words after it that are its own."""
        given, equals, value = word.partition("=")
        flag, off = _find(given)
        if flag is None:
            self.problems.append(_unknown(given))
            return _count_values(following)
        if flag.takes == "switch" and "." not in given:
            used = 0
            if not equals and following[:1] and following[0].lower() in ("true", "false"):
                value, used = following[0], 1
            if value and value.lower() not in (*_ON, *_OFF):
                self.problems.append(Problem(word, "takes no value", f"write {given}"))
            else:
                self.take(flag, word, "", off=off != (value.lower() in _OFF))
            return used
        used = 0
        if not equals:
            used = _count_values(following) if flag.takes == "words" else min(1, _count_values(following))
            if used == 0 and flag.takes in ("value", "words"):
                self.problems.append(Problem(word, "needs a value", f"write {given} VALUE"))
                return 0
            value = " ".join(following[:used])
        shown = f"{given} {value}".rstrip()
        self.take(flag, shown, value, off=False)
        return used

    def take(self, flag: Flag, shown: str, value: str, *, off: bool) -> None:
        """Does with one flag what the table says.

        Args:
            shown: the flag as it was given.
            off: of a switch: its --no- form.
        """
        flag = self.find(flag.name) or flag
        if flag.fate == "mapped":
            self._map(flag, shown, value, off=off)
        elif flag.fate == "ignored":
            # without its value, which may be a secret
            self.ignored.append(Said(flag=_NAME.findall(shown)[0], why=flag.why))
        elif off or flag.changes_nothing(value):
            self.ignored.append(Said(flag=shown, why="as without it"))
        elif flag.fate == "noted":
            self.noted.append(Said(flag=shown, why=flag.why))
        else:
            self.problems.append(Problem(shown, flag.why, flag.remedy))

    def _map(self, flag: Flag, shown: str, value: str, *, off: bool) -> None:
        assert flag.setting is not None
        if flag.takes == "switch":
            self.set(flag.setting, "off" if off else "on", shown)
            if flag.why and not off:
                self.noted.append(Said(flag=shown, why=flag.why))
            return
        reading = flag.read(value)
        if reading.refused is not None:
            self.problems.append(Problem(shown, *reading.refused))
        elif reading.value is None:
            self.ignored.append(Said(flag=shown, why=str(reading.ignored)))
        elif flag.name != "--dtype" or not any(taken.flag.startswith(("--q", "-q")) for taken in self.mapped.values()):
            self.set(flag.setting, reading.value, shown)  # a quantisation says more than the dtype beside it

    def set(self, name: str, text: str, shown: str) -> None:
        """Sets one setting.

        Args:
            shown: where the value is from.
        """
        setting = SETTINGS[name]
        try:
            value = setting.parse(text)
        except ConfigError as error:
            self.problems.append(Problem(shown, "has a value that can't work", error.remedy))
            return
        before = self.mapped.get(name)
        if before is not None and before.value != setting.show(value) and name != "weight_dtype":
            self.noted.append(Said(flag=before.flag, why=f"given again: {shown} holds, as in vLLM"))
        self.settings[name] = value
        self.mapped[name] = Taken(flag=shown, setting=name, value=setting.show(value))


def _find(given: str) -> tuple[Flag | None, bool]:
    """The flag of that name, and whether it is its --no- form; an abbreviation that means one flag will do."""
    if not given.startswith("--"):
        return SHORTS.get(given.split(".")[0]), False
    name = given.split(".")[0].replace("_", "-")
    for wanted, off in ((name, False), ("--" + name.removeprefix("--no-"), True)):
        if off and not name.startswith("--no-"):
            break
        flag = FLAGS.get(wanted)
        if flag is None:
            near = [flag for known, flag in FLAGS.items() if known.startswith(wanted)]
            flag = near[0] if len(near) == 1 else None
        if flag is not None and (not off or flag.takes == "switch"):
            return flag, off
    return None, False


def _unknown(given: str) -> Problem:
    name = given.replace("_", "-")
    begun = [flag for flag in FLAGS if flag.startswith(name)] if len(name) > 2 else []
    near = begun[:3] or get_close_matches(name, [*FLAGS, *SHORTS], n=1, cutoff=0.6)
    remedy = f"did you mean {' or '.join(near)}?" if near else "leave it out if it changes neither memory nor steps"
    return Problem(given, "is not known", remedy)


def _count_values(words: Sequence[str]) -> int:
    """How many words come before the next flag."""
    for number, word in enumerate(words):
        if word.startswith("-") and not _NUMBER.match(word):
            return number
    return len(words)

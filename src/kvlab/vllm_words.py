"""The words of a pasted command line: which of them are vLLM's, without shell, environment, container and Python."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kvlab.errors import ConfigError

MAX_COMMAND: Final = 16_384
"""Longest command line that is read, in characters."""
EXAMPLE: Final = 'expected a command such as "vllm serve Qwen/Qwen2.5-7B-Instruct --max-num-seqs 128"'
_OPERATORS: Final = re.compile(r"[;&|<>()]+\Z")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_CONTINUED: Final = re.compile(r"\\[ \t]*\r?\n")
_COMMENT_LINE: Final = re.compile(r"(?m)^\s*#.*$")
_JSON_LIST: Final = re.compile(r"\s*\[\s*\"")
_YAML_LIST: Final = re.compile(r"(?m)^\s*- +[\"']?--\w")
_YAML_ITEM: Final = re.compile(r"(?m)^\s*- +")
_STREAM_NUMBER: Final = re.compile(r"(?<!\S)[12](?=>)")
_LONG_DASH: Final = re.compile(r"(?<!\S)[\u2013\u2014]+-?(?=\w)")
_IMAGE_VERSION: Final = re.compile(r"vllm[\w.-]*:v?(\d+\.\d+(?:\.\d+)*)")
_CONTAINERS: Final = ("docker", "podman", "nerdctl")
_CONTAINER_SWITCHES: Final = ("--detach", "--rm", "--init", "--privileged", "--read-only", "--publish-all",
                              "--interactive", "--tty", "--no-healthcheck", "--oom-kill-disable")  # fmt: skip
_SERVERS: Final = ("vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerWords:
    """What a command line gives the server."""

    words: tuple[str, ...]
    """Flags and the model, as the server reads them."""
    environment: tuple[str, ...] = ()
    """NAME=VALUE."""
    engine_version: str | None = None
    """Of the container's image."""


def server_words(text: str) -> ServerWords:
    """The server's part of a command line as people paste it.

    >>> server_words("CUDA_VISIBLE_DEVICES=0 vllm serve a/b --port 80 > log 2>&1 &").words
    ('a/b', '--port', '80')

    Raises:
        ConfigError: too long, a quote that never ends, or no server is started.
    """
    if len(text) > MAX_COMMAND:
        raise ConfigError("--vllm", text, f"at most {MAX_COMMAND:,} characters")
    for words in _commands(text):
        environment, rest = _environment(words)
        found = _of_container(rest) or _of_server(rest)
        if found is not None:
            return ServerWords(
                words=found.words,
                environment=(*environment, *found.environment),
                engine_version=found.engine_version,
            )
    raise ConfigError("--vllm", text, EXAMPLE)


def _commands(text: str) -> list[list[str]]:
    """Words of each command between the shell's operators; a list of a manifest is one command."""
    if _JSON_LIST.match(text):
        try:
            words = json.loads(text)
        except ValueError:
            words = None
        if isinstance(words, list):
            return [[str(word) for word in words]]
    if _YAML_LIST.search(text):
        text = _YAML_ITEM.sub("", text)
    text = _STREAM_NUMBER.sub("", _CONTINUED.sub(" ", _COMMENT_LINE.sub("", text)))
    lexer = shlex.shlex(_LONG_DASH.sub("--", text), posix=True, punctuation_chars=";&|<>()")
    lexer.whitespace_split = True
    lexer.commenters = ""
    commands: list[list[str]] = [[]]
    try:
        for word in lexer:
            if _OPERATORS.match(word):
                commands.append([])
            else:
                commands[-1].append(word)
    except ValueError as error:
        raise ConfigError("--vllm", text, f"{str(error).lower()}: a quote is opened and never closed") from None
    return [words for words in commands if words]


def _environment(words: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
    """NAME=VALUE in front, past prompts and commands that run another one."""
    environment: list[str] = []
    for number, word in enumerate(words):
        if _ASSIGNMENT.match(word):
            environment.append(word)
        elif word not in ("$", "#", "%", "sudo", "nohup", "exec", "env", "export", "time"):
            return tuple(environment), list(words[number:])
    return tuple(environment), []


def _of_server(words: Sequence[str]) -> ServerWords | None:
    for number, word in enumerate(words):
        if word in _SERVERS:
            return ServerWords(words=tuple(words[number + 1 :]))
        if word == "serve" and number and words[number - 1].split("/")[-1] in ("vllm", "vllm.entrypoints.cli.main"):
            return ServerWords(words=tuple(words[number + 1 :]))
    return ServerWords(words=tuple(words)) if words and words[0].startswith("-") else None  # flags alone


def _of_container(words: Sequence[str]) -> ServerWords | None:
    if len(words) < 2 or words[0] not in _CONTAINERS or words[1] not in ("run", "create"):
        return None
    environment: list[str] = []
    number = 2
    while number < len(words) and words[number].startswith("-"):
        name, equals, value = words[number].partition("=")
        if name in _CONTAINER_SWITCHES or re.fullmatch("-[ditP]+", name):
            number += 1
            continue
        value = value if equals else " ".join(words[number + 1 : number + 2])
        if name in ("-e", "--env") and "=" in value:
            environment.append(value)
        number += 1 if equals else 2
    if number >= len(words):
        return None
    version = _IMAGE_VERSION.search(words[number])
    rest = words[number + 1 :]
    inner = _of_server(rest)
    if inner is None:  # what the image starts is the server
        inner = ServerWords(words=tuple(rest[1:] if rest[:1] == ["serve"] else rest))
    return ServerWords(
        words=inner.words,
        environment=tuple(environment),
        engine_version=None if version is None else version[1],
    )

"""A start-up log of vLLM as settings: what it was started with, and how many blocks of KV cache it found room for.

Lines were taken from logs of vLLM 0.6 to 0.26. A log may hold several starts: the last one is read. Figures of
`/metrics` (`vllm:cache_config_info`) are read, too, where the file has them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final

from kvlab.errors import LogError
from kvlab.setting_table import VLLM_V0, VLLM_V1
from kvlab.units import ceil_div
from kvlab.vllm_flag_table import FLAGS
from kvlab.vllm_flags import FlagReader, ParsedCommand, Said

MAX_BYTES: Final = 32 * 2**20
"""Of a log, so many from its beginning are read."""
MAX_LINE: Final = 2**18
"""Longest line that is read whole, in bytes."""
_APART: Final = Fraction(1, 20)
"""Two figures that should be the same differ by more than this: a warning."""
_USUAL_BLOCK: Final = 16
_BEFORE_V1: Final = (0, 8)

_START: Final = re.compile(r"vLLM API server version (\S+)")
_BANNER: Final = re.compile(r"\bversion (\d+\.\d+\S*)\s*$")
_ENGINE: Final = re.compile(r"Initializing an? (V[01] )?LLM engine \(v([^)\s]+)\) with config: (.*)")
_ARGUMENTS: Final = re.compile(r"non-default args: (\{.*\})")
_NAMESPACE: Final = re.compile(r"args: (Namespace\(.*\))")
_OBJECT: Final = re.compile(r"<[^<>]*>")
_BLOCKS: Final = re.compile(r"# (?:GPU|cuda|CUDA) blocks: ([\d,]+)|num_gpu_blocks(?: is: |=\")([\d,]+)")
_TOKENS: Final = re.compile(r"GPU KV cache size: ([\d,]+) tokens")
_MOST: Final = re.compile(r"Maximum concurrency for ([\d,]+) tokens per request: ([\d,]+(?:\.\d+)?)x")
_METRIC_TOKENS: Final = re.compile(r"kv_cache_size_tokens[=:\"\s]+([\d,]+)")
_METRIC_MOST: Final = re.compile(r"kv_cache_max_concurrency[=:\"\s]+(\d+(?:\.\d+)?)")
_METRIC_BLOCK: Final = re.compile(r"(?<![\w])block_size=\"(\d+)\"")
_BUDGET: Final = re.compile(r"Chunked prefill is enabled with max_num_batched_tokens=(\d+)")
_LENGTH: Final = re.compile(r"Using max model len (\d+)")
_AVAILABLE: Final = re.compile(
    r"Available KV cache memory: (\d+(?:\.\d+)?) GiB"
    r"|the rest of the memory reserved for KV Cache is (\d+(?:\.\d+)?)\s?GiB"
)
_CONFIG: Final = {
    "model": (re.compile(r"model='([^']+)'"), "--model"),
    "max_seq_len": (re.compile(r"max_seq_len=(\d+)"), "--max-model-len"),
    "tensor_parallel_size": (re.compile(r"tensor_parallel_size=(\d+)"), "--tensor-parallel-size"),
    "pipeline_parallel_size": (re.compile(r"pipeline_parallel_size=(\d+)"), "--pipeline-parallel-size"),
    "data_parallel_size": (re.compile(r"data_parallel_size=([2-9]|\d{2,})"), "--data-parallel-size"),
    "quantization": (re.compile(r"quantization=([\w.-]+)"), "--quantization"),
    "dtype": (re.compile(r"\bdtype=torch\.(float32)"), "--dtype"),
    "kv_cache_dtype": (re.compile(r"kv_cache_dtype=([\w.]+)"), "--kv-cache-dtype"),
    "enforce_eager": (re.compile(r"enforce_eager=(True)"), "--enforce-eager"),
    "enable_prefix_caching": (re.compile(r"enable_prefix_caching=(True|False)"), "--enable-prefix-caching"),
    "chunked_prefill": (re.compile(r"chunked_prefill(?:_enabled)?=(True|False)"), "--enable-chunked-prefill"),
    "speculative_config": (re.compile(r"speculative_config=(SpeculativeConfig\([^)]*\))"), "--speculative-config"),
}
"""Field of the engine's config -> how it is written, and the flag that sets it."""


@dataclass(slots=True)
class _Seen:
    """A figure and the line that it is on."""

    value: Fraction
    line: int


@dataclass(slots=True)
class _Start:
    """What one start wrote, line by line."""

    reader: FlagReader
    blocks: _Seen | None = None
    tokens: _Seen | None = None
    length: _Seen | None = None
    most: _Seen | None = None
    metric_tokens: _Seen | None = None
    metric_most: _Seen | None = None
    metric_block: _Seen | None = None
    available: _Seen | None = None
    is_v1: bool = False

    @property
    def has_capacity(self) -> bool:
        """Whether it came as far as the KV cache."""
        return self.blocks is not None or self.tokens is not None or self.metric_tokens is not None


def read_log(path: str | Path, rules: str = VLLM_V1) -> ParsedCommand:
    """What a start-up log says, as settings.

    Args:
        rules: vllm-v1, or vllm-v0 for the engine before it.
    Raises:
        LogError: the file can't be read, or has no line that a start writes.
        VllmCommandError: the server was started with something that can't be simulated.
    """
    start, starts, whole = _Start(FlagReader(rules)), 1, True
    found_any = False
    for number, line in _lines(Path(path)):
        if number < 0:
            whole = False
            break
        if start.has_capacity and (_START.search(line) or _ARGUMENTS.search(line)):
            start, starts = _Start(FlagReader(rules)), starts + 1
        found_any |= _read_line(start, number, line)
    if not found_any:
        problem = (
            "no line of vLLM's start is in it: expected some such as "
            '"GPU KV cache size: 299,584 tokens" or "non-default args: {...}"'
        )
        raise LogError(str(path), problem)
    warnings = []
    if starts > 1:
        warnings.append(f"the log holds {starts} starts: the last one is read")
    if not whole:
        warnings.append(f"the log is longer than {MAX_BYTES // 2**20} MiB: the rest was not read")
    return _settings(start, warnings, str(path))


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines; (-1, "") where the file goes on after what is read of it."""
    try:
        with path.open("rb") as file:
            read, number = 0, 0
            while read < MAX_BYTES:
                line = file.readline(MAX_LINE)
                if not line:
                    return
                read += len(line)
                number += 1
                yield number, line.decode("utf-8", "replace").rstrip("\r\n")
                while not line.endswith(b"\n") and line:  # the rest of a line that is too long
                    line = file.readline(MAX_LINE)
                    read += len(line)
            if file.read(1):
                yield -1, ""
    except (OSError, ValueError) as error:
        raise LogError(str(path), f"can't be read: {getattr(error, 'strerror', None) or error}") from None


def _read_line(start: _Start, number: int, line: str) -> bool:
    """Takes what one line says; whether it says anything."""
    known = False
    for pattern, take in _PATTERNS.items():
        match = pattern.search(line)
        if match is not None:
            known = True
            take(start, number, match)
    return known


def _take_version(start: _Start, number: int, match: re.Match[str]) -> None:
    _set_version(start, number, match[1])


def _take_engine(start: _Start, number: int, match: re.Match[str]) -> None:
    start.is_v1 = match[1] == "V1 "
    _set_version(start, number, match[2])
    if not start.is_v1 and start.reader.rules == VLLM_V1:
        why = f"the engine before V1 wrote this, whose rules {VLLM_V0} has; the rules here are those of V1"
        start.reader.noted.append(Said(flag=f"line {number}", why=why))
    for name, (pattern, flag) in _CONFIG.items():
        found = pattern.search(match[3])
        if found is not None and found[1] != "None":
            _flag(start.reader, flag, found[1], f"line {number}: {name}={found[1]}")


def _set_version(start: _Start, number: int, text: str) -> None:
    match = re.match(r"v?(\d+)\.(\d+)(?:\.\d+)?", text)
    if match is None:
        return
    version = int(match[1]), int(match[2])
    # 0.1 is a build without a version; so is a V1 engine of an older number than its first release
    if version != (0, 1) and (version >= _BEFORE_V1 or not start.is_v1):
        start.reader.set("engine_version", match[0].removeprefix("v"), f"line {number}: version {text}")


def _take_arguments(start: _Start, number: int, match: re.Match[str]) -> None:
    """Of {'max_num_seqs': 128, ...} every entry, as if it had been given as a flag."""
    for name, value in _entries(match[1]).items():
        flag = "--" + name.replace("_", "-")
        if name == "model_tag" or value in ("None", "[]"):
            continue
        shown = f"line {number}: {name}={value}"
        if flag in FLAGS:
            _flag(start.reader, flag, value, shown)
        else:
            start.reader.noted.append(Said(flag=shown, why="it is not known, and may change the answer"))


def _take_namespace(start: _Start, number: int, match: re.Match[str]) -> None:
    """Of Namespace(max_num_seqs=128, ...), which has defaults, too: what isn't off or unset."""
    for name, value in _entries(match[1]).items():
        flag = start.reader.find("--" + name.replace("_", "-"))
        if flag is None or flag.fate in ("ignored", "noted") or value in ("None", "[]", "{}", ""):
            continue
        if flag.fate == "refused" and (value == "False" or flag.changes_nothing(value)):
            continue
        _flag(start.reader, flag.name, value, f"line {number}: {name}={value}")


def _entries(text: str) -> dict[str, str]:
    """Names and values of a dict or a call as Python prints it; nothing where it can't be read."""
    try:
        tree = ast.parse(_OBJECT.sub("None", text), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    if isinstance(tree, ast.Dict):
        pairs = [(key.value, value) for key, value in zip(tree.keys, tree.values, strict=True)
                 if isinstance(key, ast.Constant) and isinstance(key.value, str)]  # fmt: skip
    elif isinstance(tree, ast.Call):
        pairs = [(keyword.arg, keyword.value) for keyword in tree.keywords if keyword.arg is not None]
    else:
        return {}
    return {name: str(value.value) if isinstance(value, ast.Constant) else ast.unparse(value) for name, value in pairs}


def _flag(reader: FlagReader, name: str, value: str, shown: str) -> None:
    flag = reader.find(name)
    assert flag is not None, name
    off = flag.takes == "switch" and value.lower() == "false"
    reader.take(flag, shown, value, off=off)


def _figure(name: str, *, least: bool = False) -> _Take:
    """Keeps the figure of a line: of several the last, or the least."""

    def take(start: _Start, number: int, match: re.Match[str]) -> None:
        text = next(each for each in match.groups() if each)
        seen = _Seen(Fraction(text.replace(",", "").rstrip(".")), number)
        before: _Seen | None = getattr(start, name)
        if not least or before is None or seen.value < before.value:
            setattr(start, name, seen)

    return take


def _take_most(start: _Start, number: int, match: re.Match[str]) -> None:
    start.length = _Seen(Fraction(match[1].replace(",", "")), number)
    start.most = _Seen(Fraction(match[2].replace(",", "")), number)


def _take_budget(start: _Start, number: int, match: re.Match[str]) -> None:
    start.reader.set("max_num_batched_tokens", match[1], f"line {number}: max_num_batched_tokens={match[1]}")


def _take_length(start: _Start, number: int, match: re.Match[str]) -> None:
    start.reader.set("max_model_len", match[1], f"line {number}: max model len {match[1]}")


_Take = Callable[[_Start, int, re.Match[str]], None]
_PATTERNS: Final[Mapping[re.Pattern[str], _Take]] = {
    _START: _take_version,
    _BANNER: _take_version,
    _ENGINE: _take_engine,
    _ARGUMENTS: _take_arguments,
    _NAMESPACE: _take_namespace,
    _LENGTH: _take_length,
    _BUDGET: _take_budget,
    _AVAILABLE: _figure("available"),
    _BLOCKS: _figure("blocks"),
    _TOKENS: _figure("tokens", least=True),  # one line per GPU; the engine takes the smallest
    _MOST: _take_most,
    _METRIC_TOKENS: _figure("metric_tokens"),
    _METRIC_MOST: _figure("metric_most"),
    _METRIC_BLOCK: _figure("metric_block"),
}


def _settings(start: _Start, warnings: list[str], where: str) -> ParsedCommand:
    """The settings of a start, with its pool in blocks."""
    reader = start.reader
    if start.length is not None:
        length = int(start.length.value)
        reader.set("max_model_len", str(length), f"line {start.length.line}: {length:,} tokens per request")
    block = _block_size(start)
    tokens = start.tokens or start.metric_tokens
    if start.blocks is not None:
        blocks, line = int(start.blocks.value), start.blocks.line
        reader.set("num_gpu_blocks_override", str(blocks), f"line {line}: {blocks:,} blocks")
    elif tokens is not None:
        blocks = max(1, int(tokens.value) // block)
        shown = f"line {tokens.line}: {int(tokens.value):,} tokens in blocks of {block}"
        reader.set("num_gpu_blocks_override", str(blocks), shown)
    else:
        warnings.append("no line says how large the KV cache is: it is computed")
    warnings += _contradictions(start, block)
    return reader.result(warnings, where=where)


def _block_size(start: _Start) -> int:
    """Tokens a block: as given, else what tokens and blocks make of it, else the usual."""
    given = start.reader.settings.get("block_size")
    if isinstance(given, int):
        return given
    found = None
    if start.metric_block is not None:
        found, line = int(start.metric_block.value), start.metric_block.line
    elif start.tokens is not None and start.blocks is not None:
        size = round(start.tokens.value / max(Fraction(1), start.blocks.value))
        line = start.blocks.line
        found = size if size and size * start.blocks.value == start.tokens.value else None
    if found is None:
        return _USUAL_BLOCK
    start.reader.set("block_size", str(found), f"line {line}: blocks of {found} tokens")
    return found


def _contradictions(start: _Start, block: int) -> list[str]:
    """What in the log can't all be true, or would surprise."""
    found = []
    if start.tokens is not None and start.length is not None and start.most is not None:
        # the engine rounds the length of a request up to whole blocks
        length = ceil_div(int(start.length.value), block) * block
        own = start.tokens.value / length
        found += _apart(
            f"{int(start.tokens.value):,} tokens (line {start.tokens.line}) are {float(own):.2f} requests of "
            f"{int(start.length.value):,}",
            own,
            f"the log says {float(start.most.value):.2f} (line {start.most.line})",
            start.most.value,
            "layers of several kinds share the pool, or the block size was resolved twice",
        )
    if start.tokens is not None and start.metric_tokens is not None:
        found += _apart(
            f"{int(start.tokens.value):,} tokens (line {start.tokens.line})",
            start.tokens.value,
            f"/metrics says {int(start.metric_tokens.value):,} (line {start.metric_tokens.line})",
            start.metric_tokens.value,
            "the block size was resolved twice",
        )
    if start.tokens is not None and start.blocks is not None:
        own = start.blocks.value * block
        found += _apart(
            f"{int(start.blocks.value):,} blocks (line {start.blocks.line}) of {block} are {int(own):,} tokens",
            own,
            f"the log says {int(start.tokens.value):,} (line {start.tokens.line})",
            start.tokens.value,
            "layers of several kinds share the pool, or blocks have another size",
        )
    if start.most is not None and start.metric_most is not None:
        found += _apart(
            f"{float(start.most.value):.2f} requests at once (line {start.most.line})",
            start.most.value,
            f"/metrics says {float(start.metric_most.value):.2f} (line {start.metric_most.line})",
            start.metric_most.value,
            "the block size was resolved twice",
        )
    for most in (start.most, start.metric_most):
        if most is not None and most.value < 1:
            found.append(
                f"max_concurrency is {float(most.value):.2f} (line {most.line}): not even one request of the longest "
                "kind fits; lower max_model_len"
            )
    return found


def _apart(one: str, first: Fraction, other: str, second: Fraction, cause: str) -> list[str]:
    """A warning where two figures differ by more than 5 %."""
    if abs(first - second) <= _APART * max(abs(first), abs(second)):
        return []
    return [f"{one}, but {other}: {cause}"]

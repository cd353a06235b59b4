"""Goldens of the vLLM V1 scheduler: read one, replay it with an engine, name the first difference.

A golden is what the real scheduler decided, step by step; docs/vllm-v1.md says what its fields mean. Nothing here
trusts it: it is only ever compared with what an engine computes.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

from kvlab.core.config import VllmV1Config
from kvlab.core.records import RequestRecord, RunRecord
from kvlab.core.request import Content, OpenLoop, Request
from kvlab.core.step_time import LinearStepTime
from kvlab.core.vllm_lines import core_lines
from kvlab.errors import ConfigError, GoldenError, UnknownNameError
from kvlab.goldens import ABSENT, Difference, differ
from kvlab.reference import vllm_v1 as reference
from kvlab.strict_json import unique_keys
from kvlab.units import NS_PER_US

SUFFIX: Final = ".golden.jsonl.gz"
MAX_BLOCKS: Final = 2**24
FORMAT: Final = 1

Line = dict[str, Any]
Lines = list[Line]

_ENGINE: Final[dict[str, object]] = {
    "num_gpu_blocks": 1000, "block_size": 16, "max_num_seqs": 128, "max_num_batched_tokens": 2048,
    "max_model_len": 4096, "enable_chunked_prefill": True, "long_prefill_token_threshold": 0,
    "enable_prefix_caching": False, "policy": "fcfs", "watermark": Decimal(0), "reserve_full_prompt": True,
}  # fmt: skip
"""What a field that is missing means."""
_COST: Final = {"base_us": 10_000, "per_decode_us": 0, "per_running_us": 0, "per_prefill_token_us": 0}
_SCENARIO: Final = ("name", "desc", "engine", "cost", "record", "requests")
_REQUEST: Final = ("id", "arrival_us", "output_len", "priority", "prompt", "prompt_len", "out")


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmGolden:
    """One golden file."""

    path: str
    name: str
    config: VllmV1Config
    requests: tuple[Request, ...]
    """In order of arrival; ids are places in that order."""
    names: tuple[str, ...]
    """What the file calls them."""
    file_order: tuple[int, ...]
    """Ids in the order of the file."""
    keeps_blocks: bool
    lines: Lines
    """All that follow the header, as they stand in the file: not trusted, only compared with."""


def read_golden(path: Path | str) -> VllmGolden:
    """Read one golden of the vLLM scheduler.

    Raises:
        GoldenError: it can't be read, isn't such a golden, or its scenario isn't valid; names file and reason.
    """
    lines = _load(Path(path))
    header = lines[0]
    if header.get("kind") != "header" or header.get("format") != FORMAT or not isinstance(header.get("scenario"), dict):
        raise GoldenError(f"{path}: not a golden of the vLLM scheduler: expected a header of format {FORMAT} first")
    scenario = header["scenario"]
    try:
        _check_keys("key in scenario", scenario, _SCENARIO)
        requests, names, file_order = _requests(scenario["requests"])
        return VllmGolden(
            path=str(path),
            name=str(scenario.get("name", Path(path).name)),
            config=_config(scenario.get("engine", {}), scenario.get("cost", {})),
            requests=requests,
            names=names,
            file_order=file_order,
            keeps_blocks=bool(scenario.get("record", {}).get("blocks", False)),
            lines=[_exact(line) for line in lines[1:]],
        )
    except KeyError as missing:
        raise GoldenError(f"{path}: scenario: {missing} is missing") from None
    except (TypeError, ValueError, AttributeError, ConfigError) as error:
        raise GoldenError(f"{path}: scenario: {error}") from None


def _load(path: Path) -> Lines:
    try:
        text = gzip.decompress(path.read_bytes()).decode()
        lines = [
            json.loads(line, object_pairs_hook=unique_keys, parse_float=Decimal) for line in text.splitlines() if line
        ]
    except (OSError, EOFError, zlib.error) as error:
        raise GoldenError(f"{path}: can't be read: {getattr(error, 'strerror', None) or error}") from None
    except (ValueError, RecursionError) as error:
        raise GoldenError(f"{path}: not gzipped JSON lines: {error}") from None
    if not lines or not all(isinstance(line, dict) for line in lines):
        raise GoldenError(f"{path}: not a golden of the vLLM scheduler: expected one JSON object a line")
    return lines


def _exact(line: Line) -> Line:
    """A line with floats where JSON had them, so that they are told from whole numbers."""
    return {key: float(value) if isinstance(value, Decimal) else value for key, value in line.items()}


def _config(engine: Mapping[str, Any], cost: Mapping[str, Any]) -> VllmV1Config:
    _check_keys("engine key", engine, _ENGINE)
    _check_keys("key of cost", cost, _COST)
    values: dict[str, Any] = {**_ENGINE, **engine}
    watermark = Decimal(values.pop("watermark"))
    if values["num_gpu_blocks"] > MAX_BLOCKS:
        raise ConfigError("num_gpu_blocks", values["num_gpu_blocks"], f"at most {MAX_BLOCKS:,} can be verified")
    # as the engine computes it: in binary floating point
    watermark_blocks = int(float(watermark) * values["num_gpu_blocks"])
    costs = {name.removesuffix("_us") + "_ns": us * NS_PER_US for name, us in {**_COST, **cost}.items()}
    return VllmV1Config(**values, watermark_blocks=watermark_blocks, step_time=LinearStepTime(**costs))


def _requests(rows: list[Mapping[str, Any]]) -> tuple[tuple[Request, ...], tuple[str, ...], tuple[int, ...]]:
    """Requests by arrival, their names, and their ids in the order of the file."""
    for row in rows:
        if "arrival_step" in row:
            raise ValueError("arrivals by step number are not supported: give arrival_us")
        _check_keys("key of a request", row, _REQUEST)
    order = sorted(range(len(rows)), key=lambda place: rows[place]["arrival_us"])
    ranks = {name: rank for rank, name in enumerate(sorted(str(row["id"]) for row in rows))}
    if len(ranks) != len(rows):
        raise ValueError("two requests have the same id")
    ids = {place: request_id for request_id, place in enumerate(order)}
    requests = []
    for request_id, place in enumerate(order):
        row = rows[place]
        prompt = row["prompt"] if "prompt" in row else [[f"{row['id']}/in", row["prompt_len"]]]
        pieces = tuple((piece[0], piece[2] if len(piece) > 2 else 0, piece[1]) for piece in prompt if piece[1])
        requests.append(
            Request(
                id=request_id,
                arrival_ns=_whole(row, "arrival_us", 0) * NS_PER_US,
                prompt_tokens=sum(piece[2] for piece in pieces),
                output_tokens=(_whole(row, "output_len", 1),),
                priority=row.get("priority", 0),
                rank=ranks[str(row["id"])],
                content=Content(pieces, row.get("out", f"{row['id']}/out")),
            )
        )
    names = tuple(str(rows[place]["id"]) for place in order)
    return tuple(requests), names, tuple(ids[place] for place in range(len(rows)))


def _whole(row: Mapping[str, Any], key: str, least: int) -> int:
    value = row[key]
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ConfigError(key, value, f"of request {row['id']}: expected a whole number, at least {least}")
    return value


def _check_keys(kind: str, given: Mapping[str, Any], known: Iterable[str]) -> None:
    for key in given:
        if key not in known:
            raise UnknownNameError(kind, key, known)


def replay_reference(golden: VllmGolden) -> Lines:
    """The golden's lines as the reference engine computes them."""
    run = reference.run(golden.config, OpenLoop(golden.requests))
    return _lines(golden, run.lines, run.record)


def replay_core(golden: VllmGolden) -> Lines:
    """The golden's lines as the fast engine computes them."""
    lines, record = core_lines(golden.config, OpenLoop(golden.requests))
    return _lines(golden, lines, record)


ENGINES: Final[dict[str, Callable[[VllmGolden], Lines]]] = {"reference": replay_reference, "core": replay_core}


def _lines(golden: VllmGolden, steps: Lines, record: RunRecord) -> Lines:
    ends = {line["t"] + line["dt"]: line["step"] for line in steps}
    scheduled: dict[int, list[Line]] = {request_id: [] for request_id in golden.file_order}
    for line in steps:
        for request_id in line["sched"]:
            scheduled[request_id].append(line)
    return [
        *(_step_line(golden, line) for line in steps),
        *(_request_line(golden, record.requests[i], scheduled[i], ends) for i in golden.file_order),
        _end_line(golden, steps, record),
    ]


def _step_line(golden: VllmGolden, line: Line) -> Line:
    names = golden.names
    found: Line = {
        "kind": "step",
        "step": line["step"],
        "t": line["t"] // NS_PER_US,
        "dt": line["dt"] // NS_PER_US,
        "arrived": [names[i] for i in line["arrived"]],
        "sched": {names[i]: tokens for i, tokens in line["sched"].items()},
        **{key: [names[i] for i in line[key]] for key in ("preempted", "new", "resumed", "finished")},
        **{key: line[key] for key in ("decode", "prefill_tokens", "running", "waiting")},
        "head": None if line["head"] is None else names[line["head"]],
        "free_mid": line["free_mid"],
        "free": line["free"],
        "tables": _crc(line["tables"], names),
    }
    if golden.config.enable_prefix_caching:
        found |= {"hits": {names[i]: tokens for i, tokens in line["hits"].items()}}
        found |= {key: line[key] for key in ("evicted", "cached")}
    if golden.keeps_blocks:
        found["held"] = {names[i]: len(blocks) for i, blocks in line["tables"].items()}
    return found


def _crc(tables: Mapping[int, tuple[int, ...]], names: tuple[str, ...]) -> int:
    """CRC-32 of "id:b1,b2,...;" of each table, concatenated."""
    text = "".join(f"{names[i]}:{','.join(map(str, blocks))};" for i, blocks in tables.items())
    return zlib.crc32(text.encode())


def _request_line(golden: VllmGolden, found: RequestRecord, scheduled: Lines, ends: Mapping[int, int]) -> Line:
    """
    Args:
        scheduled: the lines of the steps that computed something of the request.
        ends: end of a step in ns -> its number.
    """
    first_ns, finish_ns = found.first_token_ns, found.finish_ns
    hits = golden.config.enable_prefix_caching and scheduled
    return {
        "kind": "request",
        "id": golden.names[found.id],
        "status": "rejected" if found.rejected else "stalled" if finish_ns is None else "finished",
        "arrival": found.arrival_ns // NS_PER_US,
        "first_sched_step": scheduled[0]["step"] if scheduled else None,
        "first_token_step": None if first_ns is None else ends[first_ns],
        "first_token_us": None if first_ns is None else first_ns // NS_PER_US,
        "finish_step": None if finish_ns is None else ends[finish_ns],
        "finish_us": None if finish_ns is None else finish_ns // NS_PER_US,
        "outputs": sum(found.id in line["emitted"] for line in scheduled),
        "preemptions": found.preemptions,
        "hit_tokens": found.cached_tokens if hits else None,
        "scheduled_tokens": sum(line["sched"][found.id] for line in scheduled),
    }


def _end_line(golden: VllmGolden, steps: Lines, record: RunRecord) -> Line:
    """The clock that ends a run includes the step that found nothing to do."""
    last = steps[-1] if steps else {"step": -1, "t": 0, "dt": 0, "free": golden.config.usable_blocks}
    stalled = [r.id for r in record.requests if not r.rejected and r.finish_ns is None]
    return {
        "kind": "end",
        "steps": last["step"] + 1,
        "t": (last["t"] + last["dt"]) // NS_PER_US,
        "finished": record.totals.finished,
        "preemptions": record.totals.preemptions,
        "rejected": [golden.names[i] for i in record.rejected],
        "stalled": [golden.names[i] for i in stalled],
        "free": last["free"],
    }


def first_difference(expected: Lines, got: Lines) -> Difference | None:
    """Where two golden files first differ; None: nowhere."""
    for one, other in zip_longest(expected, got, fillvalue={"kind": ABSENT}):
        place = differ(_ordered(one), _ordered(other), "")
        if place is not None:
            field, wanted, found = place
            step = one.get("step")
            if isinstance(step, int):
                return Difference(step, field, wanted, found)
            return Difference(None, f"{one.get('kind')} {one.get('id', '')}".strip() + f".{field}", wanted, found)
    return None


def _ordered(line: Line) -> Line:
    """The line with the order of ids as part of it."""
    return {key: [list(item) for item in value.items()] if isinstance(value, dict) else value
            for key, value in line.items()}  # fmt: skip

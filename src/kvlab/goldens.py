"""Golden files of the labs: read one, replay it with an engine, name the first difference (MODEL.md, "A golden file").

A golden holds a scenario with its requests and the result of an independent implementation; those of vllm-v0, which
have the same form, hold what the reference once computed (docs/vllm-v0.md). Nothing here trusts the result: it is only
ever compared with one that was computed.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, NamedTuple

from kvlab import reference
from kvlab.core import engine as core
from kvlab.core.allocators import ALLOCATORS
from kvlab.core.config import EVERYTHING, BlockTableLabConfig, LabConfig, PreemptionLabConfig, VllmV0Config
from kvlab.core.memory import Stay, cpu_stays_at, gpu_stays_at
from kvlab.core.preemption import GROUP_PREEMPTION_MODES, PREEMPTION_MODES
from kvlab.core.records import RequestRecord, RunRecord, StepRecord
from kvlab.core.request import OpenLoop, Request
from kvlab.core.step_time import LinearStepTime
from kvlab.errors import ConfigError, GoldenError, UnknownNameError
from kvlab.strict_json import unique_keys

FIRST_STEPS: Final = 60
"""Rows of the step log that a golden shows; of the others only the hash."""
TABLES_EVERY: Final = 16
MAX_BLOCKS: Final = 2**24
"""A larger pool is refused before memory is taken for it."""

Row = dict[str, Any]
Result = dict[str, Any]
Tables = Mapping[tuple[int, int], tuple[int, ...]]

GoldenConfig = LabConfig | VllmV0Config

_LABS: Final[dict[str, type[PreemptionLabConfig] | type[BlockTableLabConfig]]] = {
    "preemption": PreemptionLabConfig,
    "block-tables": BlockTableLabConfig,
}
_V0: Final = "vllm-v0"
_V0_STEP_COSTS: Final = ("base", "per_running", "per_decode", "per_prefill_token")
_V0_SWAP_COSTS: Final = ("swap_per_token", "swap_per_block")
_KEYS: Final = ("lab", "name", "engine", "cost_ns", "requests")
_COSTS_WITHOUT_SUFFIX: Final = ("paging_overhead_num", "paging_overhead_den")


@dataclass(frozen=True, slots=True, kw_only=True)
class Golden:
    """One golden file."""

    path: str
    name: str
    config: GoldenConfig
    requests: tuple[Request, ...]
    result: Result
    """As it stands in the file: not trusted, only compared with."""


class Replay(NamedTuple):
    """What an engine made of a golden's scenario."""

    result: Result
    """Every field that a golden's `result` has."""
    step_log: list[Row]
    """All rows, of which `result` has the first 60 and the hash."""


class Difference(NamedTuple):
    """The first place where two results differ."""

    step: int | None
    """None where the difference is not in a row of the step log."""
    field: str
    expected: object
    got: object

    def __str__(self) -> str:
        place = "" if self.step is None else f"step {self.step:,}, "
        return f"{place}{self.field}: expected {_shown(self.expected)}, got {_shown(self.got)}"


def read_golden(path: Path | str) -> Golden:
    """Read one golden, gzipped or plain JSON.

    Raises:
        GoldenError: it can't be read, isn't a lab golden, or its scenario isn't valid; names file and reason.
    """
    document = _load(Path(path))
    scenario, result = _part(document, "scenario", path), _part(document, "result", path)
    try:
        _check_keys("key in scenario", scenario, _KEYS)
        config = _config(scenario)
        requests = tuple(_requests(scenario["requests"]))
        for request in requests:
            _check_described(request, config)
        return Golden(path=str(path), name=str(scenario["name"]), config=config, requests=requests, result=result)
    except KeyError as missing:
        raise GoldenError(f"{path}: not a lab golden: scenario has no {missing}") from None
    except (TypeError, ValueError, ConfigError) as error:
        raise GoldenError(f"{path}: scenario: {error}") from None


def _load(path: Path) -> object:
    try:
        data = path.read_bytes()
        text = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
        return json.loads(text, object_pairs_hook=unique_keys)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise GoldenError(f"{path}: can't be read: {reason}") from None
    except (ValueError, RecursionError) as error:
        raise GoldenError(f"{path}: not gzipped JSON: {error}") from None


def _part(document: object, key: str, path: Path | str) -> dict[str, Any]:
    part = document.get(key) if isinstance(document, dict) else None
    if not isinstance(part, dict):
        raise GoldenError(f'{path}: not a lab golden: expected {{"scenario": {{...}}, "result": {{...}}}}')
    return part


def _config(scenario: dict[str, Any]) -> GoldenConfig:
    config = _v0_config(scenario) if scenario["lab"] == _V0 else _lab_config(scenario)
    for field in ("num_gpu_blocks", "num_cpu_blocks", "num_blocks"):
        if getattr(config, field, 0) > MAX_BLOCKS:
            raise ConfigError(field, getattr(config, field), f"at most {MAX_BLOCKS:,} blocks can be verified")
    return config


def _v0_config(scenario: dict[str, Any]) -> VllmV0Config:
    engine, cost_ns = scenario["engine"], scenario["cost_ns"]
    names = [field.name for field in fields(VllmV0Config)]
    _check_keys("engine key", engine, [name for name in names if name != "step_time" and not _is_cost(name)])
    _check_keys("key of cost_ns", cost_ns, (*_V0_STEP_COSTS, *_V0_SWAP_COSTS))
    if engine["preemption_mode"] not in GROUP_PREEMPTION_MODES:
        raise UnknownNameError("preemption_mode", str(engine["preemption_mode"]), GROUP_PREEMPTION_MODES)
    step_time = LinearStepTime(**{f"{name}_ns": cost_ns[name] for name in _V0_STEP_COSTS})
    return VllmV0Config(**engine, step_time=step_time, **{f"{name}_ns": cost_ns[name] for name in _V0_SWAP_COSTS})


def _lab_config(scenario: dict[str, Any]) -> LabConfig:
    lab, engine, cost_ns = scenario["lab"], scenario["engine"], scenario["cost_ns"]
    if lab not in _LABS:
        raise ValueError(f"unknown lab {lab!r}. Known: {', '.join((*_LABS, _V0))}")
    names = [field.name for field in fields(_LABS[lab])]
    _check_keys("engine key", engine, [name for name in names if not _is_cost(name)])
    _check_keys("key of cost_ns", cost_ns, [name.removesuffix("_ns") for name in names if _is_cost(name)])
    costs = {key if key in _COSTS_WITHOUT_SUFFIX else f"{key}_ns": value for key, value in cost_ns.items()}
    config = _LABS[lab](**engine, **costs)
    for field, known in (("preemption_mode", PREEMPTION_MODES), ("allocator", ALLOCATORS)):
        if field in engine and engine[field] not in known:
            raise UnknownNameError(field, str(engine[field]), known)
    return config


def _is_cost(field: str) -> bool:
    return field.endswith("_ns") or field in _COSTS_WITHOUT_SUFFIX


def _check_keys(kind: str, given: object, known: Sequence[str]) -> None:
    """Raise UnknownNameError for a key that isn't known, ValueError for a missing one."""
    if not isinstance(given, dict):
        raise ValueError(f"expected an object in place of {given!r}")
    for key in given:
        if key not in known:
            raise UnknownNameError(kind, key, known)
    for key in known:
        if key not in given:
            raise ValueError(f'the {kind} "{key}" is missing')


def _requests(rows: list[list[Any]]) -> Iterable[Request]:
    latest_ns = 0
    for position, (arrival_ns, prompt, outputs) in enumerate(rows):
        output_tokens = tuple(outputs) if isinstance(outputs, list) else (outputs,)
        numbers = (arrival_ns, prompt, *output_tokens)
        if not output_tokens or any(type(n) is not int for n in numbers) or min(numbers[1:]) < 1:
            raise ValueError(
                f"request {position}: {[arrival_ns, prompt, outputs]}: expected whole numbers, lengths >= 1"
            )
        if arrival_ns < latest_ns:
            raise ValueError(f"request {position} arrives at {arrival_ns} ns, before its predecessor ({latest_ns} ns)")
        latest_ns = arrival_ns
        yield Request(position, arrival_ns, prompt, output_tokens)


def _check_described(request: Request, config: GoldenConfig) -> None:
    """Raise ValueError for a request that the lab's rules do not describe."""
    if isinstance(config, PreemptionLabConfig):
        if len(request.output_tokens) > 1:
            raise ValueError(f"request {request.id} has {len(request.output_tokens)} samples; this lab knows only one")
    elif isinstance(config, BlockTableLabConfig) and max(request.output_tokens) > config.max_tokens:
        raise ValueError(
            f"request {request.id}: {max(request.output_tokens)} output tokens, max_tokens is {config.max_tokens}"
        )


def replay_reference(golden: Golden) -> Replay:
    """The golden's scenario on the reference engine."""
    run = reference.simulate(golden.config, OpenLoop(golden.requests), tables_every=TABLES_EVERY)
    return _replay(golden, run.record, lambda step: run.tables[step // TABLES_EVERY],
                   lambda step: run.cpu_tables[step // TABLES_EVERY])  # fmt: skip


def replay_core(golden: Golden) -> Replay:
    """The golden's scenario on the fast engine, block tables from its delta log."""
    record = core.simulate(golden.config, OpenLoop(golden.requests), recording=EVERYTHING)
    return _replay(golden, record, lambda step: tables_of(gpu_stays_at(record.stays, step), step),
                   lambda step: tables_of(cpu_stays_at(record.stays, step), step))  # fmt: skip


ENGINES: Final[dict[str, Callable[[Golden], Replay]]] = {"reference": replay_reference, "core": replay_core}


def tables_of(stays: Iterable[Stay], step: int) -> Tables:
    """Block tables (contiguous: segments) of `stays` in `step`, in the order given."""
    return {(stay.request_id, stay.sample): stay.segment or stay.table_at(step) for stay in stays}


def _replay(
    golden: Golden, record: RunRecord, tables: Callable[[int], Tables], cpu_tables: Callable[[int], Tables]
) -> Replay:
    rows = []
    for number, step in enumerate(record.steps):
        has_tables = number % TABLES_EVERY == 0
        if not isinstance(golden.config, BlockTableLabConfig):
            row = _preemption_row(step, golden.config.block_size)
            key = "{0}" if isinstance(golden.config, PreemptionLabConfig) else "{0}.{1}"
            if has_tables:
                row["tables"] = _crc(tables(number), key)
                row["cpu_tables"] = _crc(cpu_tables(number), key)
        else:
            row = _block_table_row(step)
            if has_tables:
                row["tables"] = _crc(tables(number), "{0}.{1}")
        rows.append(row)
    return Replay(_result(golden, record, rows), rows)


def _preemption_row(step: StepRecord, block_size: int) -> Row:
    return {
        "t": step.t_ns,
        "dur": step.dur_ns,
        "running": step.running,
        "waiting": step.waiting,
        "swapped": step.swapped,
        "used": step.reserved_tokens // block_size,
        "prefill": step.prefill_tokens,
        "admitted": list(step.admitted),
        "resumed": list(step.resumed),
        "preempted": [list(fate) for fate in step.preempted],
        "finished": list(step.finished),
    }


def _block_table_row(step: StepRecord) -> Row:
    return {
        "t": step.t_ns,
        "dur": step.dur_ns,
        "seqs": step.running,
        "waiting": step.waiting,
        "reserved": step.reserved_tokens,
        "used": step.used_tokens,
        "largest_hole": step.largest_hole_tokens,
        "prefill": step.prefill_tokens,
        "admitted": list(step.admitted),
        "preempted": [request_id for request_id, _ in step.preempted],
        "finished": list(step.finished),
    }


def _crc(tables: Tables, key: str) -> int:
    """CRC-32 of "id:b1,b2,...;" of each table, concatenated."""
    text = "".join(f"{key.format(*owner)}:{','.join(map(str, blocks))};" for owner, blocks in tables.items())
    return zlib.crc32(text.encode("ascii"))


def _result(golden: Golden, record: RunRecord, rows: list[Row]) -> Result:
    totals = record.totals
    p50_ttft_ns, p95_ttft_ns = record.ttft.percentiles(50, 95)
    p50_gap_ns, p99_gap_ns = record.gap.percentiles(50, 99)
    counts = ["preemptions", "prefill_tokens", "recomputed_tokens"]
    if isinstance(golden.config, PreemptionLabConfig):
        counted = {name: getattr(totals, name) for name in (*counts, "swap_outs", "swap_ins")}
    elif isinstance(golden.config, VllmV0Config):
        v0_counts = ("swap_outs", "swap_ins", "swapped_tokens", "swap_ns", "cow_copies", "unfinished")
        counted = {name: getattr(totals, name) for name in (*counts, *v0_counts)}
        counted["kv_used_token_steps"] = totals.used_token_steps
    else:
        counted = {name: getattr(totals, name) for name in (*counts, "cow_copies")}
        counted["kv_reserved_token_steps"] = totals.reserved_token_steps
        counted["kv_used_token_steps"] = totals.used_token_steps
    log = "".join(json.dumps(row, sort_keys=True, separators=(",", ":")) + "\n" for row in rows)
    return {
        "scenario": golden.name,
        "steps": totals.steps,
        "end_ns": totals.end_ns,
        "output_tokens": totals.output_tokens,
        "rejected": list(record.rejected),
        "served": totals.finished,
        "totals": counted,
        "p50_ttft_ns": p50_ttft_ns,
        "p95_ttft_ns": p95_ttft_ns,
        "p50_gap_ns": p50_gap_ns,
        "p99_gap_ns": p99_gap_ns,
        "max_gap_ns": record.gap.largest,
        "requests_paused_over_1s": totals.paused,
        "per_request": [None if request.rejected else _request_row(request) for request in record.requests],
        "first_steps": rows[:FIRST_STEPS],
        "step_log_sha256": hashlib.sha256(log.encode("ascii")).hexdigest(),
    }


def _request_row(request: RequestRecord) -> Row:
    return {
        "first_token": request.first_token_ns,
        "finish": request.finish_ns,
        "max_gap": request.max_gap_ns,
        "preemptions": request.preemptions,
        "recomputed": request.recomputed_tokens,
    }


def first_difference(expected: Result, got: Result) -> Difference | None:
    """Where `got` first differs from `expected`: rows of the step log first, then the other fields; None if nowhere."""
    rows = expected.get("first_steps")
    difference = first_row_difference(rows if isinstance(rows, list) else [], got["first_steps"])
    if difference is not None:
        return difference
    for field in dict.fromkeys((*got, *expected)):
        place = differ(expected.get(field, ABSENT), got.get(field, ABSENT), field)
        if place is not None:
            return Difference(None, *place)
    return None


def first_row_difference(expected: list[Row], got: list[Row]) -> Difference | None:
    """Where two step logs first differ, as far as both go."""
    for step, (expected_row, got_row) in enumerate(zip(expected, got, strict=False)):
        place = differ(expected_row, got_row, "")
        if place is not None:
            return Difference(step, *place)
    return None


ABSENT: Final = "(no such field)"


def differ(expected: object, got: object, path: str) -> tuple[str, object, object] | None:
    """(path, expected, got) of the first value that differs, types included: 1.0 and True are not 1."""
    if isinstance(expected, dict) and isinstance(got, dict):
        for key in dict.fromkeys((*got, *expected)):
            inner = f"{path}.{key}" if path else str(key)
            place = differ(expected.get(key, ABSENT), got.get(key, ABSENT), inner)
            if place is not None:
                return place
        return None
    if isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        for index, (one, other) in enumerate(zip(expected, got, strict=True)):
            place = differ(one, other, f"{path}[{index}]")
            if place is not None:
                return place
        return None
    return None if type(expected) is type(got) and expected == got else (path, expected, got)


def _shown(value: object, limit: int = 120) -> str:
    text = json.dumps(value) if value != ABSENT else ABSENT
    return text if len(text) <= limit else f"{text[:limit]}…"

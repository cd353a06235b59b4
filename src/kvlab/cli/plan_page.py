"""What `kvlab plan` prints: the answer, every value that was tried with the knee beside it, the day, the GPUs."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kvlab.advice.goals import Goal
from kvlab.advice.gpus import NO_START, Candidate, GpuPlan
from kvlab.advice.plan import Plan, Probe
from kvlab.advice.plan_picture import readable, sentence
from kvlab.cli.terminal import Terminal, columns
from kvlab.cli.vllm import step_time_line
from kvlab.metrics import METRICS
from kvlab.setting_table import SETTINGS
from kvlab.settings import exact_decimal
from kvlab.units import format_bytes, format_number

if TYPE_CHECKING:
    from kvlab.advice.daily import Daily

_BAR: Final = 24
"""Columns of a bar; the limit is in the middle."""
_LEAST_BAR: Final = 8
_HEAD: Final = 12
"""Columns to which a heading is broken."""
_REASONS: Final = {
    "while the weights load": "as the weights don't fit",
    "No available memory": "as the weights leave no memory for KV",
    "To serve at least one request": "as a request of max_model_len doesn't fit (a lower one would do)",
    "max seq len": "as a request of max_model_len doesn't fit (a lower one would do)",
}
"""Part of an engine's words -> the same in short; --json has them whole."""


def plan_page(found: Plan, needed: Daily | None, terminal: Terminal) -> str:
    """The answer, the table of values, and servers for a day if that was asked for."""
    lines = [terminal.style(found.scenario.name, "bold"), "", *_wrapped(sentence(found), terminal), ""]
    durations = step_time_line(found.scenario)
    if durations is not None:
        lines += [*_wrapped(durations, terminal), ""]
    lines += _probes(found, terminal)
    errors = [(probe.value, probe.error) for probe in found.probes if probe.error is not None]
    if errors:
        value, error = errors[0]
        more = f" ({len(errors)} values could not run)" if len(errors) > 1 else ""
        shown = readable(SETTINGS[found.field], value)
        lines += ["", *_wrapped(f"At {found.field} {shown} a run was impossible: {error}{more}", terminal)]
    if any(probe.turned_away for probe in found.probes):
        text = "A run that turns requests away, as too long for the server, holds only with a goal such as rejected<=5."
        lines += ["", *_wrapped(text, terminal)]
    if needed is not None:
        lines += ["", *_day(needed, terminal)]
    return terminal.render([*lines, "", f"{_runs(found.runs)}."])


def _probes(found: Plan, terminal: Terminal) -> list[str]:
    """One row per value, with a bar of the metric that fails first."""
    setting = SETTINGS[found.field]
    names = list(found.probes[0].metrics)
    goal = _tightest(found)
    refuses = any(probe.turned_away for probe in found.probes)
    rows = [
        [readable(setting, probe.value), f"{probe.seeds_kept} of {probe.seeds_tried}"]
        + [METRICS[name].format(probe.metrics[name]) for name in names]
        + [f"{probe.turned_away:,}"] * refuses
        for probe in found.probes
    ]
    heads = [found.field.replace("_", " "), "seeds", *(METRICS[name].label for name in names)]
    heads += ["turned away"] * refuses
    table = _table(heads, rows, ">" * len(heads))
    room = terminal.width - max(map(len, table)) - 3
    if room < _LEAST_BAR:
        return table
    width = min(_BAR, room)
    head = terminal.style(f"{METRICS[goal.metric].label}, │ its limit", "dim")
    heights = len(table) - len(rows)
    bars = [""] * (heights - 1) + [head] + [knee_bar(goal, probe, width) for probe in found.probes]
    longest = max(map(len, table))
    return [f"{line:<{longest}}  {bar}".rstrip() for line, bar in zip(table, bars, strict=True)]


def _tightest(found: Plan) -> Goal:
    """The goal that is missed at most of the values."""
    missed = {goal: sum(_is_missed(goal, probe) for probe in found.probes) for goal in found.goals}
    return max(found.goals, key=lambda goal: missed[goal])


def _is_missed(goal: Goal, probe: Probe) -> bool:
    return not goal.met_by(probe.metrics)


def knee_bar(goal: Goal, probe: Probe, width: int) -> str:
    """As long as the median, with the limit in the middle; what is over twice the limit ends in ">".

    Rounding hides no miss: a value over a limit of at most has a cell beyond it, one under a limit of at least leaves
    the last cell before it empty.
    """
    value, limit = probe.metrics[goal.metric], float(goal.limit)
    middle = width // 2
    room = width - middle - 1
    if value is None:
        return " " * middle + "│"
    scale = value / limit if limit else (0.0 if value == 0 else 2.0)
    before, beyond = min(middle, round(scale * middle)), max(0, min(room, round((scale - 1) * middle)))
    if goal.at_most:
        before, beyond = (middle, max(1, beyond)) if _is_missed(goal, probe) else (before, 0)
    elif _is_missed(goal, probe):
        before, beyond = min(middle - 1, before), 0
    over = "█" * (room - 1) + ">" if scale > 2 else "█" * beyond
    return f"{'█' * before:<{middle}}│{over:<{room}}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], aligns: str) -> list[str]:
    """Columns under headings that are broken over several lines, and end right above the table."""
    broken = [textwrap.wrap(head, _HEAD) for head in heads]
    height = max(map(len, broken))
    lines = zip(*([""] * (height - len(parts)) + parts for parts in broken), strict=True)
    return columns([*map(list, lines), *rows], aligns)


def _day(needed: Daily, terminal: Terminal) -> list[str]:
    rows = [["from", "hours", "requests/s", "servers", "GPUs"]]
    for part, servers in zip(needed.stretches, needed.servers, strict=True):
        minutes = int(part.start_h * 60)
        rows.append(
            [
                f"{minutes // 60:02d}:{minutes % 60:02d}",
                format_number(part.hours),
                exact_decimal(part.rate),
                f"{servers:,}",
                f"{servers * needed.gpus_per_server:,}",
            ]
        )
    fixed, resized = needed.fixed_gpu_hours, needed.resized_gpu_hours
    saved = f", {format_number(100 * (fixed - resized) / fixed)} % less" if resized < fixed else ""
    headroom = f" x {exact_decimal(1 + needed.headroom)}" if needed.headroom else ""
    text = (
        f"At its peak the day needs {_gpus(needed.peak_servers * needed.gpus_per_server)}. That is "
        f"{format_number(fixed)} GPU-hours a day if their number never changes, and {format_number(resized)} if it "
        f"follows the rate{saved}. Servers are the rate{headroom} / {exact_decimal(needed.rate_per_server)}, rounded "
        f"up: independent ones, fed in turn, with {_gpus(needed.gpus_per_server)} each."
    )
    return [*columns(rows, ">>>>>"), "", *_wrapped(text, terminal)]


def _gpus(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count:,} GPUs"


def gpu_page(found: GpuPlan, terminal: Terminal) -> str:
    """The answer, what was simulated on the way to it, and what would not start."""
    lines = [terminal.style(found.scenario.name, "bold"), "", *_wrapped(_gpu_answer(found), terminal)]
    names = list(dict.fromkeys(goal.metric for goal in found.goals))
    rows = [
        [*_gpu_cells(candidate), *_gpu_figures(candidate, names), _gpu_verdict(candidate)]
        for candidate in found.tried
        if candidate.verdict != NO_START
    ]
    heads = ["GPU", "memory", "step times", *(METRICS[name].label for name in names), ""]
    if rows:
        lines += ["", *_table(heads, rows, "<><" + ">" * len(names) + "<")]
    for reason, those in _not_starting(found).items():
        lines += ["", *_wrapped(f"Would not start, {reason}: {_listed(those)}.", terminal)]
    lines += ["", *_wrapped(_gpu_print(found), terminal)]
    return terminal.render(lines)


def _not_starting(found: GpuPlan) -> dict[str, list[Candidate]]:
    """Reason, in few words -> those that it holds for."""
    reasons: dict[str, list[Candidate]] = {}
    for candidate in found.tried:
        if candidate.verdict == NO_START:
            short = next((words for text, words in _REASONS.items() if text in candidate.why), candidate.why)
            reasons.setdefault(short, []).append(candidate)
    return reasons


def _listed(candidates: Sequence[Candidate]) -> str:
    """Each kind of GPU once, with the numbers of them."""
    numbers: dict[str, list[str]] = {}
    for candidate in candidates:
        numbers.setdefault(candidate.gpu, []).append(str(candidate.num_gpus))
    return "; ".join(gpu if some == ["1"] else f"{gpu} x {', '.join(some)}" for gpu, some in numbers.items())


def _gpu_answer(found: GpuPlan) -> str:
    wanted = "; ".join(goal.text for goal in found.goals)
    answer = found.answer
    if answer is None:
        return f"{wanted}: no GPU that was tried holds it with every seed."
    seeds = "one seed" if len(found.seeds) == 1 else f"all of {len(found.seeds)} seeds"
    return f"{wanted}: {_called(answer)} is the smallest that holds, with {seeds}."


def _called(candidate: Candidate) -> str:
    if candidate.num_gpus == 1:
        return candidate.gpu
    stages = candidate.num_gpus // candidate.tensor_parallel_size
    how = f" (tensor parallel {candidate.tensor_parallel_size})" if stages > 1 else ""
    return f"{candidate.num_gpus} x {candidate.gpu}{how}"


def _gpu_cells(candidate: Candidate) -> list[str]:
    band = "" if candidate.band_percent is None else f" ±{candidate.band_percent} %"
    return [_called(candidate), format_bytes(candidate.memory_bytes), candidate.step_times + band]


def _gpu_figures(candidate: Candidate, names: Sequence[str]) -> list[str]:
    return [METRICS[name].format(candidate.metrics[name]) for name in names]


def _gpu_verdict(candidate: Candidate) -> str:
    first = candidate.why.partition(";")[0]
    refused = f", {first}" if "turned away" in first else ""
    return f"{candidate.verdict}, {candidate.seeds_kept} of {candidate.seeds_tried} seeds{refused}"


def _gpu_print(found: GpuPlan) -> str:
    return (
        f"{_runs(found.runs)}. In order of the memory of all GPUs together, then fewer of them; prices aren't known "
        "here. Step times are measured for this GPU and model, or estimated by a roofline that may be off by so much. "
        "Settings stay as they are; kvlab advise looks for a setting that keeps a smaller GPU."
    )


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count:,} runs"


def _wrapped(text: str, terminal: Terminal) -> list[str]:
    return textwrap.wrap(text, terminal.width, break_on_hyphens=False)

"""Public cases that ask "which knob?", handed to the advisor: whether it names the knob that resolved them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import resources
from typing import Any, Final

from kvlab.advice.advise import find_fixes
from kvlab.advice.answer import Advice, Fix
from kvlab.advice.goals import parse_goals
from kvlab.cases import case
from kvlab.scenarios import Scenario, preset
from kvlab.setting_table import BLOCK_TABLE_LAB, VLLM_V1
from kvlab.sweeps.workers import Executor

FILE: Final = "advised.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A case, what its server shall keep, and what was found to resolve it."""

    id: str
    scenario: Callable[[], Scenario]
    slo: str
    """As `kvlab advise` takes it."""
    resolved: str
    """What resolved the report, in a sentence."""
    is_it: Callable[[Fix], bool] | None
    """Whether a fix is that one; None where the report's point is that a certain fix is none."""
    why: str
    """What stands before it in the ranking, or why it isn't there; and what of the scenario is ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advised:
    """What the advisor said."""

    id: str
    slo: str
    verdict: str
    kv_is_bottleneck: bool
    peak_kv_percent: float
    fixes: tuple[tuple[str, int], ...]
    """The changes with their prices, the cheapest first."""
    place: int | None
    """Of the fix that resolved the report, from 1; None where it isn't named."""


def _case(case_id: str, variant: str) -> Callable[[], Scenario]:
    return lambda: case(case_id).scenario(variant)


def _moves(name: str) -> Callable[[Fix], bool]:
    return lambda fix: [changed for changed, _ in fix.change] == [name]


def _reserving() -> Scenario:
    """U10: 64 users of 1,000 + 200 tokens, each of which reserves room for 4,096 tokens of answer."""
    return preset(BLOCK_TABLE_LAB).replace(
        allocator="contiguous", kv_memory_bytes=100_000 * 131_072, max_num_seqs=256, max_tokens=4_096,
        arrivals="closed-loop", max_concurrency=64, num_requests=256, prompt_tokens="1000", output_tokens="200",
    )  # fmt: skip


def _mixed() -> Scenario:
    """U40: 800 small, 150 medium and 50 large prompts on an L4."""
    return preset(VLLM_V1).replace(
        model="Qwen/Qwen2.5-7B-Instruct", gpu="L4-24GB", enable_prefix_caching=False, max_num_batched_tokens=2_048,
        max_model_len=10_000, request_rate="4.2", num_requests=1_000,
        prompt_tokens="histogram(200:800, 2000:150, 8000:50)", output_tokens="64",
    )  # fmt: skip


QUESTIONS: Final = (
    Question(
        id="U01",
        scenario=_case("U01", "no watermark"),
        slo="itl_p99<=20ms, preemptions_per_1000<=1000",
        resolved="A watermark of 2 to 5 %.",
        is_it=_moves("watermark"),
        why="Without the limit on preemptions a smaller budget of tokens per step would do as well: it makes the "
        "prefills between two tokens shorter, and mends nothing else.",
    ),
    Question(
        id="U05",
        scenario=_case("U05", "8 users"),
        slo="tpot_p95<=130ms",
        resolved="A cap of 7 running sequences; nobody answered the report.",
        is_it=_moves("max_num_seqs"),
        why="Before it stand flags of one point: room for whole prompts before they are let in, which vLLM has had on "
        "by default since the report, and a prefix cache, in which a preempted prompt finds itself again.",
    ),
    Question(
        id="U06",
        scenario=_case("U06", "256 clients"),
        slo="preemptions_per_1000<=5",
        resolved="A cap of 70 to 80 on the clients' concurrency.",
        is_it=_moves("max_num_seqs"),
        why="A watermark below one per cent costs a point less, and was not there yet. The cap is advised on the "
        "server, where it is a flag and the others wait; on the clients it turns users away, and stands last.",
    ),
    Question(
        id="U10",
        scenario=_reserving,
        slo="ttft_p95<=5s",
        resolved="Blocks on demand in place of worst-case reservations, or a realistic max_tokens.",
        is_it=lambda fix: [name for name, _ in fix.change] in (["allocator"], ["max_tokens"]),
        why="Simulated by the rules of the block-table lab, whose contiguous allocator reserves to the end as that "
        "engine's policy did: 19 run at once, as the report's arithmetic says.",
    ),
    Question(
        id="U31",
        scenario=_case("U31", "16 bits, 16,384 in"),
        slo="e2e_p50<=11.5s",
        resolved="Nothing: an FP8 cache is no remedy where room does not lack.",
        is_it=None,
        why="A third less latency was asked for. FP8 alone gives a tenth here, not the 0 to 3 % of the report: the "
        "roofline reads half the bytes in half the time, and that engine's kernels did not.",
    ),
    Question(
        id="U38",
        scenario=_case("U38", "no threshold"),
        slo="ttft_p90<=3s",
        resolved="long_prefill_token_threshold below max_num_batched_tokens: 2,048 of 4,096.",
        is_it=_moves("long_prefill_token_threshold"),
        why="3 s, as 19 short prompts wait here in place of one.",
    ),
    Question(
        id="U40",
        scenario=_mixed,
        slo="ttft_mean<=500ms",
        resolved="No free lunch: limits on partial prefills rank one way by the mean and another by p99.",
        is_it=_moves("long_prefill_token_threshold"),
        why="The scheduler of V1, whose rules these are, does not heed max_num_partial_prefills; its lever for that "
        "is the threshold. It mends the mean, and leaves p99 near 3 s (the next row): there only fewer users or more "
        "GPU help. The model and the rate are ours.",
    ),
    Question(
        id="U40, p99",
        scenario=_mixed,
        slo="ttft_p99<=2.4s",
        resolved="No free lunch.",
        is_it=None,
        why="",
    ),
)  # fmt: skip


def ask(question: Question, executor: Executor) -> Advised:
    """The advisor's answer, with one seed: the case's own."""
    scenario = question.scenario()
    advice = find_fixes(scenario, parse_goals(question.slo), seeds=(scenario.traffic.seed,), executor=executor)
    return Advised(
        id=question.id,
        slo=question.slo,
        verdict=advice.verdict,
        kv_is_bottleneck=advice.kv_is_bottleneck,
        peak_kv_percent=round(100 * advice.peak_kv_usage, 1),
        fixes=tuple((fix.text, fix.price) for fix in advice.fixes),
        place=_place(question, advice),
    )


def _place(question: Question, advice: Advice) -> int | None:
    if question.is_it is None:
        return None
    return next((place for place, fix in enumerate(advice.fixes, 1) if question.is_it(fix)), None)


def to_json(found: list[Advised]) -> str:
    """The committed file."""
    return json.dumps([asdict(each) for each in found], indent=1) + "\n"


def committed() -> list[Advised]:
    """What the advisor said when it was last asked; `python -m docs.generate --cases` asks anew."""
    rows: list[dict[str, Any]] = json.loads(resources.files(__package__).joinpath(FILE).read_text(encoding="utf-8"))
    return [Advised(**row | {"fixes": tuple((text, price) for text, price in row["fixes"])}) for row in rows]

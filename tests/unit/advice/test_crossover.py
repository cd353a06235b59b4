"""What a preemption costs by swap and by recompute: the formula, and the engine that charges it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

import kvlab
from kvlab.advice.crossover import Crossover, crossover, parse_link
from kvlab.advice.crossover_picture import picture
from kvlab.advice.preempted import preempted
from kvlab.core.config import Recording
from kvlab.errors import ConfigError, KvlabError
from kvlab.results import Run
from kvlab.scenarios import Scenario, load

STEPS = Recording(steps=True)


def trace(folder: Path, *requests: tuple[int, int]) -> str:
    """All at once, as (prompt, output) in tokens."""
    path = folder / "requests.csv"
    rows = [f"0,{prompt},{output}" for prompt, output in requests]
    path.write_text("arrival_s,prompt_tokens,output_tokens\n" + "\n".join(rows) + "\n")
    return str(path)


def lab(folder: Path, blocks: int, *requests: tuple[int, int], **settings: object) -> Scenario:
    """The preemption lab with so many blocks."""
    base = load("preemption-lab").replace(trace=trace(folder, *requests), prefill_budget_tokens=256, **settings)
    memory = (31 << 29) + blocks * (8 << 20)  # weights and overhead are 15.5 GiB
    return base.replace(gpu_memory_utilization=1, gpu_memory_bytes=memory)


def run(scenario: Scenario, mode: str) -> Run:
    return kvlab.simulate(scenario.replace(preemption_mode=mode), record=STEPS)


def swap_less_recompute(scenario: Scenario) -> tuple[int, int]:
    """By how much longer the run is with swapping, and the context of its one preemption."""
    swapped, recomputed = run(scenario, "swap"), run(scenario, "recompute")
    assert (swapped.metrics.swap_outs, swapped.metrics.preemptions) == (1, 1)
    assert (recomputed.metrics.recomputes, recomputed.metrics.preemptions) == (1, 1)
    context = recomputed.metrics.recomputed_tokens
    assert swapped.record.totals.swapped_tokens == 2 * context
    return swapped.record.totals.end_ns - recomputed.record.totals.end_ns, context


def test_the_lab_charges_what_the_formula_says_on_both_sides_of_the_break_even(tmp_path: Path) -> None:
    verdicts = {}
    for prompt in (100, 240, 300, 500):
        # one block is free for both; the first takes it, and the second makes room when it needs another
        blocks = 2 * -(-prompt // 16) + 1
        scenario = lab(tmp_path, blocks, (prompt, 60), (prompt, 60), slow_pcie=2)
        longer_ns, context = swap_less_recompute(scenario)
        point = crossover(scenario).at(context)
        assert longer_ns == point.swap_ns - point.recompute_ns
        verdicts[context] = point.cheaper
    found = crossover(lab(tmp_path, 200, (1, 1), slow_pcie=2))
    assert found.verdict == "depends"
    assert set(verdicts.values()) == {"swap", "recompute"}
    for context, cheaper in verdicts.items():
        assert [part.cheaper for part in found.ranges if part.first <= context <= part.last] == [cheaper]


def test_beside_others_too(tmp_path: Path) -> None:
    """The first decodes on to the end, the second makes room by ending, the third was preempted and comes back."""
    scenario = lab(tmp_path, 43, (100, 400), (200, 30), (330, 60), slow_pcie=2)
    longer_ns, context = swap_less_recompute(scenario)
    costs = preempted(scenario, beside=1)
    assert longer_ns == costs.swap_ns(context) - costs.recompute_ns(context)
    assert longer_ns != (alone := preempted(scenario)).swap_ns(context) - alone.recompute_ns(context)


@pytest.mark.parametrize("prompt", [300, 3_000])
def test_so_does_vllm_before_v1(tmp_path: Path, prompt: int) -> None:
    blocks = 2 * -(-prompt // 16) + 4
    scenario = load("vllm-v0").replace(
        trace=trace(tmp_path, (prompt, 60), (prompt, 60)),
        num_gpu_blocks_override=blocks,
        watermark=f"{2.5 / blocks:.6f}",  # two blocks: room to grow for who comes back
        gpu_memory_utilization="0.9",
        max_model_len=prompt + 100,
    )
    longer_ns, context = swap_less_recompute(scenario)
    costs = preempted(scenario)
    assert longer_ns == costs.swap_ns(context) - costs.recompute_ns(context)
    assert costs.swap_is_cheaper(context) == (longer_ns < 0)


def test_a_prefill_of_vllm_before_v1_holds_up_everybody(tmp_path: Path) -> None:
    """As beside others in the lab; but here the step that computes it again runs for nobody else."""
    blocks = 44
    scenario = load("vllm-v0").replace(
        trace=trace(tmp_path, (100, 400), (200, 30), (330, 60)),
        num_gpu_blocks_override=blocks,
        watermark=f"{2.5 / blocks:.6f}",
        gpu_memory_utilization="0.9",
        max_model_len=600,
        step_time="linear",
    )
    longer_ns, context = swap_less_recompute(scenario)
    costs = preempted(scenario, beside=1)
    assert longer_ns == costs.swap_ns(context) - costs.recompute_ns(context)
    whole_step_ns = 8_000_000 + 2 * 100_000 + (context + 1) * 60_000
    assert costs.recompute_ns(context) == whole_step_ns


def test_the_steps_of_a_recompute_under_v1(tmp_path: Path) -> None:
    scenario = load("vllm-v1").replace(
        trace=trace(tmp_path, (3000, 60), (3000, 60)),
        max_model_len=4096,
        num_gpu_blocks_override=1 + 2 * 188 + 2,
        max_num_batched_tokens=1024,
        enable_prefix_caching=False,
        scheduler_reserve_full_isl=True,
    )
    done = kvlab.simulate(scenario, record=STEPS)
    assert done.metrics.preemptions == 1
    steps = done.timeline
    after = steps["t_ns"] > done.preemptions["t_ns"][0]
    again = steps["dur_ns"][after & (steps["prefill_tokens"] > 0)]
    assert len(again) == 3
    assert int(again.sum()) == preempted(scenario).recompute_ns(done.metrics.recomputed_tokens)


def test_every_length_has_its_range_and_every_end_is_one() -> None:
    scenario = load("vllm-v0")
    found, costs = crossover(scenario), preempted(scenario)
    assert found.ranges[0].first == 1
    assert found.ranges[-1].last == found.longest == 16_383
    for before, after in zip(found.ranges, found.ranges[1:], strict=False):
        assert after.first == before.last + 1
        assert costs.swap_is_cheaper(before.last) == (before.cheaper == "swap") != costs.swap_is_cheaper(after.first)
    assert found.break_even_tokens == found.ranges[-1].first


def test_at_the_bandwidth_of_break_even_both_cost_the_same() -> None:
    found = crossover(load("vllm-v1"))
    for point in found.points[::20]:
        rate = point.break_even_bytes_per_s
        if rate is not None:
            copies_ns = Fraction(2 * point.context_tokens * found.copies.bytes_per_token * 10**9) / rate
            at_link_ns = 2 * found.copies.ns(point.context_tokens)
            assert point.swap_ns - at_link_ns + copies_ns == point.recompute_ns


@pytest.mark.parametrize(
    ("changes", "link", "verdict", "words"),
    [
        ({"slow_pcie": "5"}, None, "recompute", "computing it again is cheaper at every context"),
        ({"swap_per_token_ns": 0, "swap_per_block_ns": 0}, None, "swap", "swapping is cheaper at every context"),
        ({}, 10**15, "depends", "1,000,000 GB/s one way, as given"),
        ({"per_prefill_token_ns": 0, "prefill_budget_tokens": 10_000_000}, None, "recompute", "No link is fast enough"),
    ],
)
def test_the_answer_in_words(changes: dict[str, object], link: int | None, verdict: str, words: str) -> None:
    found = crossover(load("preemption-lab").replace(**changes), link_bytes_per_s=link)
    assert found.verdict == verdict
    assert words in found.text


def test_what_has_no_crossover_is_refused() -> None:
    with pytest.raises(ConfigError, match="take preemption-lab"):
        crossover(load("block-table-lab"))
    with pytest.raises(ConfigError, match="beside"):
        crossover(load("vllm-v1"), beside=256)
    with pytest.raises(KvlabError, match="would not start"):
        crossover(load("vllm-v1").replace(model="Qwen/Qwen2.5-72B-Instruct"))
    with pytest.raises(ConfigError, match="from 1 to 16,383"):
        crossover(load("vllm-v1")).at(16_384)
    for text in ("0", "fast", "-3GB/s"):
        with pytest.raises(ConfigError, match="link"):
            parse_link(text)
    with pytest.raises(ConfigError, match="25GB/s"):
        parse_link("25")
    with pytest.raises(ConfigError, match="at least 1 MB/s"):
        crossover(load("vllm-v1"), link_bytes_per_s=25)
    assert parse_link("1MB/s") == 10**6


def test_it_is_a_table_and_a_picture(tmp_path: Path) -> None:
    found: Crossover = crossover(load("vllm-v1"))
    assert found.table().column_names[0] == found.__dataframe__().column_names()[0] == "context_tokens"
    assert found.table().num_rows == len(found.points) == len(found.to_dict()["points"])
    costs, link = picture(found).panels
    assert costs.mark == link.mark == found.break_even_tokens
    assert link.limit == 32.0
    assert "swapping is cheaper from" in found.plot(tmp_path / "c.html").read_text()

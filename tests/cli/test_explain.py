"""`kvlab explain`: every metric and every setting."""

from __future__ import annotations

import pytest
from tests.cli.terminals import Cli

from kvlab.metrics import METRICS, Metric
from kvlab.setting_table import SETTINGS


@pytest.mark.parametrize("name", [*METRICS, *SETTINGS])
def test_everything_is_explained(name: str, cli: Cli) -> None:
    code, out, err = cli("explain", name)
    assert (code, err) == (0, "")
    assert name in out
    assert "  source " in out
    assert max(map(len, out.splitlines())) <= 100


def test_a_family_of_latencies_is_explained_at_once(cli: Cli) -> None:
    out = cli("explain", "ttft").out
    assert out.startswith("TTFT  mean_ttft_ns, p50_ttft_ns")
    assert "vllm:time_to_first_token_seconds" in out


@pytest.mark.parametrize("word", ["--max-num-seqs", "max-num-seqs", "MAX_NUM_SEQS"])
def test_a_flag_is_a_name(word: str, cli: Cli) -> None:
    out = cli("explain", word).out
    assert "--max-running-requests" in out
    assert "64 in preemption-lab-v1" in out


def test_an_alias_and_an_event_are_explained(cli: Cli) -> None:
    assert "kv_memory_bytes  --kv-memory-bytes, --kv-memory" in cli("explain", "kv-memory").out
    assert "the flag alone means 5" in cli("explain", "slow_pcie").out
    assert "recompute, swap" in cli("explain", "preemption_mode").out
    assert "on, off" in cli("explain", "long_report_users").out
    assert "; or none" in cli("explain", "trace").out


def first_lines(out: str) -> list[str]:
    """The heads of what was explained."""
    return [paragraph.split("\n")[0] for paragraph in out.split("\n\n")]


@pytest.mark.parametrize("metric", METRICS.values(), ids=lambda metric: str(metric.label))
def test_a_label_is_a_name(metric: Metric, cli: Cli) -> None:
    code, out, _ = cli("explain", metric.label)
    assert code == 0
    assert any(metric.name in head for head in first_lines(out))


def test_every_row_of_the_page_and_of_a_comparison_can_be_looked_up(cli: Cli) -> None:
    small = ("-q", "--set", "duration_ns=20s", "--set", "slo=ttft<=2s")
    page = cli("run", "preemption-lab", *small, "--no-chart").out.split("\n\n", 1)[1]
    table = cli("compare", "preemption-lab", "preemption-lab:seed=2", *small, "--all").out.split("change\n")[1]
    labels = {line.split("  ")[0] for line in (page + table).splitlines() if line[:1].strip()}
    assert {"First token (TTFT)", "Paused > 1 s", "Goodput", "Requests", "KV usage, peak"} <= labels
    for label in labels:
        assert cli("explain", label).code == 0, label


@pytest.mark.parametrize(
    ("word", "heads"),
    [
        ("ITL", ["ITL  mean_gap_ns, p50_gap_ns, "]),
        ("itl", ["ITL  mean_gap_ns, p50_gap_ns, "]),
        ("ITL p99", ["ITL p99  p99_gap_ns"]),
        ("goodput", ["Goodput  goodput_per_s", "Requests within the SLO  good_ratio"]),
        ("KV usage", ["KV usage, mean  mean_kv", "KV usage, peak  peak_kv"]),
        *((word, [word.upper()]) for word in ("ttft", "tpot", "e2e")),
        ("gap", ["ITL  "]),
    ],
)
def test_short_words_resolve(word: str, heads: list[str], cli: Cli) -> None:
    found = first_lines(cli("explain", word).out)
    assert len(found) == len(heads)
    assert all(line.startswith(head) for line, head in zip(found, heads, strict=True))


@pytest.mark.parametrize(
    ("word", "engines", "name"),
    [
        ("schedule_conservativeness", "SGLang", "watermark, headroom_blocks"),
        ("--chunked-prefill-size", "SGLang", "max_num_batched_tokens, prefill_budget_tokens"),
        ("--max-batch-prefill-tokens", "TGI", "max_num_batched_tokens, prefill_budget_tokens"),
        ("vllm:num_preemptions_total", "vLLM", "preemptions, recomputes"),
        ("max_running_requests", "SGLang", "max_num_seqs"),
        ("time_to_first_token_seconds", "vLLM, SGLang", "ttft"),
        ("tgi_queue_size", "TGI", "mean_waiting, peak_waiting"),
        ("host_cache_size", "TensorRT-LLM", "preemption_mode, swap_space_bytes"),
    ],
)
def test_an_engines_name_leads_to_kvlabs(word: str, engines: str, name: str, cli: Cli) -> None:
    out = cli("explain", word).out
    assert out.startswith(f"{word} ({engines}) is {name} in kvlab.\n\n")
    assert "  source " in out


@pytest.mark.parametrize("word", ["sum", "of", "always", "largest", "bench_serving", "averaged"])
def test_a_word_that_is_no_name_is_unknown(word: str, cli: Cli) -> None:
    assert "unknown metric or setting" in cli.refuses("explain", word)


def test_without_a_name_everything_is_listed(cli: Cli) -> None:
    out = cli("explain").out
    assert all(name in out for name in SETTINGS)
    assert all(
        name in out for name in METRICS if not name.endswith(("ttft_ns", "gap_ns", "tpot_ns", "e2e_ns", "time_ns"))
    )


def test_an_unknown_name_gets_the_nearest(cli: Cli) -> None:
    assert 'did you mean "preemptions_per_1000"?' in cli.refuses("explain", "preemptions_per_100")

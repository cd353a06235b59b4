"""`kvlab explain`: every metric and every setting."""

from __future__ import annotations

import pytest
from tests.cli.terminals import Cli

from kvlab.metrics import METRICS
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


def test_without_a_name_everything_is_listed(cli: Cli) -> None:
    out = cli("explain").out
    assert all(name in out for name in SETTINGS)
    assert all(
        name in out for name in METRICS if not name.endswith(("ttft_ns", "gap_ns", "tpot_ns", "e2e_ns", "time_ns"))
    )


def test_an_unknown_name_gets_the_nearest(cli: Cli) -> None:
    assert 'did you mean "preemptions_per_1000"?' in cli.refuses("explain", "preemptions_per_100")

"""`kvlab crossover`, as an operator types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.terminals import Cli


def test_the_page_has_both_sides_of_the_crossing(cli: Cli) -> None:
    code, out, _ = cli("crossover", "preemption-lab", "--slow-pcie", "2")
    assert code == 0
    rows = {words[0]: words for line in out.splitlines() if (words := line.split())}
    assert "recompute" in rows["511"]
    assert "swap" in rows["512"]


def test_json_and_a_picture_of_a_server_of_vllm(cli: Cli, tmp_path: Path) -> None:
    command = "vllm serve Qwen/Qwen2.5-7B-Instruct --max-model-len 4096"
    args = ("--vllm", command, "--gpu", "H100", "--link", "20GB/s", "--plot", tmp_path / "c.html")
    code, out, err = cli("crossover", *args, "--json", "--beside", "3")
    assert (code, err) == (0, f"wrote {tmp_path / 'c.html'}\n")
    document = json.loads(out)
    assert document["copies"]["bytes_per_s"] == 20e9
    assert (document["longest_tokens"], document["beside"]) == (4095, 3)
    assert document["points"][-1]["context_tokens"] == 4095


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "which scenario?"),
        (["block-table-lab"], "take preemption-lab, vllm-v0 or vllm-v1"),
        (["vllm-v1", "--link", "fast"], 'link = "fast": expected bytes per second, such as 25GB/s'),
        (["vllm-v1", "--link", "0"], "link"),
        (["vllm-v1", "--beside", "256"], "must be from 0 to max_num_seqs - 1, 255"),
        (["vllm-v1", "--plot", "x.pdf"], "expected a file name that ends in"),
        (["vllm-v1", "--model", "Qwen/Qwen2.5-72B-Instruct"], "would not start"),
    ],
)
def test_what_cannot_be_asked_is_refused(args: list[str], message: str, cli: Cli) -> None:
    assert message in cli.refuses("crossover", *args)

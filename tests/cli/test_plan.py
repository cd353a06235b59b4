"""`kvlab plan`, as an operator types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.terminals import Cli

from kvlab.advice.goals import parse_goals
from kvlab.advice.plan import Probe
from kvlab.cli.plan_page import knee_bar

LAB = ("plan", "preemption-lab", "--duration", "20s", "--workers", "1", "--seeds", "1")
SERVER = ("plan", "vllm-v1", "--duration", "10s", "--workers", "1", "--seeds", "1")


def test_the_largest_rate_with_its_knee_and_a_day(cli: Cli, tmp_path: Path) -> None:
    day = tmp_path / "day.csv"
    day.write_text("time,rate\n08:00,9\n20:00,2\n")
    code, out, _ = cli(*LAB, "--slo", "ttft_p95<=2s", "--profile", day, "--headroom", "10%")
    assert code == 0
    lines = out.splitlines()
    rows = [line for line in lines if " of 1 " in line]
    assert any("│" in row and ">" in row for row in rows), "bars, with one that goes on"
    assert [line.split()[:3] for line in lines if line.lstrip().startswith(("08:00", "20:00"))] == [
        ["08:00", "12", "9"],
        ["20:00", "12", "2"],
    ]
    assert "GPU-hours a day" in " ".join(lines)
    assert "Step times" not in out, "a lab's are settings"
    assert all(len(line) <= 80 for line in lines)


def test_as_json_with_a_picture(cli: Cli, tmp_path: Path) -> None:
    day = ("--profile", "1,9")
    code, out, err = cli(*LAB, "--slo", "ttft_p95<=2s", "--json", *day, "--plot", tmp_path / "knee.html")
    assert (code, err) == (0, f"wrote {tmp_path / 'knee.html'}\n")
    document = json.loads(out)
    assert document["field"] == "request_rate"
    assert document["day"]["rate_per_server"] == document["answer"]
    assert document["step_times"] == [], "a lab's are settings"
    assert [part["hours"] for part in document["day"]["parts"]] == [12, 12]
    assert "The limit of one seed" in (tmp_path / "knee.html").read_text()


def test_goodput_by_limits_of_its_own(cli: Cli) -> None:
    code, out, _ = cli(*LAB, "--slo", "good_ratio>=95%", "--good", "ttft<=2s, tpot<=90ms", "--json")
    assert code == 0
    assert json.loads(out)["slo"] == ["Requests within the SLO at least 95 %"]


def test_a_server_of_vllm(cli: Cli) -> None:
    code, out, _ = cli(
        "plan", "--vllm", "vllm serve Qwen/Qwen2.5-7B-Instruct --port 80", "--gpu", "A100-80GB", *SERVER[2:],
        "--slo", "ttft_p95<=2s", "--step", "4",
    )  # fmt: skip
    assert code == 0
    assert "Ignored       --port (of the HTTP server)" in out
    assert "A100-SXM-80GB and Qwen/Qwen2.5-7B-Instruct; may be 35 % off either way." in " ".join(out.split())


def test_the_smallest_gpu(cli: Cli) -> None:
    args = (*SERVER, "--smallest-gpu", "--slo", "ttft_p95<=2s", "--request-rate", "3", "--gpus", "T4,L4,H100-SXM-80GB")
    code, out, _ = cli(*args)
    assert code == 0
    assert "is the smallest that holds, with one seed" in out
    assert "Would not start, as the weights leave no memory for KV: T4-16GB." in out
    assert "Settings stay as they are; kvlab advise looks for a setting" in " ".join(out.split())
    code, out, _ = cli(*args, "--json", "--tensor-parallel-size", "4")
    document = json.loads(out)
    assert {row["tensor_parallel_size"] for row in document["tried"]} == {4}
    assert document["answer"] == document["tried"][-1]


@pytest.mark.parametrize("width", [8, 11, 24])
@pytest.mark.parametrize(
    ("slo", "kept", "missed"),
    [
        ("itl_p99<=80ms", [0, 1e6, 79_999_999, 80e6], [80_000_001, 81e6, 120e6, 159e6, 161e6, 1e12]),
        ("throughput>=700", [700, 700.1, 710, 1400, 7e6], [699.999, 690, 350, 0]),
        ("preemptions<=0", [0], [1, 1000]),
    ],
)
def test_a_bar_tells_a_miss_however_small(slo: str, kept: list[float], missed: list[float], width: int) -> None:
    (goal,) = parse_goals(slo)

    def bar(value: float | None) -> str:
        of = {goal.metric: value}
        return knee_bar(goal, Probe(value=1, seeds_kept=0, seeds_tried=1, metrics=of, low=of, high=of), width)

    def passes(drawn: str) -> bool:
        before, after = drawn.split("│")
        return not after.strip() if goal.at_most else before.endswith("█")

    assert [passes(bar(value)) for value in [*kept, *missed]] == [True] * len(kept) + [False] * len(missed)
    assert {len(bar(value)) for value in [*kept, *missed]} == {width}
    lengths = [len(bar(value).replace(" ", "")) for value in sorted([*kept, *missed])]
    assert lengths == sorted(lengths), "the more, the longer"
    assert bar(None).rstrip() == " " * (width // 2) + "│"


def test_where_nothing_holds_the_exit_code_says_so(cli: Cli) -> None:
    code, out, _ = cli(*LAB, "--slo", "itl_p50<=1ms")
    assert code == 1
    assert "no request_rate that was tried holds with every seed" in out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "slo = None: is missing"),
        (["--slo", "kv_usage<=200%"], 'slo kv_usage = "200%": is more than all of it'),
        (["--slo", "goodput>=1"], '--good "ttft<=2s, tpot<=60ms"'),
        (["--slo", "goodput>=1", "--good", "ttft<=2"], "good = \"ttft<=2\": needs units"),
        (["--slo", "goodput>=1", "--good", "fast"], 'good = "fast": expected limits'),
        (["--slo", "goodput>=1", "--good", "ttft<=2s", "--set", "slo=e2e<=1s"], "is given twice"),
        (["--slo", "ttft_p95<=2s", "--largest", "seed", "--least", "seed"], "either --largest or --least"),
        (["--slo", "ttft_p95<=2s", "--gpus", "L4"], "goes with --smallest-gpu"),
        (["--slo", "ttft_p95<=2s", "--headroom", "20%"], "goes with --profile"),
        (["--slo", "ttft_p95<=2s", "--profile", "1,2", "--headroom", "-1"], "can't be negative"),
        (["--slo", "ttft_p95<=2s", "--profile", "1,2", "--headroom", "20"], "20 % is written 20%"),
        (["--slo", "ttft_p95<=2s", "--largest", "seed"], "no more or less"),
        (["--slo", "ttft_p95<=2s", "--profile", "1,2", "--least", "max_num_seqs"], "needs the largest request_rate"),
        (["--slo", "ttft_p95<=2s", "--smallest-gpu"], "has no GPU of a name"),
        (["--slo", "ttft_p95<=2s", "--smallest-gpu", "--plot", "x.png"], "no meaning beside --smallest-gpu"),
        (["--slo", "ttft_p95<=2s", "--plot", "x.gif"], "expected a file name that ends in"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused(args: list[str], message: str, cli: Cli) -> None:
    assert message in cli.refuses(*LAB, *args)

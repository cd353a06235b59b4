"""`kvlab run`: results on stdout, the rest on stderr, files, and a run that is stopped."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.cli.terminals import Cli, program

import kvlab
from kvlab.cli.progress import watched
from kvlab.scenarios import preset

SHORT = ("--duration", "20s", "-q")


@pytest.mark.parametrize("lab", ["preemption-lab", "block-table-lab"])
def test_the_page_shows_every_request_and_the_figures_of_the_api(lab: str, cli: Cli) -> None:
    code, out, err = cli("run", lab, *SHORT)
    metrics = kvlab.simulate(kvlab.scenario(lab, duration_ns="20s")).metrics
    assert (code, err) == (0, "")
    assert f"{lab}-v1 · duration_ns 20 s (preset: 120 s) · seed 1" in out
    assert f"{metrics.arrived} arrived = {metrics.finished} finished + 0 rejected" in out
    assert f"{metrics.kv_capacity_tokens:,} tokens" in out
    assert "100 % ┤" in out
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 80


def test_the_preset_tells_its_story_in_a_sentence(cli: Cli) -> None:
    out = cli("run", "preemption-lab").out
    assert "The KV cache is full after 38.8 s. Requests are preempted 67 times, 149 per" in out
    assert "67 recomputed: 43,081 tokens computed again" in out


def test_timing_goes_to_stderr_and_quiet_silences_it(cli: Cli) -> None:
    loud, quiet = cli("run", "preemption-lab", "--duration", "20s"), cli("run", "preemption-lab", *SHORT)
    assert loud.out == quiet.out
    assert loud.err.startswith("simulated 66 requests")
    assert quiet.err == ""


def test_output_is_byte_identical_between_runs_and_hash_seeds() -> None:
    outputs = set()
    for seed in ("0", "1"):
        with program("run", "preemption-lab", *SHORT, "--json", PYTHONHASHSEED=seed) as process:
            outputs.add(process.communicate()[0])
        with program("run", "preemption-lab", *SHORT, PYTHONHASHSEED=seed, COLUMNS="200") as process:
            outputs.add(process.communicate()[0])
    assert len(outputs) == 2


def test_json_is_the_runs_own(cli: Cli) -> None:
    run = kvlab.simulate(kvlab.scenario("preemption-lab", duration_ns="20s"), record=kvlab.METRICS)
    assert json.loads(cli("run", "preemption-lab", *SHORT, "--json").out) == json.loads(json.dumps(run.to_dict()))


def test_flags_set_and_aliases_mean_the_same(cli: Cli) -> None:
    expected = cli("run", "block-table-lab", *SHORT, "--kv-memory-bytes", "2GiB", "--json").out
    assert cli("run", "block-table-lab", *SHORT, "--kv-memory", 2 * 2**30, "--json").out == expected
    assert cli("run", "block-table-lab", *SHORT, "--set", "kv-memory-bytes=2 GiB", "--json").out == expected
    assert cli("run", "--set", "kv_memory_bytes=2048MiB", *SHORT, "--json", "block-table-lab").out == expected


@pytest.mark.parametrize(
    ("lab", "flag", "setting", "value"),
    [
        ("preemption-lab", "--slow-pcie", "slow_pcie", 5),
        ("preemption-lab", "--burst", "burst", 2.5),
        ("block-table-lab", "--longer-answers", "longer_answers", 2),
        ("block-table-lab", "--parallel-sampling", "num_samples", 4),
        ("block-table-lab", "--long-report-users", "long_report_users", True),
    ],
)
def test_events_need_no_value_wherever_they_stand(
    lab: str, flag: str, setting: str, value: object, cli: Cli, tmp_path: Path
) -> None:
    path = tmp_path / "s.json"
    for args in ([lab, flag], [flag, lab], [lab, flag, "--seed", "1"]):
        assert cli("run", *args, *SHORT, "--save-scenario", path).code == 0
        document = json.loads(path.read_text())
        assert {**document["server"], **document["traffic"]}[setting] == value


def test_an_event_takes_a_value_too(cli: Cli) -> None:
    assert "burst 3 (preset: 1)" in cli("run", "preemption-lab", "--burst", "3", *SHORT).out
    assert "slo ttft<=2s" in cli("run", "preemption-lab", "--slo", "ttft <= 2 s", *SHORT).out


def test_a_saved_scenario_runs_to_the_same_result(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    first = cli("run", "preemption-lab", "--max-num-seqs", "9", "--save-scenario", path, *SHORT)
    assert cli("run", path, "-q").out == first.out
    assert kvlab.scenario(str(path)) == preset("preemption-lab").replace(max_num_seqs=9, duration_ns="20s")


@pytest.mark.parametrize("table_format", ["parquet", "csv"])
def test_out_holds_the_tables_and_the_result(table_format: str, cli: Cli, tmp_path: Path) -> None:
    code, _, err = cli("run", "preemption-lab", *SHORT, "--out", tmp_path / "o", "--format", table_format)
    assert code == 0
    names = ["result.json", *(f"{name}.{table_format}" for name in ("requests", "timeline", "preemptions"))]
    assert sorted(path.name for path in (tmp_path / "o").iterdir()) == sorted(names)
    assert all(f"wrote {tmp_path / 'o' / name}\n" in err for name in names)
    assert json.loads((tmp_path / "o" / "result.json").read_text())["metrics"]["arrived"] == 66


@pytest.mark.parametrize("kind", ["html", "png", "svg"])
def test_plot_draws_the_run(kind: str, cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / f"run.{kind}"
    assert cli("run", "preemption-lab", *SHORT, "--plot", path).code == 0
    assert path.stat().st_size > 10_000


def test_several_plots_are_drawn(cli: Cli, tmp_path: Path) -> None:
    paths = [tmp_path / "a.html", tmp_path / "b.svg"]
    code, _, err = cli("run", "preemption-lab", *SHORT, "--plot", paths[0], "--plot", paths[1])
    assert code == 0
    assert err == f"wrote {paths[0]}\nwrote {paths[1]}\n"
    assert all(path.stat().st_size > 10_000 for path in paths)


def test_no_chart_keeps_the_figures_and_loses_the_chart(cli: Cli) -> None:
    with_chart = cli("run", "preemption-lab", *SHORT).out
    without = cli("run", "preemption-lab", *SHORT, "--no-chart").out
    assert "┤" not in without
    assert with_chart.endswith(without.split("\n\n", 1)[1])


def test_a_window_of_a_trace_is_replayed_at_speed(cli: Cli, tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    rows = "".join(f"{i * 100_000_000},{100 + i},20\n" for i in range(100))
    trace.write_text("arrival_ns,prompt_tokens,output_tokens\n" + rows)
    out = cli("run", "preemption-lab", "-q", "--trace", trace, "--from", "2s", "--until", "5s", "--speed", "2").out
    assert "30 arrived = 30 finished + 0 rejected" in out
    assert "in the first 1.5 s" in out
    assert "trace_speed 2 (preset: 1)" in out


def test_rejected_requests_are_accounted_for(cli: Cli) -> None:
    out = cli("run", "block-table-lab", *SHORT, "--kv-memory", "200MiB").out
    assert "71 arrived = 46 finished + 25 rejected" in out


def test_a_run_without_requests_has_no_latencies(cli: Cli) -> None:
    code, out, _ = cli("run", "preemption-lab", "-q", "--request-rate", "0.001")
    assert code == 0
    assert out.endswith("\n\nNo request came in 120 s.\n\n0 arrived = 0 finished + 0 rejected\n")
    assert "–" not in out


def test_when_nothing_fits_the_books_come_before_the_error(cli: Cli, tmp_path: Path) -> None:
    args = ("run", "block-table-lab", "-q", "--kv-memory", "16MiB")
    code, out, err = cli(*args, "--out", tmp_path / "o")
    assert code == 2
    assert out.endswith("501 arrived = 0 finished + 501 rejected\n")
    assert "No request ran: none can ever fit in the KV cache of 128 tokens, 16 MiB." in out
    assert (
        'kvlab: error: block-table-lab with a KV cache = "128 tokens, 16 MiB": every request is rejected (501 of' in err
    )
    assert json.loads((tmp_path / "o" / "result.json").read_text())["metrics"]["rejected"] == 501
    code, out, err = cli(*args, "--json")
    assert code == 2
    assert json.loads(out)["metrics"]["arrived"] == 501
    assert err.startswith("kvlab: error: ")


def test_a_flag_may_say_the_same_twice(cli: Cli) -> None:
    once, twice = cli("run", "preemption-lab", *SHORT), cli("run", "preemption-lab", *SHORT, *SHORT)
    assert (twice.code, twice.out) == (0, once.out)


@pytest.mark.parametrize("when", ["before its imports", "while it imports"])
def test_ctrl_c_in_the_middle_of_an_import_is_quiet(when: str) -> None:
    module = {"before its imports": "click", "while it imports": "numpy"}[when]
    code = f"""
import os, signal, sys
class Pressed:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Pressed())
sys.argv = ["kvlab", "run", "preemption-lab"]
from kvlab.cli import main
main()
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (130, "")
    assert result.stderr in ("", "kvlab: error: interrupted, without results\n")


def test_a_ctrl_c_that_comes_twice_at_once_keeps_the_results_and_a_later_one_ends_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = signal.getsignal(signal.SIGINT)
    try:
        with watched(preset("preemption-lab"), quiet=True) as progress:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            assert progress.stopped
        signal.raise_signal(signal.SIGINT)  # the rest of the press, while results are written
        monkeypatch.setattr("time.monotonic", lambda: float("inf"))
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(not hasattr(signal, "SIGINT"), reason="needs signals")
@pytest.mark.parametrize("as_json", [False, True])
def test_ctrl_c_keeps_partial_results_and_says_so(as_json: bool, tmp_path: Path) -> None:
    started = tmp_path / "started.json"
    arguments = ["run", "preemption-lab", "--duration", "1000h", "--save-scenario", started]
    with program(*arguments, *(["--json"] if as_json else [])) as process:
        while not started.exists():
            assert process.poll() is None
            time.sleep(0.02)
        time.sleep(0.7)  # the scenario is saved just before the run starts
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "kvlab: interrupted: these are partial results\n" in err
    assert "Traceback" not in err
    if as_json:
        document = json.loads(out)
        assert document["interrupted"] is True
        metrics = document["metrics"]
        assert metrics["arrived"] == metrics["finished"] + metrics["rejected"] + metrics["unfinished"]
    else:
        assert out.startswith("PARTIAL RESULT: interrupted after ")
        assert " unfinished" in out.splitlines()[-1]

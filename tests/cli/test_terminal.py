"""Width, colours, characters; the chart cell by cell."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from tests.cli.terminals import Cli

import kvlab
from kvlab.cli.chart import chart, time_axis
from kvlab.cli.program import COMMANDS
from kvlab.cli.progress import Progress, watched
from kvlab.cli.report import report
from kvlab.cli.terminal import MAX_WIDTH, MIN_WIDTH, Terminal, columns, flow, terminal_for, to_ascii, visible_length
from kvlab.results import Run


class Tty(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def tty(encoding: str = "utf-8") -> Tty:
    return Tty(io.BytesIO(), encoding=encoding)


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "100")


def run_of(**changes: object) -> Run:
    return kvlab.simulate(kvlab.scenario("preemption-lab", **changes), record=kvlab.Recording(steps=True))


def test_a_terminal_has_colours_and_its_own_width() -> None:
    assert terminal_for(tty()) == Terminal(width=100, colour=True, unicode=True)


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colours_can_be_turned_off(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    assert not terminal_for(tty()).colour


def test_a_pipe_is_80_wide_and_plain_whatever_the_machine() -> None:
    assert terminal_for(io.TextIOWrapper(io.BytesIO(), encoding="utf-8")) == Terminal()


@pytest.mark.parametrize(("columns_", "width"), [("10", MIN_WIDTH), ("500", MAX_WIDTH)])
def test_the_width_stays_readable(columns_: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns_)
    assert terminal_for(tty()).width == width


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_a_terminal_without_braille_gets_ascii(encoding: str) -> None:
    terminal = terminal_for(tty(encoding))
    assert not terminal.unicode
    scenario = kvlab.scenario("preemption-lab", max_num_seqs=8, duration_ns="20s", preemption_mode="swap")
    text = report(kvlab.simulate(scenario), scenario, terminal, with_chart=True)
    assert text.isascii()
    assert "?" not in text


def test_braille_becomes_marks_by_how_full_it_is() -> None:
    assert to_ascii("⠀⡀⣤⣿ ▁█·") == " .##" + " .#-"


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("lab", ["preemption-lab", "block-table-lab"])
def test_no_line_is_wider_than_the_terminal(width: int, lab: str) -> None:
    scenario = kvlab.scenario(lab, max_num_seqs=20, request_rate="5", seed=3, block_size=32)
    text = report(kvlab.simulate(scenario), scenario, Terminal(width=width, colour=True), with_chart=True)
    assert max(map(visible_length, text.splitlines())) <= width


def test_the_top_of_the_chart_is_reached_by_a_full_cache_only() -> None:
    nearly, full = run_of(max_num_seqs=44), run_of()
    assert nearly.metrics.peak_kv_usage_ratio is not None
    assert 0.9 < nearly.metrics.peak_kv_usage_ratio < 1
    assert not _reaches_the_top(chart(nearly, Terminal()))
    assert _reaches_the_top(chart(full, Terminal()))


def _reaches_the_top(lines: list[str]) -> bool:
    highest_dots = 0x01 | 0x08
    return any((ord(cell) - 0x2800) & highest_dots for cell in set(lines[0][12:]) - {" "})


def test_every_preemption_is_in_the_chart_by_what_became_of_it() -> None:
    run = run_of(preemption_mode="swap", slow_pcie=5)
    lines = {line[:11].strip(): line[12:] for line in chart(run, Terminal())}
    counts = {label: sum(int(c) for c in lines[label][:58] if c.isdigit()) for label in ("recomputed", "swapped out")}
    assert counts == {"recomputed": run.metrics.recomputes, "swapped out": run.metrics.swap_outs}
    assert lines["recomputed"].endswith(f"{run.metrics.recomputes} in all")
    assert lines["waiting"].endswith(f"peak {run.metrics.peak_waiting}")


def test_many_preemptions_become_bars() -> None:
    run = run_of(request_rate="20", gpu_memory_utilization="0.5", max_num_seqs=256)
    lines = chart(run, Terminal())
    assert max(map(len, lines)) <= 80
    assert "█" in next(line for line in lines if "recomputed" in line)


def test_a_long_step_fills_every_column_that_it_covers() -> None:
    run = run_of(num_requests=1, prompt_tokens="500", output_tokens="2", base_ns="10 s", duration_ns="1 s")
    bottom = chart(run, Terminal())[7][12:]
    assert bottom.strip()
    assert " " not in bottom.strip()


def test_a_run_without_steps_has_no_chart() -> None:
    assert chart(run_of(request_rate="0.001"), Terminal()) == []


@pytest.mark.parametrize(
    ("end_ns", "labels"),
    [
        (1, ["0 ns", "1 ns"]),
        (2_000_000, ["0 µs", "500 µs", "1000 µs", "1500 µs", "2000 µs"]),
        (165_000_000_000, ["0 s", "30 s", "60 s", "90 s", "120 s", "150 s"]),
        (7_200_000_000_000, ["0 min", "20 min", "40 min", "60 min", "80 min", "100 min", "120 min"]),
        (40 * 3_600_000_000_000, ["0 h", "12 h", "24 h", "36 h"]),
        (9 * 10**18, ["0 h", "876000 h", "1752000 h"]),
    ],
)
def test_the_axis_has_round_times(end_ns: int, labels: list[str]) -> None:
    rule, times = time_axis(end_ns, 58, 10, Terminal())
    assert re.split(r"  +", times.strip()) == labels
    assert rule.startswith("       0 % ┼┬")
    assert max(len(rule), len(times)) <= 80


def test_colours_do_not_count_as_width() -> None:
    terminal = Terminal(colour=True)
    red = terminal.style("ab", "red")
    assert visible_length(red) == 2
    assert columns([[red, "1"], ["abcd", "22"]], "<>") == [red + "     1", "abcd  22"]
    assert flow([red, "cd", "ef"], 10, 2) == [f"{red} · cd", "  ef"]


def test_the_bar_is_drawn_for_people_only(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    scenario = kvlab.scenario("preemption-lab")
    with watched(scenario, quiet=False) as progress:
        assert progress.monitor(10**9, 5) is False
    assert stream.getvalue() == ""
    visible = Progress(scenario, visible=True)
    monkeypatch.setattr(visible, "_next_s", 0.0)
    visible.monitor(60 * 10**9, 200)
    visible.close()
    assert "[############............]  50 %  200 requests, 60 s simulated" in stream.getvalue()
    assert stream.getvalue().endswith("\r\x1b[K")


def test_the_bar_of_a_trace_counts_its_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    for name, expected in (
        ("t.csv", "25 %  1 requests"),
        ("t.parquet", "\x1b[K1 requests"),
        ("missing.csv", "[K1 req"),
    ):
        (tmp_path / name.replace("missing", "other")).write_text("a\nb\nc\nd\n")
        progress = Progress(kvlab.scenario(trace=str(tmp_path / name)), visible=True)
        monkeypatch.setattr(progress, "_next_s", 0.0)
        progress.monitor(10**9, 1)
        assert expected in stream.getvalue()
        stream.truncate(0)


@pytest.mark.parametrize(("changes", "hint"), [((), "next: kvlab compare preemption-lab"), (("--seed", "2"), "")])
def test_a_first_look_at_a_preset_gets_a_next_step(
    changes: tuple[str, ...], hint: str, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr", stream := tty())
    cli("run", "preemption-lab", *changes)
    stream.flush()
    written = stream.buffer.getvalue().decode()  # type: ignore[attr-defined] # a BytesIO
    assert hint in written
    assert bool(hint) == ("next:" in written)


def test_help_names_every_command_and_plain_kvlab_is_help(cli: Cli) -> None:
    code, out, err = cli("--help")
    assert (code, err) == (0, "")
    assert all(f"  {name} " in out for name in COMMANDS)
    assert cli() == (0, out, "")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str, cli: Cli) -> None:
    code, out, err = cli(command, "--help")
    assert (code, err) == (0, "")
    assert out.startswith(f"Usage: kvlab {command}")


def test_run_help_shows_settings_by_section(cli: Cli) -> None:
    out = cli("run", "--help").out
    server = [line for line in out.splitlines() if line.startswith("Server")]
    assert server[0] == "Server:"
    assert {"Server, preemption-lab only:", "Server, block-table-lab only:", "Server, vllm-v1 only:"} <= set(server)
    assert "Server, preemption-lab, vllm-v1 and vllm-v0 only:" in server
    for title in ("Traffic:", "Traffic from a trace:", "Service level:", "Values:"):
        assert f"\n{title}\n" in out
    assert "--max-num-seqs N" in out


def test_the_version_is_shown(cli: Cli) -> None:
    assert cli("--version") == (0, f"kvlab {kvlab.__version__}\n", "")

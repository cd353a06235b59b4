"""`python -m benchmarks`: run every benchmark and print what it found. Nothing is asserted about time."""

from __future__ import annotations

import argparse
import importlib.util
import platform
from collections.abc import Callable
from typing import Any

import kvlab
from benchmarks import cases, sweeps, vllm
from benchmarks.measure import NS_PER_MS, in_a_process, yardstick_ms

RATIO_SEQS = (16, 64, 256, 1024)


def say(*lines: str) -> None:
    print(*lines, sep="\n", flush=True)


def lab_runs(options: argparse.Namespace) -> None:
    say("", f"Lab runs: the engine's CPU time in ms, least (median) of {options.repeats}, requests drawn beforehand")
    for lab in cases.LABS:
        run = cases.lab_run(lab, options.repeats)
        say(f"  {lab}: {run.num_requests:,} requests, {run.num_steps:,} steps")
        for name, cpu in run.cpu.items():
            say(f"    {name:22} {cpu.least / NS_PER_MS:8.2f} ({cpu.median / NS_PER_MS:.2f})")


def long_runs(options: argparse.Namespace) -> None:
    say("", "Long runs: preemption lab, metrics only, requests drawn as they come, each in a process of its own")
    say(f"  {'(loaded, before any request)':52} {in_a_process('start')['peak_mib']:39.0f} MiB")
    for name, settings in cases.LONG_RUNS.items():
        for num_requests in (options.requests // 10, options.requests // 2, options.requests):
            found = in_a_process("long_run", settings=settings, num_requests=num_requests)
            say(f"  {name:26} {_speed(found)}")
    say(f"  of which drawing one request takes {cases.traffic_us(min(options.requests, 100_000)):.2f} us")


def naive_ratios(options: argparse.Namespace) -> None:
    say("", "Naive against fast: closed loops on a nearly full pool, equal books")
    say(f"CPU us per step, least of {options.ratio_repeats} runs of each in turn")
    for lengths in cases.RATIO_LENGTHS:
        say(f"  {lengths}", "    users  running  pool  preemptions   steps   naive    fast   ratio")
        for num_seqs in RATIO_SEQS:
            row = cases.naive_ratio(num_seqs, lengths, options.ratio_repeats)
            say(
                f"    {row.num_seqs:5,}  {row.mean_running:7.1f}  {100 * row.usage_ratio:2.0f} %  {row.preemptions:11,}"
                f"  {row.num_steps:6,}  {row.naive_step_us:6.1f}  {row.fast_step_us:6.1f}  {row.ratio:6.1f}"
            )


def azure(options: argparse.Namespace) -> None:
    say("", "Azure 2023 conversation trace: preemption lab, metrics only, read from the file")
    path = cases.shared(cases.AZURE)
    if path is None:
        say(f"  skipped: {cases.AZURE} is not here; set KVLAB_SHARED to the folder that holds it")
        return
    for name, settings in (("as recorded", {}), ("at half speed", {"trace_speed": "0.5"})):
        say(f"  {name:26} {_speed(in_a_process('trace_run', path=str(path), settings=settings))}")


def _speed(found: dict[str, Any]) -> str:
    seconds = found["cpu_s"]
    return (
        f"{found['requests']:9,} requests  {seconds:6.2f} s  {found['requests'] / seconds:8,.0f} requests/s  "
        f"{found['steps'] / seconds:9,.0f} steps/s  {found['peak_mib']:5.0f} MiB  "
        f"(pool {found['usage_percent']:.0f} % full, {found['mean_running']:.0f} running, "
        f"at most {found['peak_waiting']:,} waiting, {found['preemptions_per_1000']:.0f} preemptions per 1,000)"
    )


def profiles(options: argparse.Namespace) -> None:
    for name in ("metrics only", "everything recorded"):
        say("", f"Where a preemption-lab run spends its time, {name} (share of own time, calls per run)")
        for line in cases.profile("preemption-lab", cases.RECORDINGS[name], runs=5, lines=12):
            say(f"  {line.percent:5.1f} %  {line.calls:7,}  {line.function}")


def start_up(options: argparse.Namespace) -> None:
    say("", "Start-up: wall time in ms, median of 9")
    for arguments in (["--version"], ["--help"], ["run", "--help"], ["run", "preemption-lab", "-q"]):
        say(f"  kvlab {' '.join(arguments):24} {cases.start_up_ms(arguments, 9):6.0f}")


def vllm_rules(options: argparse.Namespace) -> None:
    say("", "vLLM V1 rules: reference against core, equal books; CPU us per step")
    say("    running  caching   steps  reference    core   ratio")
    for caching in (False, True):
        for num_running in vllm.RUNNING:
            row = vllm.ratio(num_running, options.ratio_repeats, caching=caching)
            ratio = row.reference_step_us / row.core_step_us
            say(
                f"    {num_running:7,}  {'yes' if caching else 'no':>7}  {row.steps:6,}  {row.reference_step_us:9.0f}"
                f"  {row.core_step_us:6.1f}  {ratio:6.1f}"
            )
    say("", "vLLM V1 rules, 10,000 requests like the preemption lab's, 5 per second")
    for run in vllm.lab_like(10_000):
        say(f"  {run.name:24} {_long_run(run)}")
    say("", "vLLM V1 rules, Mooncake conversation trace, pool of 3.2 million tokens, prefixes from its hash ids")
    path = cases.shared(vllm.TRACE)
    if path is None:
        say(f"  skipped: {vllm.TRACE} is not here; set KVLAB_SHARED to the folder that holds it")
        return
    for run in vllm.trace(str(path)):
        hits = 100 * run.totals.cached_tokens / run.totals.queried_tokens
        say(f"  {run.name:24} {_long_run(run)}, {hits:.1f} % of prompt tokens hit")


def sweep_paces(options: argparse.Namespace) -> None:
    say("", "Sweeps: scenarios per second and core (CPU time of all processes), and what is lost to the engine alone")
    for lab in cases.LABS:
        say(f"  {lab}")
        for on_ray in (False, True):
            if on_ray and importlib.util.find_spec("ray") is None:
                say("    Ray is not installed: skipped")
                continue
            rounds = options.ratio_repeats * (3 if on_ray else 4)
            for pace in sweeps.paces(lab, rounds, options.seeds * (5 if on_ray else 1), on_ray=on_ray):
                say(
                    f"    {pace.name:18} {1 / pace.cpu_s:6.1f} per core  {100 * pace.overhead_ratio:5.1f} %"
                    f"  {1 / pace.wall_s:6.1f} per worker on the clock"
                )
    for count in (options.sweep_runs // 10, options.sweep_runs):
        found = in_a_process("sweep_memory", points=count // 100, seeds=100, workers=2)
        say(
            f"  {found['runs']:7,} small scenarios, 2 workers: {found['parent_mib']:.0f} MiB, with workers"
            f" {found['tree_mib']:.0f} MiB; {found['wall_s']:.0f} s, {found['kept_mib']:.0f} MiB on disk"
        )


def _long_run(run: vllm.Long) -> str:
    return (
        f"{run.cpu_s:6.2f} s  {run.requests_per_s:8,.0f} requests/s  {run.totals.steps / run.cpu_s:9,.0f} steps/s, "
        f"{run.totals.preemptions:,} preemptions"
    )


SECTIONS: dict[str, Callable[[argparse.Namespace], None]] = {
    "labs": lab_runs,
    "long": long_runs,
    "ratio": naive_ratios,
    "azure": azure,
    "vllm": vllm_rules,
    "sweeps": sweep_paces,
    "profile": profiles,
    "start": start_up,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"of {', '.join(SECTIONS)}; all by default")
    parser.add_argument("--requests", type=int, default=1_000_000, help="of the long runs (default 1,000,000)")
    parser.add_argument("--repeats", type=int, default=15, help="of the lab runs (default 15)")
    parser.add_argument("--ratio-repeats", type=int, default=3, help="of naive against fast (default 3)")
    parser.add_argument(
        "--seeds", type=int, default=4, help="of each of the four loads of a sweep (default 4; 20 on Ray)"
    )
    parser.add_argument("--sweep-runs", type=int, default=10_000, help="of the sweep whose memory is taken")
    options = parser.parse_args()
    unknown = [name for name in options.sections if name not in SECTIONS]
    if unknown:
        parser.error(f"no section {unknown[0]}: there are {', '.join(SECTIONS)}")
    if options.requests < 10 or min(options.repeats, options.ratio_repeats) < 1:
        parser.error("at least 10 requests and 1 repeat")
    if options.sweep_runs < 1_000 or options.seeds < 1:
        parser.error("at least 1,000 runs of a sweep and 1 seed")
    say(
        f"kvlab {kvlab.__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}; "
        f"a million additions in a loop take {yardstick_ms():.0f} ms here"
    )
    for name in options.sections or SECTIONS:
        SECTIONS[name](options)


if __name__ == "__main__":
    main()

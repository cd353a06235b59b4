"""Writes what is made from the code: metrics.md, settings.md, tables of other pages; a picture on request.

python docs/generate.py [--picture] [--cases]     # with them also pictures, and the public cases advised on anew
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from pathlib import Path

import kvlab
from kvlab.advice.crossover import crossover
from kvlab.cases import CASES
from kvlab.metrics import METRICS, Metric
from kvlab.missions import missions_for
from kvlab.prices import PRICES
from kvlab.scenarios import PRESETS, preset
from kvlab.setting_table import BLOCK_TABLE_LAB, PAGE_RULES, PREEMPTION_LAB, SETTINGS, VLLM_V1
from kvlab.settings import NOT_SET, Setting
from kvlab.sizing.accuracy import Check, activations, band, from_scratch, given_kv
from kvlab.step_time.profiles import profiles
from kvlab.step_time.roofline import efficiencies, unknown_band_percent, unknown_efficiency
from kvlab.sweeps.workers import local
from kvlab.units import GIB
from kvlab.validation import advised
from kvlab.validation.advised import FILE, QUESTIONS, ask, committed, to_json
from kvlab.vllm_flag_table import FLAGS, FLAGS_OF_V0, SHORTS, Fate, Flag
from kvlab.web import limits
from kvlab.web.controls import CONTROLS, TILES, base
from kvlab.web.parts import Control

HERE = Path(__file__).parent
NOTE = "<!-- made by docs/generate.py: change the code, then run it -->"
ENGINES = ("vLLM", "SGLang", "TGI", "TensorRT-LLM")
MOST_CHOICES = 5
"""Of a list that is shown whole."""
ARROWS = {"lower": "↓", "higher": "↑", None: ""}


def metrics_page() -> str:
    """Every metric with its unit, direction and formula, and the names that engines use."""
    groups: dict[str, list[Metric]] = {}
    for metric in METRICS.values():
        groups.setdefault(metric.group, []).append(metric)
    families = [metric for metric in groups["latency"] if metric.name.startswith("mean_")]
    spreads = [name.removesuffix("_ttft_ns") for name in METRICS if name.endswith("_ttft_ns")]
    lines = [
        NOTE,
        "# Metrics",
        "",
        "What a run measures, by the names that `--json`, the Python API (`run.metrics`), `kvlab compare` and",
        "`kvlab explain` share. Times are whole nanoseconds, ratios go from 0 to 1; an arrow says which way is better.",
        "Where there is nothing to measure a value is null (a dash in tables).",
        "",
        "## Latency",
        "",
        f"Each has {len(spreads)} figures, such as `p99_ttft_ns`; all are in ns, and lower is better:",
        "",
    ]
    for spread in spreads:
        how = METRICS[f"{spread}_ttft_ns"].formula.rsplit("; ", 1)[1]
        lines.append(f"- `{spread}`: {how}")
    lines += ["", *table(["metric", "formula"], [[family(m), m.formula.rsplit("; ", 1)[0]] for m in families])]
    for group, metrics in groups.items():
        if group != "latency":
            rows = [[f"`{m.name}`", m.unit, ARROWS[m.better], m.formula] for m in metrics]
            title = group[0].upper() + group[1:]
            lines += ["", f"## {title}", "", *table(["metric", "unit", "", "formula"], rows)]
    shown = families + [metric for metric in METRICS.values() if metric.group != "latency"]
    lines += [
        "",
        "## What engines call them",
        "",
        "Where a field is empty, the engine has no figure that means it.",
        "",
    ]
    lines += table(["metric", *ENGINES], [[family(m), *names(m.engines)] for m in shown if m.engines])
    return "\n".join(lines) + "\n"


def family(metric: Metric) -> str:
    """The name of a metric; of a latency the name that its figures share."""
    return f"`{metric.name.removeprefix('mean')}`" if metric.group == "latency" else f"`{metric.name}`"


def settings_page() -> str:
    """Every setting with its defaults and meaning, and the names that engines use."""
    presets = [preset(name) for name in PRESETS]
    lines = [
        NOTE,
        "# Settings",
        "",
        "One name per setting, shared by flags (`--max-num-seqs 48`), `--set max_num_seqs=48`, scenario files and the",
        "Python API (`kvlab.scenario(..., max_num_seqs=48)`). Durations and sizes take units: `25 ms`, `4 GiB`,",
        "`92 %`. A dash means that these rules don't have the setting.",
    ]
    titles = {"server": "Server", "traffic": "Traffic", "slo": "Service level"}
    for group, title in titles.items():
        rows = [
            [
                f"`{setting.name}`" + "".join(f", `{flag}`" for flag in setting.aliases),
                *(default(setting, s.settings()) if s.rules in setting.rules else "–" for s in presets),
                setting.help + (f" The flag alone means {setting.bare}." if setting.bare else ""),
            ]
            for setting in SETTINGS.values()
            if setting.group == group
        ]
        lines += ["", f"## {title}", "", *table(["setting", *(s.rules for s in presets), "meaning"], rows)]
    rows = [[f"`{setting.name}`", *names(setting.engines)] for setting in SETTINGS.values() if setting.engines]
    lines += ["", "## What engines call them", "", *table(["setting", *ENGINES], rows)]
    return "\n".join(lines) + "\n"


def capacity_page() -> str:
    """The page of KV capacity, with the tables of what engines logged as the code computes them now."""
    text = (HERE / "capacity.md").read_text(encoding="utf-8")
    made = {"activations": activation_table(), "given": given_table(), "scratch": scratch_table()}
    for name, lines in made.items():
        begin, end = f"<!-- {name}: made by docs/generate.py -->", "<!-- end -->"
        before, rest = text.split(begin)
        text = before + "\n".join([begin, *lines, ""]) + rest[rest.index(end) :]
    return text


def activation_table() -> list[str]:
    """Logged and computed peaks."""
    rows = [[name, f"{logged / GIB:.2f} GiB", f"{found / GIB:.2f} GiB"] for name, logged, found in activations()]
    return table(["model", "logged", "computed"], rows)


def given_table() -> list[str]:
    """Tokens that follow from the logged GiB."""
    rows = [[check.model, check.gpu, check.version, *compared(check, 3)] for check in given_kv()]
    return table(["model", "GPU", "engine", "logged", "computed", "error"], rows)


def scratch_table() -> list[str]:
    """Tokens from model, GPU and settings, and how the errors lie."""
    rows = [
        [check.model, check.gpu, check.version, *compared(check, 1), "yes" if check.fitted else ""]
        for check in from_scratch()
    ]
    lines = table(["model", "GPU", "engine", "logged", "computed", "error", "fitted"], rows)
    held_out = [check for check in from_scratch() if not check.fitted]
    for name, checks in (("All", from_scratch()), ("Of those that aren't fitted, all", held_out)):
        errors = band(checks)
        spread = f"four of five within {percent(errors.four_fifths)}, worst {percent(errors.worst)}"
        above = f"{errors.above} are computed higher than logged"
        lines += [
            "",
            f"{name} {errors.count} that can be compared: median error {percent(errors.median)}, {spread};",
            above + ".",
        ]
    return lines


def compared(check: Check, digits: int) -> list[str]:
    """Logged, computed and error; or why not."""
    if check.error is None or check.logged is None or check.computed is None:
        return ["", "", f"not compared: {check.why}"]
    shown = [f"{n:,}" if check.unit == "tokens" else f"{n / GIB:.2f} GiB" for n in (check.logged, check.computed)]
    return [*shown, f"{float(check.error * 100):+.{digits}f} %"]


def percent(share: Fraction) -> str:
    """One digit after the point."""
    return f"{float(share * 100):.1f} %"


def default(setting: Setting, values: dict[str, object]) -> str:
    """The preset's value as text that reads back."""
    return setting.show(values[setting.name]) or "(empty)"


def names(engines: Mapping[str, str]) -> list[str]:
    """What each engine says, in the order of the columns."""
    assert set(engines) <= set(ENGINES), f"a column is missing for {set(engines) - set(ENGINES)}"
    return [engines.get(engine, "") for engine in ENGINES]


def table(heads: list[str], rows: list[list[str]]) -> list[str]:
    """The lines of a Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines]


def lab_page() -> str:
    """The page of the labs as it is, with its tables made anew: each stands between two comments."""
    return with_tables("lab.md", LAB_TABLES)


def controls_table(lab: str) -> list[str]:
    """What can be moved in a lab, with its range and its default."""
    settings = base(lab).settings()
    return table(
        ["on the page", "setting", "values", "default"],
        [
            [
                control.label,
                f"`{control.name}`",
                stops(control),
                shown(control, SETTINGS[control.name].show(settings[control.name])),
            ]
            for control in CONTROLS[lab]
        ],
    )


def stops(control: Control) -> str:
    """What a control can be set to, in short."""
    if control.kind == "switch":
        return "off, on"
    labels = control.labels or control.values
    if control.kind == "text":
        return f"a length or a distribution, such as `{control.values[1]}`"
    if control.kind in ("choice", "select"):
        return ", ".join(labels) if len(labels) <= MOST_CHOICES else f"{len(labels)} of a list"
    unit = f" {control.unit}" if labels[-1].replace(".", "").isdigit() else ""
    return f"{labels[0]} to {labels[-1]}{unit}"


def shown(control: Control, text: str) -> str:
    """A value as the page shows it."""
    if control.kind == "switch":
        return "off" if text == control.off else "on"
    if control.kind == "text":
        return f"`{text}`"
    labels = dict(zip(control.values, control.labels or control.values, strict=True))
    label = labels.get(text, control.unset or text) if text == NOT_SET else labels.get(text, text)
    return f"{label} {control.unit}".rstrip() if label.replace(".", "").isdigit() else label


def tiles_table() -> list[str]:
    """The figures of all tabs; the main ones stay in sight on a phone."""
    by_name = {tile.name: tile for lab in PAGE_RULES for tile in TILES[lab]}
    shows = {lab: {tile.name: tile for tile in TILES[lab]} for lab in PAGE_RULES}
    rows = []
    for name, tile in by_name.items():
        marks = [("main" if shows[lab][name].main else "yes") if name in shows[lab] else "" for lab in PAGE_RULES]
        rows.append([tile.label, f"`{name}`", ARROWS[tile.metric.better], *marks])
    return table(["tile", "metric", "", *PAGE_RULES], rows)


def cases_table() -> list[str]:
    """Reported cases that the page has as setups."""
    rows = []
    for case in (case for case in CASES if case.on_page):
        source = case.source if case.url is None else f"[{case.source}]({case.url})"
        variants = "; ".join(variant.name for variant in case.variants)
        rows.append([f"**{case.title}**", case.story, variants, source])
    return table(["what somebody saw", "what happens, and what to try", "variants", "source"], rows)


def missions_table(lab: str) -> list[str]:
    """What the operator says, and what is asked for; how it's done is for the reader to find."""
    rows = [
        [str(number), f"**{mission.title}**", mission.story, "; ".join(goal.text for goal in mission.goals)]
        for number, mission in enumerate(missions_for(lab), start=1)
    ]
    return table(["", "mission", "the operator says", "goals"], rows)


def prices_table() -> list[str]:
    """What each lever costs."""
    rows = [[f"`{field}`", price.rule.describe(SETTINGS[field]), price.reason] for field, price in PRICES.items()]
    return table(["setting", "price", "what is really paid with"], rows)


def limits_table() -> list[str]:
    """What one request of a browser may ask for."""
    rows = [
        ["requests of a run", f"{limits.MAX_REQUESTS:,}"],
        ["samples of all requests", f"{limits.MAX_SAMPLES:,}"],
        ["steps of a run", f"{limits.MAX_STEPS:,}"],
        ["tokens of one answer", f"{limits.MAX_OUTPUT_TOKENS:,}"],
        ["blocks on the GPU, and in the swap space", f"{limits.MAX_BLOCKS:,}"],
        ["size of a trace file", f"{limits.MAX_UPLOAD_BYTES // 2**20} MiB"],
        ["the same, unpacked", f"{limits.MAX_UNPACKED_BYTES // 2**20} MiB"],
        ["rows of a trace file", f"{limits.MAX_TRACE_ROWS:,}"],
    ]
    return table(["", "at most"], rows)


LAB_TABLES: dict[str, Callable[[], list[str]]] = {
    "controls of the preemption lab": lambda: controls_table(PREEMPTION_LAB),
    "controls of the block-table lab": lambda: controls_table(BLOCK_TABLE_LAB),
    "controls of your server": lambda: controls_table(VLLM_V1),
    "reported cases": cases_table,
    "tiles": tiles_table,
    "missions of the preemption lab": lambda: missions_table(PREEMPTION_LAB),
    "missions of the block-table lab": lambda: missions_table(BLOCK_TABLE_LAB),
    "prices": prices_table,
    "limits": limits_table,
}
"""What lab.md holds of the code, by the words of the comment before it."""


def step_time_page() -> str:
    """The page of step times, with the tables of profiles and of rooflines."""
    return with_tables("step-time.md", {"profiles": profiles_table, "rooflines": rooflines_table})


def advice_page() -> str:
    """The page of advice, with what it said of public cases."""
    return with_tables("advice.md", {"cases": advised_table})


def with_tables(page: str, tables: Mapping[str, Callable[[], list[str]]]) -> str:
    """A page with its tables made anew, each between two comments."""
    text = (HERE / page).read_text(encoding="utf-8")
    for name, make in tables.items():
        begin, end = f"<!-- {name}: made by docs/generate.py -->", f"<!-- end of {name} -->"
        before, rest = text.split(begin)
        text = before + "\n".join([begin, "", *make(), "", ""]) + rest[rest.index(end) :]
    return text


def advised_table() -> list[str]:
    """Each case: what was asked, what resolved it, and what was advised."""
    rows = []
    for question, said in zip(QUESTIONS, committed(), strict=True):
        fixes = "<br>".join(f"{place}. `{text}` ({price})" for place, (text, price) in enumerate(said.fixes, 1))
        cache = "full" if said.kv_is_bottleneck else f"not the bottleneck: {said.peak_kv_percent:g} % at most"
        place = "" if question.is_it is None else "not advised" if said.place is None else str(said.place)
        rows.append([said.id, f"`{said.slo}`", question.resolved, fixes or said.verdict, place, cache, question.why])
    return table(["case", "asked", "what resolved it", "advised (points)", "place", "KV cache", ""], rows)


def profiles_table() -> list[str]:
    """Every fitted profile with its held-out errors and the largest load that was measured."""
    rows = []
    for found in profiles().values():
        errors = [f"{name}: {e.mean_percent:g} % ({e.p95_percent:g} %)" for name, e in found.errors.items()]
        most = [found.range[figure][1] for figure in ("num_decodes", "decode_context", "prefill_tokens")]
        gpus = f"{found.tp} x {found.gpu}" if found.tp > 1 else found.gpu
        rows.append(
            [f"`{found.name}`", gpus, found.model, str(found.measured_in), "<br>".join(errors)]
            + [f"{value:,}" for value in most]
        )
    head = [
        "profile",
        "GPUs",
        "model",
        "year",
        "held-out errors",
        "most decodes",
        "most context",
        "most prefill tokens",
    ]
    return table(head, rows)


def rooflines_table() -> list[str]:
    """Shares of peak rates, and how far a roofline with them is off."""
    rows = []
    for gpu, efficiency in {**efficiencies(), "any other": unknown_efficiency()}.items():
        shares = [f"{getattr(efficiency, name) / 10:g} %" for name in efficiency.CONSTANTS[:4]]
        errors = efficiency.errors
        band = (
            f"{unknown_band_percent()} %, a band"
            if errors is None
            else f"{errors.mean_percent:g} % ({errors.p95_percent:g} %)"
        )
        rows.append([gpu, *shares, f"{efficiency.per_layer_ns / 1000:.0f} us", band])
    head = ["GPU", "matrices, arithmetic", "reading", "attention, arithmetic", "reading", "per layer", "error"]
    return table(head, rows)


def flags_page() -> str:
    """The page of vLLM's flags, with the tables of what becomes of each."""
    text = (HERE / "flags.md").read_text(encoding="utf-8")
    made = {
        "mapped": mapped_table,
        "noted": noted_table,
        "refused": refused_table,
        "ignored": ignored_table,
        "before": before_v1_table,
    }
    for name, make in made.items():
        begin, end = f"<!-- {name}: made by docs/generate.py -->", f"<!-- end of {name} -->"
        before, rest = text.split(begin)
        text = before + "\n".join([begin, "", *make(), "", ""]) + rest[rest.index(end) :]
    return text


def flags_of(fate: Fate) -> list[Flag]:
    """The flags that become that, in the order of the table."""
    return [flag for flag in FLAGS.values() if flag.fate == fate]


def spelled(flag: Flag) -> str:
    """A flag with its short forms."""
    shorts = [short for short, long in SHORTS.items() if long is flag]
    return ", ".join(f"`{name}`" for name in (flag.name, *shorts))


def mapped_table() -> list[str]:
    """Flags that are settings."""
    rows = [[spelled(flag), f"`{flag.setting}`", flag.why] for flag in flags_of("mapped")]
    return table(["flag", "setting", ""], rows)


def noted_table() -> list[str]:
    """Flags that are taken, with what isn't simulated of them."""
    return table(["flag", "what is said"], [[spelled(flag), flag.why] for flag in flags_of("noted")])


def refused_table() -> list[str]:
    """Flags that would change the answer."""
    rows = [
        [spelled(flag), flag.why, flag.remedy, ", ".join(f"`{value}`" for value in flag.harmless if value)]
        for flag in flags_of("refused")
    ]
    return table(["flag", "why", "what to do", "taken when"], rows)


def before_v1_table() -> list[str]:
    """What becomes of flags otherwise under the rules of the engine before V1."""
    rows = [
        [f"`{flag.name}`", "refused: " + flag.why if flag.setting is None else f"`{flag.setting}`"]
        for flag in FLAGS_OF_V0.values()
    ]
    return table(["flag", "becomes"], rows)


def ignored_table() -> list[str]:
    """Flags that change nothing here, by their reason."""
    reasons: dict[str, list[str]] = {}
    for flag in flags_of("ignored"):
        reasons.setdefault(flag.why, []).append(spelled(flag))
    return table(["why", "flags"], [[why, ", ".join(names)] for why, names in reasons.items()])


PAGES = {
    "metrics.md": metrics_page,
    "settings.md": settings_page,
    "lab.md": lab_page,
    "capacity.md": capacity_page,
    "step-time.md": step_time_page,
    "advice.md": advice_page,
    "flags.md": flags_page,
}


def main(arguments: Iterable[str]) -> None:
    """Write the pages."""
    if "--cases" in arguments:
        with local() as run:
            said = [ask(question, run) for question in QUESTIONS]
        Path(advised.__file__).with_name(FILE).write_text(to_json(said), encoding="utf-8")
    for name, page in PAGES.items():
        (HERE / name).write_text(page(), encoding="utf-8")
    if "--picture" in arguments:
        kvlab.simulate(kvlab.scenario("preemption-lab")).plot(HERE / "preemption-lab.png")
        crossover(kvlab.scenario("vllm-v0", gpu="H100", swap_per_block_ns="20 us")).plot(HERE / "crossover.png")


if __name__ == "__main__":
    main(sys.argv[1:])

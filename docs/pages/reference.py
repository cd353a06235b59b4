"""Every metric and every setting, with what engines call them."""

from __future__ import annotations

from collections.abc import Mapping

from docs.pages.markdown import ARROWS, NOTE, table
from kvlab.metrics import METRICS, Metric
from kvlab.scenarios import PRESETS, preset
from kvlab.setting_table import SETTINGS
from kvlab.settings import Setting

ENGINES = ("vLLM", "SGLang", "TGI", "TensorRT-LLM")


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


def default(setting: Setting, values: dict[str, object]) -> str:
    """The preset's value as text that reads back."""
    return setting.show(values[setting.name]) or "(empty)"


def names(engines: Mapping[str, str]) -> list[str]:
    """What each engine says, in the order of the columns."""
    assert set(engines) <= set(ENGINES), f"a column is missing for {set(engines) - set(ENGINES)}"
    return [engines.get(engine, "") for engine in ENGINES]

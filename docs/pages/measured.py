"""What was measured beside what is computed: KV capacity, step times."""

from __future__ import annotations

from fractions import Fraction

from docs.pages.markdown import table, with_tables
from kvlab.sizing.accuracy import Check, activations, band, from_scratch, given_kv
from kvlab.step_time.profiles import profiles
from kvlab.step_time.roofline import efficiencies, unknown_band_percent, unknown_efficiency
from kvlab.units import GIB


def capacity_page() -> str:
    """The page of KV capacity, with the tables of what engines logged as the code computes them now."""
    return with_tables("capacity.md", {"activations": activation_table, "given": given_table, "scratch": scratch_table})


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


def step_time_page() -> str:
    """The page of step times, with the tables of profiles and of rooflines."""
    return with_tables("step-time.md", {"profiles": profiles_table, "rooflines": rooflines_table})


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

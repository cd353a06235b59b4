"""`kvlab calibrate`: a step-time profile from a user's own measurements."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Final

import click

from kvlab.cli.terminal import Terminal, columns, stdout_terminal
from kvlab.core.step_time import DecodeLaw, KneeStepTime, MixedLaw, TwoLawStepTime
from kvlab.errors import ConfigError
from kvlab.files import write_file
from kvlab.step_time.calibration import KINDS, About, Calibration
from kvlab.step_time.calibration import calibrate as fit
from kvlab.step_time.measurements import read_measurements
from kvlab.units import format_duration

_DECODE: Final = {
    "base_ps": ("per step", 1),
    "per_seq_ps": ("per sequence", 1),
    "per_context_token_ps": ("per 1,000 tokens of context", 1_000),
}
_MIXED: Final = {
    "base_ps": ("per step", 1),
    "per_decode_ps": ("per decoding sequence", 1),
    "per_decode_context_token_ps": ("per 1,000 tokens of its context", 1_000),
    "per_prefill_ps": ("per chunk", 1),
    "per_prefill_token_ps": ("per prefill token", 1),
    "per_prefill_context_token_ps": ("per 1,000 tokens before a chunk", 1_000),
    "per_chunk_pair_ps": ("per million (query, key) pairs", 1_000_000),
}
"""Field of a law -> what its coefficient is per, and how many of that make a readable number."""


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--out", type=click.Path(path_type=Path), metavar="PROFILE", help="Write the profile as JSON.")
@click.option("--kind", type=click.Choice(KINDS), default=KINDS[0], help="Of the laws; two-law by default.")
@click.option("--json", "as_json", is_flag=True, help="Print the profile as JSON.")
@click.option("--name", metavar="NAME", help="Of the profile; the first FILE's by default.")
@click.option("--gpu", default="unknown", metavar="NAME", help="The GPU that was measured.")
@click.option("--model", default="unknown", metavar="NAME", help="The model.")
@click.option("--tp", type=click.IntRange(min=1), default=1, metavar="N", help="GPUs that shared it.")
@click.option("--engine-version", default="unknown", metavar="VERSION", help="Of vLLM.")
@click.option("--year", type=click.IntRange(2000, 9999), default=2000, metavar="YEAR", help="Of the measurements.")
def calibrate(
    files: tuple[str, ...],
    out: Path | None,
    kind: str,
    as_json: bool,
    name: str | None,
    gpu: str,
    model: str,
    tp: int,
    engine_version: str,
    year: int,
) -> None:
    """Fit how long a step lasts to measurements in FILE, and say how well it fits.

    FILE is a step log (CSV: dur_ms, num_decodes, decode_context, prefill_tokens, ...) or a result of
    `vllm bench serve --save-result` (JSON), of which several with different concurrencies are needed. docs/step-time.md
    has the columns and the formulas.

    \b
    kvlab calibrate steps.csv --out profile.json --gpu L40S-48GB --model Qwen/Qwen3-8B
    kvlab calibrate c1.json c8.json c32.json
    """
    about = About(
        name=name or Path(files[0]).stem, gpu=gpu, model=model, tp=tp, engine_version=engine_version, measured_in=year
    )
    if out is not None and any(out.resolve() == Path(file).resolve() for file in files):
        raise ConfigError("out", str(out), "is one of the files of measurements: give another name")
    found = fit([read_measurements(file) for file in files], about, kind)
    text = found.profile.to_json()
    if out is not None:
        write_file(out, lambda stream: stream.write(text.encode()))
    if as_json:
        click.echo(text, nl=False)
    else:
        terminal = stdout_terminal()
        click.echo(terminal.render(report(found, terminal)), nl=False)
        if out is not None:
            click.echo(f"wrote {out}", err=True)


def report(found: Calibration, terminal: Terminal) -> list[str]:
    """Coefficients with their units, errors, range, and what can't be known."""
    profile = found.profile
    step_time = profile.step_time
    lines = [terminal.style(profile.name, "bold"), "fitted to " + profile.provenance.fitted_on, ""]
    if isinstance(step_time, KneeStepTime):
        decode, mixed = step_time.decode[0], step_time.mixed
    else:
        assert isinstance(step_time, TwoLawStepTime)
        decode, mixed = step_time.decode, (step_time.mixed,)
    rows = [("A step that only decodes", ""), *_coefficients(decode, _DECODE)]
    for number, law in enumerate(mixed):
        title = "A step with prefill tokens" if number == 0 else "or, where that is longer"
        rows += [(title, ""), *_coefficients(law, _MIXED)]
    lines += [*columns(rows, "<>"), ""]
    for label, errors in profile.errors.items():
        lines.append(
            f"Held-out error, {label}: {errors.mean_percent} % mean, {errors.p95_percent} % p95,"
            f" {errors.bias_percent:+} % bias ({errors.points:,} points)"
        )
    bounds = [f"{name} {low:,} to {high:,}" for name, (low, high) in profile.range.items()]
    lines += ["Measured range:", *("  " + bound for bound in bounds)]
    lines += [f"Assumed: {text}." for text in found.assumptions]
    lines += [terminal.style(f"Warning: {text}.", "yellow") for text in found.warnings]
    return lines


def _coefficients(law: DecodeLaw | MixedLaw, names: dict[str, tuple[str, int]]) -> list[tuple[str, str]]:
    return [
        (f"  {text}", format_duration(Fraction(getattr(law, field) * many, 1000)))
        for field, (text, many) in names.items()
        if getattr(law, field) or field == "base_ps"
    ]

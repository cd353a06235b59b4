"""Between the laws of `kvlab.core.step_time` and the matrices of a fit: figures of loads, coefficients in ns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from kvlab.core.step_time import PS_PER_NS, AnyStepTime, DecodeLaw, MixedLaw, StepLoad, StepTime
from kvlab.step_time.fit import Floats, fit_knee, fit_relative

DECODE_FIGURES: Final = ("one", "num_decodes", "decode_context")
"""What a `DecodeLaw` weighs, in the order of its coefficients; "one" is the step itself."""
MIXED_FIGURES: Final = (
    "one",
    "num_decodes",
    "decode_context",
    "num_prefills",
    "prefill_tokens",
    "prefill_context",
    "chunk_context",
)
"""The same of a `MixedLaw`."""


def columns(loads: Sequence[StepLoad], figures: Sequence[str], without: Sequence[str] = ()) -> Floats:
    """One row per load, one column per figure; those of `without` are 0, and so will their coefficients be."""
    matrix = np.zeros((len(loads), len(figures)))
    for number, figure in enumerate(figures):
        if figure == "one":
            matrix[:, number] = 1.0
        elif figure not in without:
            matrix[:, number] = [getattr(load, figure) for load in loads]
    return matrix


def whole_ps(coefficients_ns: Floats) -> list[int]:
    """Coefficients in whole picoseconds, from ns."""
    return [round(float(value) * PS_PER_NS) for value in coefficients_ns]


def decode_law(coefficients_ns: Floats) -> DecodeLaw:
    """The law with these coefficients, in the order of `DECODE_FIGURES`."""
    return DecodeLaw(**dict(zip(DecodeLaw.__dataclass_fields__, whole_ps(coefficients_ns), strict=True)))


def mixed_law(coefficients_ns: Floats) -> MixedLaw:
    """The law with these coefficients, in the order of `MIXED_FIGURES`."""
    return MixedLaw(**dict(zip(MixedLaw.__dataclass_fields__, whole_ps(coefficients_ns), strict=True)))


def fit_decode(loads: Sequence[StepLoad], measured_ns: Floats) -> DecodeLaw:
    """The affine law of steps that only decode."""
    return decode_law(fit_relative(columns(loads, DECODE_FIGURES), measured_ns))


def fit_mixed(loads: Sequence[StepLoad], measured_ns: Floats, without: Sequence[str] = ()) -> MixedLaw:
    """The affine law of steps with prefill tokens; figures of `without` get no coefficient."""
    return mixed_law(fit_relative(columns(loads, MIXED_FIGURES, without), measured_ns))


def fit_mixed_knee(
    loads: Sequence[StepLoad], measured_ns: Floats, without: Sequence[str] = (), num_laws: int = 2
) -> tuple[MixedLaw, ...]:
    """Several laws whose maximum is the duration of a step with prefill tokens, small steps first."""
    matrix = columns(loads, MIXED_FIGURES, without)
    found = fit_knee(matrix, measured_ns, MIXED_FIGURES.index("prefill_tokens"), num_laws)
    return tuple(mixed_law(row) for row in found)


def predicted_ns(step_time: StepTime | AnyStepTime, loads: Sequence[StepLoad]) -> Floats:
    """What a step time says of each load, exactly as the engine would use it."""
    return np.array([float(step_time.mixed_ns(load)) for load in loads])

"""Step times of what nobody measured: a roofline from plain figures of model and GPU, marked as assumed.

A GPU reaches a share of its peak rates that hardly depends on the model; `efficiencies.json`, written by `fits/`, has
those that were measured, with the errors of the roofline on fitted profiles. Any other GPU gets their medians.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib import resources
from typing import Any, ClassVar, Final

from kvlab.core.step_time import RooflineStepTime
from kvlab.step_time.profiles import Errors, Profile, Provenance, find_profile, plain

_BYTES_OF_16_BITS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFigures:
    """What a step needs to know of a model; of a mixture of experts, `layer_params` are those a token passes."""

    layers: int
    hidden_size: int
    attention_width: int
    """Query heads x head dimension."""
    layer_params: int
    """Of all layers, without embedding and head."""
    head_params: int
    """Vocabulary x hidden size."""
    kv_bytes_per_token: int
    """Of all layers, on one GPU."""
    layer_weight_bytes: int | None = None
    """Read in a step; None for 16 bits per parameter."""
    head_weight_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiency:
    """What a kind of GPU reaches of its peak rates, in per mille, and its fixed costs."""

    gemm_compute_permille: int
    gemm_memory_permille: int
    attention_compute_permille: int
    attention_memory_permille: int
    per_layer_ns: int
    collective_ns: int
    collective_bytes_per_s: int
    errors: Errors | None = None
    """Of the roofline against fitted profiles of that GPU."""

    CONSTANTS: ClassVar[tuple[str, ...]] = (
        "gemm_compute_permille",
        "gemm_memory_permille",
        "attention_compute_permille",
        "attention_memory_permille",
        "per_layer_ns",
        "collective_ns",
        "collective_bytes_per_s",
    )

    def with_errors(self, errors: Errors) -> Efficiency:
        """The same with its errors."""
        return replace(self, errors=errors)

    def to_dict(self) -> dict[str, Any]:
        """As `efficiencies.json` has it."""
        document: dict[str, Any] = {name: getattr(self, name) for name in self.CONSTANTS}
        if self.errors is not None:
            document["errors"] = {item.name: getattr(self.errors, item.name) for item in fields(Errors)}
        return document

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Efficiency:
        """Read back; the file comes with the package."""
        constants = {name: document[name] for name in cls.CONSTANTS}
        errors = document.get("errors")
        return cls(**constants, errors=None if errors is None else Errors(**errors))


@cache
def efficiencies() -> dict[str, Efficiency]:
    """GPU -> what was measured of it."""
    return {gpu: Efficiency.from_dict(item) for gpu, item in _document()["gpus"].items()}


def unknown_efficiency() -> Efficiency:
    """The medians of all that were measured: for a GPU that wasn't."""
    return Efficiency.from_dict(_document()["unknown"])


def unknown_band_percent() -> int:
    """How far those may be off: from leaving out one GPU in turn, the worst 95th percentile."""
    band = _document()["unknown_band_percent"]
    assert isinstance(band, int)
    return band


@cache
def _document() -> dict[str, Any]:
    text = (resources.files("kvlab.step_time") / "efficiencies.json").read_text(encoding="utf-8")
    document: dict[str, Any] = json.loads(text)
    return document


def roofline_step_time(
    figures: ModelFigures, efficiency: Efficiency, tp: int, *, peak_flops: int, peak_bytes_per_s: int, host_ns: int = 0
) -> RooflineStepTime:
    """The roofline of a model on `tp` GPUs with these peak rates, per second and GPU.

    Args:
        host_ns: of each step; with async scheduling next to nothing is left of it.
    """
    layer_bytes = figures.layer_weight_bytes
    head_bytes = figures.head_weight_bytes
    return RooflineStepTime(
        tp=tp,
        layers=figures.layers,
        layer_params=figures.layer_params,
        layer_weight_bytes=_BYTES_OF_16_BITS * figures.layer_params if layer_bytes is None else layer_bytes,
        head_params=figures.head_params,
        head_weight_bytes=_BYTES_OF_16_BITS * figures.head_params if head_bytes is None else head_bytes,
        kv_bytes_per_token=figures.kv_bytes_per_token,
        attention_width=figures.attention_width,
        hidden_bytes=_BYTES_OF_16_BITS * figures.hidden_size,
        peak_flops=peak_flops,
        peak_bytes_per_s=peak_bytes_per_s,
        host_ns=host_ns,
        **{name: getattr(efficiency, name) for name in Efficiency.CONSTANTS},
    )


def profile_for(
    gpu: str, model: str, tp: int, figures: ModelFigures, *, peak_flops: int, peak_bytes_per_s: int
) -> Profile:
    """The measured profile of this GPU, model and tensor parallelism, or else a roofline that says it is assumed."""
    return find_profile(gpu, model, tp) or assumed_profile(
        gpu, model, tp, figures, peak_flops=peak_flops, peak_bytes_per_s=peak_bytes_per_s
    )


def assumed_profile(
    gpu: str, model: str, tp: int, figures: ModelFigures, *, peak_flops: int, peak_bytes_per_s: int
) -> Profile:
    """A roofline with its error band: of a GPU that was measured with other models, or of one that never was."""
    known = {plain(name): item for name, item in efficiencies().items()}.get(plain(gpu))
    efficiency = known or unknown_efficiency()
    band = unknown_band_percent()
    fitted_on = "no measurement of this GPU: the medians of those that were measured"
    if known is not None and known.errors is not None:
        band = -int(-known.errors.p95_percent // 1)
        fitted_on = "operators of this GPU, not this model"
    return Profile(
        name=f"assumed {gpu} x {tp} {model}",
        gpu=gpu,
        model=model,
        tp=tp,
        engine="roofline",
        engine_version="",
        measured_in=2000,
        step_time=roofline_step_time(figures, efficiency, tp, peak_flops=peak_flops, peak_bytes_per_s=peak_bytes_per_s),
        range={},
        errors={} if known is None or known.errors is None else {"other models": known.errors},
        provenance=Provenance(
            measured="nothing of this model on this GPU",
            fitted_on=fitted_on,
            held_out_on="fitted profiles of other models" if known else "fitted profiles, one GPU left out in turn",
            licence="Apache-2.0 and MIT, as docs/step-time.md says",
            attribution=str(_document()["attribution"]),
        ),
        assumed=True,
        band_percent=band,
    )

"""What versions of vLLM do differently when they size the KV cache."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final

from kvlab.errors import ConfigError
from kvlab.units import GIB

_HUNDREDTH_GIB: Final = Fraction(GIB, 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRules:
    """How one range of versions measures memory and counts blocks; docs/capacity.md has where constants are from."""

    since: tuple[int, int]
    """First version, as (major, minor)."""
    gpu_memory_utilization: Decimal
    """The default."""
    chunked_prefill: bool
    """Whether a step's prompt tokens are capped below max_model_len by default."""
    hybrid_manager: bool
    """Whether blocks behind a sliding window are freed."""
    graphs_counted: bool
    """Whether CUDA graphs are taken off before the KV cache is sized; they come on top of it otherwise."""
    tokens_by_concurrency: bool
    """Whether the token count that is logged for hybrid layouts is max_concurrency x max_model_len."""
    fitted_to: str
    """The logs that gave the constants below."""
    logits_bytes: Fraction
    """Of one entry of sequences x vocabulary in the profiling run, at 16 bits."""
    residual_widths: Fraction
    """Hidden states alive at the peak of a layer, besides its MLP; in widths of the model."""
    non_torch_gib_hundredths: tuple[int, int, int]
    """Outside the allocator: one GPU, pipeline stages alone, tensor parallel; hundredths of a GiB."""

    def non_torch_bytes(self, tensor_parallel_size: int, pipeline_parallel_size: int) -> int:
        """What CUDA and the communication libraries take on one GPU after start-up."""
        case = 2 if tensor_parallel_size > 1 else 1 if pipeline_parallel_size > 1 else 0
        return int(self.non_torch_gib_hundredths[case] * _HUNDREDTH_GIB)


RULES: Final = (
    EngineRules(
        since=(0, 21),
        gpu_memory_utilization=Decimal("0.92"),
        chunked_prefill=True,
        hybrid_manager=True,
        graphs_counted=True,
        tokens_by_concurrency=True,
        fitted_to="logs of vLLM 0.19 on one H100",
        logits_bytes=Fraction(57, 4),
        residual_widths=Fraction(43, 10),
        non_torch_gib_hundredths=(25, 7, 210),
    ),
    EngineRules(
        since=(0, 17),
        gpu_memory_utilization=Decimal("0.9"),
        chunked_prefill=True,
        hybrid_manager=True,
        graphs_counted=False,
        tokens_by_concurrency=False,
        fitted_to="logs of vLLM 0.19 on one H100",
        logits_bytes=Fraction(57, 4),
        residual_widths=Fraction(43, 10),
        non_torch_gib_hundredths=(25, 7, 210),
    ),
    EngineRules(
        since=(0, 9),
        gpu_memory_utilization=Decimal("0.9"),
        chunked_prefill=True,
        hybrid_manager=True,
        graphs_counted=False,
        tokens_by_concurrency=False,
        fitted_to="logs of vLLM 0.16 and of 2025 on H100",
        logits_bytes=Fraction(75, 2),
        residual_widths=Fraction(43, 10),
        non_torch_gib_hundredths=(13, 7, 55),
    ),
    EngineRules(
        since=(0, 0),
        gpu_memory_utilization=Decimal("0.9"),
        chunked_prefill=False,
        hybrid_manager=False,
        graphs_counted=False,
        tokens_by_concurrency=False,
        fitted_to="logs of vLLM 0.6 and 0.7",
        logits_bytes=Fraction(34),
        residual_widths=Fraction(3),
        non_torch_gib_hundredths=(25, 25, 25),
    ),
)
"""Newest first."""
LATEST: Final = "0.21"
"""The version whose rules are taken by default: they hold from it on."""


def engine_rules(version: str) -> EngineRules:
    """The rules of a version such as "0.19" or "0.19.1".

    Raises:
        ConfigError: no version.
    """
    match = re.fullmatch(r"v?(\d{1,3})\.(\d{1,3})(?:[.\w+-]*)", str(version).strip())
    if match is None:
        raise ConfigError("engine_version", version, 'expected a version of vLLM, such as "0.19"')
    wanted = (int(match[1]), int(match[2]))
    return next(rules for rules in RULES if wanted >= rules.since)

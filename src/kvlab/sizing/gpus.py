"""GPUs by name: memory as the driver sees it, bandwidth, peak rates, links."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Final

from kvlab.errors import ConfigError, UnknownNameError
from kvlab.sizing.figures import ASSUMED, MEASURED
from kvlab.sizing.tables import rows
from kvlab.units import GIB

_SEEN_SHARE: Final = {"AMD": Fraction(1), "Intel": Fraction(985, 1000), "NVIDIA": Fraction(985, 1000)}
"""Of the nominal memory in GiB, where no driver's figure is known. Of 6 NVIDIA cards that have one: 0.980 to 0.990."""
_ECC_SHARE: Final = Fraction(937, 1000)
"""Of data-centre cards whose error correction takes memory away: as the L40S shows, 46,068 MiB of 48 GiB."""
_ECC_IN_MEMORY: Final = ("T4", "A10", "A10G", "A40", "L4", "L40")
_FIRST_CHOICE: Final = "sxm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU.

    Attributes:
        memory_bytes: in all, as the driver reports it and the engine multiplies it with its utilisation.
        memory_provenance: "measured", or "assumed" from the nominal size.
        memory_bandwidth_bytes_per_s: of its memory, peak.
        bf16_flops_per_s: dense matrix rate at 16 bits, peak (FP16 where there is no BF16).
        fp8_flops_per_s: the same at 8 bits; None where it has none.
        host_link_bytes_per_s: to the host, one way.
        peer_link_bytes_per_s: to other GPUs, one way; None without a link of that kind.
        source: where its row is from; what is called recalled there was not looked up.
    """

    name: str
    vendor: str
    memory_bytes: int
    memory_provenance: str
    memory_bandwidth_bytes_per_s: int
    bf16_flops_per_s: int
    fp8_flops_per_s: int | None
    host_link_bytes_per_s: int
    peer_link_bytes_per_s: int | None
    source: str
    notes: str


def gpu(name: str) -> Gpu:
    """The GPU of that name; parts that don't change its memory may be left out, as in "A100-80GB" or "h100".

    Raises:
        UnknownNameError: there is none; names the nearest.
        ConfigError: several with different memory.
    """
    table = _gpus()
    wanted = _parts(name)
    found = [gpu for known, gpu in table.items() if wanted and set(wanted) <= set(_parts(known))]
    exact = [gpu for gpu in found if _parts(gpu.name) == wanted]
    if exact:
        return exact[0]
    if not found:
        families = dict.fromkeys(known.rsplit("-", 1)[0] for known in table)
        raise UnknownNameError("gpu", name, [*families, *table])
    if len({_parts(gpu.name)[-1] for gpu in found}) > 1:
        raise ConfigError("gpu", name, f"which one? {', '.join(gpu.name for gpu in found)}")
    return min(found, key=lambda gpu: _FIRST_CHOICE not in _parts(gpu.name))


def gpu_names() -> tuple[str, ...]:
    """Every GPU of the table."""
    return tuple(_gpus())


@cache
def _gpus() -> dict[str, Gpu]:
    return {row["name"]: _gpu(row) for row in rows("gpus")}


def _gpu(row: dict[str, str]) -> Gpu:
    seen = row["memory_seen_gib"]
    share = _ECC_SHARE if row["name"].split("-")[0] in _ECC_IN_MEMORY else _SEEN_SHARE[row["vendor"]]
    gib = Fraction(seen) if seen else Fraction(row["memory_nominal_gb"]) * share
    return Gpu(
        name=row["name"],
        vendor=row["vendor"],
        memory_bytes=int(gib * GIB),
        memory_provenance=MEASURED if seen else ASSUMED,
        memory_bandwidth_bytes_per_s=_scaled(row["memory_bandwidth_gb_s"], 9) or 0,
        bf16_flops_per_s=_scaled(row["bf16_dense_tflops"], 12) or 0,
        fp8_flops_per_s=_scaled(row["fp8_dense_tflops"], 12),
        host_link_bytes_per_s=_scaled(row["host_link_gb_s_one_way"], 9) or 0,
        peer_link_bytes_per_s=_scaled(row["peer_link_gb_s_one_way"], 9),
        source=row["source"],
        notes=row["notes"],
    )


def _scaled(text: str, zeros: int) -> int | None:
    return int(Decimal(text).scaleb(zeros)) if text else None


def _parts(name: str) -> tuple[str, ...]:
    """
    >>> _parts("NVIDIA RTX4090"), _parts("A100-SXM4-80GB")
    (('rtx', '4090'), ('a100', 'sxm', '80gb'))
    """
    text = re.sub(r"\b(rtx)(?=\w)", r"\1 ", name.lower())
    words = [re.sub(r"^sxm\d$", "sxm", word) for word in re.findall(r"[a-z0-9]+", text)]
    return tuple(word for word in words if word not in ("nvidia", "amd", "intel", "instinct", "geforce"))

"""How weights and KV are stored: bytes of an element, bits of a weight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from kvlab.errors import UnknownNameError

AUTO: Final = "auto"
_GROUP: Final = 128
"""Weights that share a scale and a zero point in AWQ and GPTQ files, as nearly all are made."""


@dataclass(frozen=True, slots=True)
class WeightDtype:
    """How the matrices of the layers are stored. Embedding and language-model head stay at `kept_bits`."""

    linear_bits: Fraction
    """Of one weight, with its share of scales and zero points."""
    kept_bits: int
    """Of what isn't quantised, of activations, and of KV where nothing else is asked for."""
    only: str
    """Which matrices: all, experts (gpt-oss) or inner mlps (the FBGEMM files of Llama 3.1 405B)."""
    note: str


def _plain(bits: int, note: str) -> WeightDtype:
    return WeightDtype(Fraction(bits), bits, "all", note)


_INT4: Final = Fraction(4) + Fraction(16 + 4, _GROUP)
WEIGHT_DTYPES: Final[Mapping[str, WeightDtype]] = {
    "bf16": _plain(16, "2 bytes a weight"),
    "fp16": _plain(16, "2 bytes a weight"),
    "fp32": _plain(32, "4 bytes a weight, an activation and an element of KV"),
    "fp8": WeightDtype(Fraction(8), 16, "all", "1 byte a weight; embedding and head at 2"),
    "int8": WeightDtype(Fraction(8), 16, "all", "1 byte a weight; embedding and head at 2"),
    "awq": WeightDtype(_INT4, 16, "all", "4 bits, and 20 bits a group of 128; embedding and head at 16"),
    "gptq": WeightDtype(_INT4, 16, "all", "4 bits, and 20 bits a group of 128; embedding and head at 16"),
    "gptq_int8": WeightDtype(Fraction(8) + Fraction(24, _GROUP), 16, "all", "8 bits, and 24 bits a group of 128"),
    "nvfp4": WeightDtype(Fraction(9, 2), 16, "all", "4 bits, and 8 bits a group of 16; embedding and head at 16"),
    "mxfp4": WeightDtype(Fraction(17, 4), 16, "experts", "experts at 4 bits, and 8 bits a group of 32; the rest at 16"),
    "fbgemm_fp8": WeightDtype(
        Fraction(8), 16, "inner mlps", "1 byte, in all MLPs but the first and last; the rest at 2"
    ),
}
_WEIGHT_ALIASES: Final = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "float": "fp32",
    "int4": "awq",
    "gptq_marlin": "gptq",
    "awq_marlin": "awq",
    "gptq-int4": "gptq",
    "w8a8": "int8",
    "w8a16": "int8",
    "w4a16": "gptq",
}

KV_DTYPE_BYTES: Final[Mapping[str, int]] = {
    "bf16": 2,
    "fp16": 2,
    "bfloat16": 2,
    "float16": 2,
    "float32": 4,
    "fp8": 1,
    "fp8_e4m3": 1,
    "fp8_e5m2": 1,
}
"""Bytes of one element of KV; "auto" is what activations have."""


def weight_dtype_name(given: str) -> str:
    """The key of `WEIGHT_DTYPES` that a name means.

    Raises:
        UnknownNameError: it means none.
    """
    name = _WEIGHT_ALIASES.get(given.strip().lower(), given.strip().lower())
    if name not in WEIGHT_DTYPES:
        raise UnknownNameError("weight_dtype", given, [AUTO, *WEIGHT_DTYPES])
    return name


def kv_element_bytes(kv_cache_dtype: str, weight_dtype: str) -> int:
    """Bytes of one element of KV.

    Raises:
        UnknownNameError: no such dtype.
    """
    name = kv_cache_dtype.strip().lower()
    if name == AUTO:
        return WEIGHT_DTYPES[weight_dtype].kept_bits // 8
    if name not in KV_DTYPE_BYTES:
        raise UnknownNameError("kv_cache_dtype", kv_cache_dtype, [AUTO, *KV_DTYPE_BYTES])
    return KV_DTYPE_BYTES[name]

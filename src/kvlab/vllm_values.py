"""What the values of vLLM's flags mean in kvlab: readable numbers, dtypes, quantisations."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

_READABLE: Final = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT])")
_DECIMAL: Final = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY: Final = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SIXTEEN_BITS: Final = ("bfloat16", "float16", "half")
_FP8: Final = ("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc")
_AS_PUBLISHED: Final = ("compressed-tensors", "modelopt", "modelopt_fp4", "fbgemm_fp8", "mxfp4", "auto-round")
_QUANTIZATIONS: Final = {
    "fp8": "fp8",
    "awq": "awq",
    "awq_marlin": "awq",
    "gptq": "gptq",
    "gptq_marlin": "gptq",
    "experts_int8": "int8",
}


@dataclass(frozen=True, slots=True)
class Reading:
    """What one value means: a value of the setting, or why nothing is set, or why it can't be."""

    value: str | None = None
    ignored: str | None = None
    """The setting stays as it is, and why that is right."""
    refused: tuple[str, str] | None = None
    """Why it can't be simulated, and what to do."""


def plain(text: str) -> Reading:
    """The text as it stands."""
    return Reading(text)


def readable_count(text: str) -> Reading:
    """A number of tokens: vLLM reads "8k" as 8,000, "8K" as 8,192 and "25.6k" as 25,600.

    >>> readable_count("8k").value, readable_count("8K").value, readable_count("25.6k").value
    ('8000', '8192', '25600')
    """
    match = _READABLE.fullmatch(text.strip())
    if match is None:
        return Reading(text)
    number, suffix = match.groups()
    if suffix in _BINARY and "." in number:
        return Reading(refused=("vLLM takes no fraction of a binary unit", f"write {number}{suffix.lower()}"))
    return Reading(str(int(Decimal(number) * (_BINARY | _DECIMAL)[suffix])))


def readable_size(text: str) -> Reading:
    """Bytes, written like a number of tokens."""
    return readable_count(text)


def gib(text: str) -> Reading:
    """GiB, as the engine before V1 takes its swap space."""
    return Reading(f"{text.strip()} GiB")


def length(text: str) -> Reading:
    """A length of requests; "auto" and -1 would be the longest that fits."""
    if text.strip().lower() in ("auto", "-1"):
        return Reading(
            refused=("the engine would search the longest that fits", "give a number: `kvlab capacity` has the longest")
        )
    return readable_count(text)


def kv_cache_dtype(text: str) -> Reading:
    """Numbers of the KV cache: 16 bits or 8."""
    name = text.strip().lower()
    if name in ("auto", *_SIXTEEN_BITS):
        return Reading("auto")
    if name in _FP8:
        return Reading("fp8")
    return Reading(refused=("the size of such a KV cache is not known", f"give auto or one of {', '.join(_FP8)}"))


def dtype(text: str) -> Reading:
    """Numbers of weights that aren't quantised, and of activations."""
    name = text.strip().lower()
    if name in ("float32", "float"):
        return Reading("fp32")
    if name in ("auto", *_SIXTEEN_BITS):
        return Reading(ignored="16 bits, as without it")
    return Reading(refused=("there is no such dtype", "give auto, bfloat16, float16 or float32"))


def quantization(text: str) -> Reading:
    """How weights are stored."""
    name = text.strip().lower()
    if name in ("none", ""):
        return Reading(ignored="weights as the publisher stores them, as without it")
    if name in _AS_PUBLISHED:
        return Reading(ignored="weights as the publisher stores them; --set weight_dtype=... says otherwise")
    if name in _QUANTIZATIONS:
        return Reading(_QUANTIZATIONS[name])
    remedy = "leave it out and set weight_dtype to what comes nearest: fp8, int8, awq, gptq, nvfp4, mxfp4"
    return Reading(refused=("the size of such weights is not known", remedy))


def all_zero(text: str) -> bool:
    """Whether every limit of "image=0,video=0" or '{"image": 0}' is 0."""
    try:
        limits = json.loads(text)
    except ValueError:
        limits = dict(part.partition("=")[::2] for part in text.split(","))
    return isinstance(limits, dict) and all(str(limit) == "0" for limit in limits.values())

"""Named random streams: one per question, one draw per value, so that changing one knob never reshuffles another.

Only the raw words of a seeded PCG64 are used. numpy guarantees those between versions, not what its samplers make
of them.
"""

from __future__ import annotations

from typing import Final
from zlib import crc32

import numpy as np
import numpy.typing as npt

CHUNK: Final = 1024
"""Requests that are drawn at a time: few enough for a short run, enough to make numpy's overhead small."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Stream:
    """Uniform doubles in [0, 1), multiples of 2^-53: element i belongs to request i, however they are taken."""

    def __init__(self, seed: int, name: str) -> None:
        self._words = np.random.PCG64(np.random.SeedSequence([seed, crc32(name.encode())]))

    def take(self, count: int) -> Floats:
        """The next `count` elements."""
        words: npt.NDArray[np.uint64] = self._words.random_raw(count)
        return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53

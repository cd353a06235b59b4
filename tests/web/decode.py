"""A payload read back, the slow and obvious way."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

DTYPES = {"f32": "<f4", "u32": "<u4", "u16": "<u2"}


@dataclass(frozen=True)
class Payload:
    header: dict[str, Any]
    sections: dict[str, npt.NDArray[Any]]

    def owners(self, what: str, size: int) -> Iterator[npt.NDArray[np.int64]]:
        """The owner word of every block at each moment."""
        offset, runs = self.sections[what + "_offset"], self.sections["runs" if what == "snap" else what + "_runs"]
        owner = np.zeros(size, np.int64)
        for first, after in pairwise(offset.tolist()):
            for start, length, word in runs.reshape(-1, 3)[first:after].tolist():
                owner[start : start + length] = word
            yield owner.copy()

    def segments(self) -> Iterator[list[list[int]]]:
        """(start, reserved, used, owner word) at each moment."""
        offset, words = self.sections["seg_offset"], self.sections["segments"].reshape(-1, 4)
        for first, after in pairwise(offset.tolist()):
            yield words[first:after].tolist()


def decode(data: bytes) -> Payload:
    assert data[:4] == b"KVL1"
    (length,) = struct.unpack("<I", data[4:8])
    assert length % 4 == 0
    header = json.loads(data[8 : 8 + length])
    sections, at = {}, 8 + length
    for entry in header["sections"]:
        dtype = np.dtype(DTYPES[entry["type"]])
        sections[entry["name"]] = np.frombuffer(data, dtype, entry["count"], at)
        at += -(-entry["count"] * dtype.itemsize // 4) * 4
    assert at == len(data)
    return Payload(header, sections)

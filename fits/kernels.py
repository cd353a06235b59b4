"""A step as the sum of its kernels, from measured kernel times (LLMServingSim's profiles of vLLM 0.19, eager, bf16).

Between measured sizes the times are interpolated: linear in tokens for the matrices, and multilinear in chunk, earlier
tokens, decodes and their context for attention. A step with several chunks is charged, for attention, the measured
step with one chunk of the same (query, key) pairs and the same tokens.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fits.data import rows
from kvlab.core.step_time import StepLoad, chunk_pairs

Grid = dict[tuple[int, ...], float]
PER_LAYER_TWICE = ("layernorm",)
ONCE = ("embedding", "final_layernorm")
NOT_KERNELS = ("layer",)


@dataclass(frozen=True)
class Kernels:
    """Kernel times of one model on one kind of GPU, in microseconds."""

    layers: int
    dense: dict[str, tuple[list[float], list[float]]]
    """Layer name -> tokens, times."""
    per_sequence: dict[str, tuple[list[float], list[float]]]
    decode: Grid
    """(decodes, context of each) -> attention of one layer."""
    prefill: Grid
    """(chunk, earlier tokens) -> the same."""
    mixed: Grid
    """(chunk, earlier tokens, decodes, context of each) -> the same."""

    @classmethod
    def read(cls, folder: str, layers: int) -> Kernels:
        """The tables of one folder of the data."""
        base = f"perf/llmservingsim_profile/{folder}"
        dense = _curves(f"{base}/dense.csv", "tokens")
        decode: Grid = {}
        prefill: Grid = {}
        mixed: Grid = {}
        for row in rows(f"{base}/attention.csv"):
            chunk, before, n, context = (
                int(row[name]) for name in ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode")
            )
            time_us = float(row["time_us"])
            if any(value & (value - 1) for value in (chunk, before, n, context)):
                continue  # a second grid, whose sizes are no powers of two, is kept to check the interpolation
            if chunk == 0:
                decode[n, context] = time_us
            elif n == 0:
                prefill[chunk, before] = time_us
            else:
                mixed[chunk, before, n, context] = time_us
        return cls(layers, dense, _curves(f"{base}/per_sequence.csv", "sequences"), decode, prefill, mixed)

    def dense_us(self, tokens: int, seqs: int) -> float:
        """All kernels but attention."""
        total = 0.0
        for name, (sizes, times) in self.dense.items():
            times_per_step = 1 if name in ONCE else 2 * self.layers if name in PER_LAYER_TWICE else self.layers
            total += times_per_step * float(np.interp(tokens, sizes, times))
        return total + sum(float(np.interp(seqs, sizes, times)) for sizes, times in self.per_sequence.values())

    def decode_us(self, num_seqs: int, context: int) -> float:
        """A step that only decodes, the context spread evenly."""
        attention = interpolate(self.decode, (num_seqs, context / num_seqs))
        return self.dense_us(num_seqs, num_seqs) + self.layers * attention

    def mixed_us(self, load: StepLoad) -> float:
        """A step with chunks."""
        chunk = load.prefill_tokens
        before = max(0.0, (load.chunk_context - chunk_pairs(chunk, 0)) / chunk)
        if load.num_decodes:
            each = load.decode_context / load.num_decodes
            attention = interpolate(self.mixed, (chunk, before, load.num_decodes, each))
        else:
            attention = interpolate(self.prefill, (chunk, before))
        dense = self.dense_us(chunk + load.num_decodes, load.num_prefills + load.num_decodes)
        return dense + self.layers * attention


def _curves(name: str, by: str) -> dict[str, tuple[list[float], list[float]]]:
    points: dict[str, list[tuple[float, float]]] = {}
    for row in rows(name):
        if row["layer"] not in NOT_KERNELS:
            points.setdefault(row["layer"], []).append((float(row[by]), float(row["time_us"])))
    return {layer: ([x for x, _ in sorted(found)], [y for _, y in sorted(found)]) for layer, found in points.items()}


def interpolate(grid: Grid, at: Sequence[float]) -> float:
    """Multilinear between the grid's points; beyond its ends as at its ends' slope."""
    axes = [sorted({point[i] for point in grid}) for i in range(len(at))] if id(grid) not in _AXES else _AXES[id(grid)]
    _AXES[id(grid)] = axes
    sides = []
    for axis, value in zip(axes, at, strict=True):
        high = min(max(bisect_right(axis, value), 1), len(axis) - 1)
        share = (value - axis[high - 1]) / (axis[high] - axis[high - 1])
        sides.append(((axis[high - 1], 1 - max(0.0, share)), (axis[high], max(0.0, share))))
    total = 0.0
    for corner in itertools.product(*sides):
        weight = 1.0
        for _, share in corner:
            weight *= share
        if weight:
            total += weight * grid[tuple(point for point, _ in corner)]
    return total


_AXES: dict[int, list[list[int]]] = {}

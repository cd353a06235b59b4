"""Shapes of models and rates of GPUs that the fits need, from the tables of the data."""

from __future__ import annotations

from dataclasses import dataclass

from fits.data import rows


@dataclass(frozen=True)
class Shape:
    """A dense model with one kind of attention layer."""

    model: str
    layers: int
    hidden: int
    query_heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int

    @classmethod
    def read(cls, model: str) -> Shape:
        """From the table of architectures."""
        row = next(row for row in rows("model_architectures.csv") if row["model"] == model)
        names = ("layers", "hidden_size", "query_heads", "kv_heads", "head_dim", "intermediate_size", "vocab_size")
        return cls(model, *(int(row[name]) for name in names))

    @property
    def qkv(self) -> int:
        """Columns of the joint query, key and value matrix."""
        return (self.query_heads + 2 * self.kv_heads) * self.head_dim

    @property
    def attention_width(self) -> int:
        """Query heads x head dimension."""
        return self.query_heads * self.head_dim

    @property
    def layer_params(self) -> int:
        """Of all layers: four matrices each."""
        per_layer = self.hidden * self.qkv + self.attention_width * self.hidden + 3 * self.hidden * self.intermediate
        return self.layers * per_layer

    @property
    def kv_bytes_per_token(self) -> int:
        """Of the whole model, 16 bits."""
        return 2 * self.layers * self.kv_heads * self.head_dim * 2


@dataclass(frozen=True)
class Rates:
    """What one GPU can do at most, per second."""

    gpu: str
    flops: int
    """Dense, bf16."""
    bytes_per_s: int

    @classmethod
    def read(cls, gpu: str) -> Rates:
        """From the table of GPUs."""
        row = next(row for row in rows("gpus.csv") if row["name"] == gpu)
        return cls(gpu, round(float(row["bf16_dense_tflops"]) * 1e12), int(row["memory_bandwidth_gb_s"]) * 10**9)

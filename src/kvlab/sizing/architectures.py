"""The shape of a model, and what follows from it: parameters, and bytes of weights."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from kvlab.sizing.dtypes import WEIGHT_DTYPES

_MLA_NOPE_DIM = 128
"""Of query and key heads without position, in every MLA model so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """The text part of a model. Counts are whole numbers, widths are elements.

    Attributes:
        attention: MHA, GQA, MQA or MLA; "+SW" with sliding windows, "+chunked" with chunked-local layers.
        layers: in all: full_attention_layers + sliding_layers + linear_layers.
        sliding_window: tokens that a sliding (or chunked) layer sees; None without such layers.
        linear_layers: with a constant state per sequence and no KV per token.
        kv_heads: key-value heads of a layer; 1 for MLA, whose latent all heads share.
        head_dim: elements of one query, key or value head; of MLA the value head.
        mla_kv_lora_rank, mla_rope_dim: what MLA keeps per token and layer; None elsewhere.
        mla_q_lora_rank: width of the compressed query; None where it isn't compressed or not known.
        intermediate_size: width of the MLP of a dense layer.
        experts, experts_per_token, moe_intermediate_size, shared_experts: 0 in a dense model.
        dense_first_layers: layers of a mixture of experts that have a plain MLP.
        gated_mlp: three matrices an MLP rather than two.
        published_params: as the publisher says, rounded; None where not known.
        weight_dtype: how its weights are stored: a key of `WEIGHT_DTYPES`.
        max_position_embeddings: longest context that its config allows, in tokens; None where not known.
        unsupported: why its KV can't be computed here; None where it can.
    """

    name: str
    attention: str
    layers: int
    full_attention_layers: int
    sliding_layers: int = 0
    sliding_window: int | None = None
    linear_layers: int = 0
    hidden_size: int
    query_heads: int
    kv_heads: int
    head_dim: int
    mla_kv_lora_rank: int | None = None
    mla_rope_dim: int | None = None
    mla_q_lora_rank: int | None = None
    intermediate_size: int
    vocab_size: int
    experts: int = 0
    experts_per_token: int = 0
    moe_intermediate_size: int = 0
    shared_experts: int = 0
    dense_first_layers: int = 0
    tied_embeddings: bool = False
    gated_mlp: bool = True
    published_params: int | None = None
    weight_dtype: str = "bf16"
    max_position_embeddings: int | None = None
    unsupported: str | None = None
    source: str
    notes: str = ""

    @property
    def is_mla(self) -> bool:
        """Whether layers keep one latent vector a token instead of keys and values."""
        return self.mla_kv_lora_rank is not None

    @property
    def is_chunked(self) -> bool:
        """Whether `sliding_layers` attend within fixed chunks rather than a moving window."""
        return "chunked" in self.attention

    @property
    def kv_elements_per_token_per_layer(self) -> int:
        """What one layer keeps of a token, unsharded: keys and values of every KV head, or the latent of MLA."""
        if self.mla_kv_lora_rank is not None:
            return self.mla_kv_lora_rank + (self.mla_rope_dim or 0)
        return 2 * self.kv_heads * self.head_dim

    @property
    def embedding_params(self) -> int:
        """Of the input embedding; the language-model head has as many, or shares them."""
        return self.vocab_size * self.hidden_size

    @property
    def head_params(self) -> int:
        """Of the language-model head; 0 where it is the embedding."""
        return 0 if self.tied_embeddings else self.embedding_params

    @property
    def attention_params_per_layer(self) -> int:
        """Matrices of one attention layer, without biases and norms."""
        hidden, heads = self.hidden_size, self.query_heads
        if self.mla_kv_lora_rank is not None:
            rank, rope = self.mla_kv_lora_rank, self.mla_rope_dim or 0
            query = heads * (_MLA_NOPE_DIM + rope)
            q_rank = self.mla_q_lora_rank
            into_query = hidden * query if q_rank is None else q_rank * (hidden + query)
            return (
                into_query
                + hidden * (rank + rope)
                + rank * heads * (_MLA_NOPE_DIM + self.head_dim)
                + (heads * self.head_dim * hidden)
            )
        return 2 * hidden * self.head_dim * (heads + self.kv_heads)

    @property
    def experts_params(self) -> int:
        """Of the routed experts of all layers; 0 in a dense model."""
        return self._moe_layers * self.experts * self._mlp(self.moe_intermediate_size)

    @property
    def mlp_params(self) -> int:
        """Of the MLPs of all layers: dense, routed and shared experts, routers."""
        moe = self._moe_layers
        shared = moe * self.shared_experts * self._mlp(self.moe_intermediate_size)
        dense = (self.layers - moe) * self._mlp(self.intermediate_size)
        return self.experts_params + shared + dense + moe * self.experts * self.hidden_size

    @property
    def shape_params(self) -> int:
        """All parameters by the shape, without biases and norms."""
        layers = self.layers * self.attention_params_per_layer + self.mlp_params
        return layers + self.embedding_params + self.head_params

    @property
    def params(self) -> int:
        """All parameters: published where known, else by the shape."""
        return self.published_params if self.published_params is not None else self.shape_params

    @property
    def active_params(self) -> int:
        """Parameters that one token goes through: of the routed experts only those that it is sent to."""
        if not self.experts:
            return self.params
        return self.params - self.experts_params * (self.experts - self.experts_per_token) // self.experts

    @property
    def layer_params(self) -> int:
        """Of all layers together: without embedding and head."""
        return self.params - self.embedding_params - self.head_params

    def layer_weight_bytes(self, weight_dtype: str) -> Fraction:
        """Weights of all layers, stored as a key of `WEIGHT_DTYPES`; bytes."""
        dtype = WEIGHT_DTYPES[weight_dtype]
        inner_mlps = self.mlp_params * max(0, self.layers - 2) // self.layers
        quantised = {"all": self.layer_params, "experts": self.experts_params, "inner mlps": inner_mlps}[dtype.only]
        kept = self.layer_params - quantised
        return (quantised * dtype.linear_bits + kept * dtype.kept_bits) / 8

    def edge_weight_bytes(self, params: int, weight_dtype: str) -> int:
        """Bytes of `params` weights of the embedding or the head, which are never quantised."""
        return params * WEIGHT_DTYPES[weight_dtype].kept_bits // 8

    @property
    def _moe_layers(self) -> int:
        return self.layers - self.dense_first_layers if self.experts else 0

    def _mlp(self, width: int) -> int:
        return (3 if self.gated_mlp else 2) * self.hidden_size * width

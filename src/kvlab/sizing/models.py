"""Models by their Hugging Face id."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from functools import cache
from typing import Final

from kvlab.errors import UnknownNameError
from kvlab.sizing.architectures import Architecture
from kvlab.sizing.tables import rows

_PLAIN_MLP: Final = ("microsoft/phi-2", "tiiuae/", "bigscience/bloom", "facebook/opt")
"""Models whose MLP has two matrices; all others of the table have three."""
_UNSUPPORTED: Final = {
    "hybrid GQA+linear": "its linear-attention layers keep a state per sequence in pages of their own, "
    "which is not modelled",
    "MLA+DSA": "its sparse-attention indexer keeps a key cache of its own, which is not modelled",
    "google/gemma-4": "its global layers have KV heads of another number and width than its sliding layers, "
    "which is not modelled",
}


def model(name: str) -> Architecture:
    """The architecture of a Hugging Face id of the table, or of another that has the same shape.

    Raises:
        UnknownNameError: not in the table; names the nearest.
    """
    known = _models()
    wanted = name.strip().lower()
    if wanted not in known:
        raise UnknownNameError("model", name, [architecture.name for architecture in known.values()])
    return known[wanted]


def model_names() -> tuple[str, ...]:
    """Every Hugging Face id that is known."""
    return tuple(architecture.name for architecture in _models().values())


@cache
def _models() -> dict[str, Architecture]:
    """Lower-case id -> architecture; ids of one shape share all but name and stored weights."""
    found = {row["model"].lower(): _architecture(row) for row in rows("model_architectures")}
    for row in rows("model_aliases"):
        shape = found[row["model"].lower()]
        source = shape.source if row["id"] == row["model"] else f"same shape as {row['model']}: {shape.source}"
        found[row["id"].lower()] = replace(shape, name=row["id"], weight_dtype=row["weight_dtype"], source=source)
    return found


def _architecture(row: dict[str, str]) -> Architecture:
    def count(column: str) -> int:
        return int(row[column] or 0)

    def optional(column: str) -> int | None:
        return int(row[column]) if row[column] else None

    published = row["published_params_billion"]
    name = row["model"]
    return Architecture(
        name=name,
        attention=row["attention"],
        layers=count("layers"),
        full_attention_layers=count("full_attention_layers"),
        sliding_layers=count("sliding_layers"),
        sliding_window=optional("sliding_window"),
        linear_layers=count("linear_layers"),
        hidden_size=count("hidden_size"),
        query_heads=count("query_heads"),
        kv_heads=count("kv_heads") or 1,
        head_dim=count("head_dim"),
        mla_kv_lora_rank=optional("mla_kv_lora_rank"),
        mla_rope_dim=optional("mla_rope_dim"),
        intermediate_size=count("intermediate_size"),
        vocab_size=count("vocab_size"),
        experts=count("experts"),
        experts_per_token=count("experts_per_token"),
        moe_intermediate_size=count("moe_intermediate_size"),
        shared_experts=count("shared_experts"),
        dense_first_layers=count("dense_first_layers"),
        tied_embeddings=row["tied_embeddings"] == "1",
        gated_mlp=not name.startswith(_PLAIN_MLP),
        published_params=int(Decimal(published).scaleb(9)) if published else None,
        unsupported=next(
            (why for key, why in _UNSUPPORTED.items() if key in (row["attention"], name[: len(key)])), None
        ),
        source=row["source"],
        notes=row["notes"],
    )

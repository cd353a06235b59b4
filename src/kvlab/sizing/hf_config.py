"""A model's shape from its Hugging Face `config.json`; a file on this machine, nothing is downloaded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kvlab.errors import ConfigError, UnknownNameError
from kvlab.sizing.architectures import Architecture
from kvlab.strict_json import unique_keys

_MAX_FILE_BYTES: Final = 2**22
_MAX_COUNT: Final = 2**16
"""Most layers, heads and experts that are believed."""
_MAX_WIDTH: Final = 10**9
_COUNTS: Final = (
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "kv_heads",
    "experts",
    "num_experts",
)


@dataclass(frozen=True, slots=True)
class _Family:
    gated_mlp: bool = True
    tied: bool = False
    """What `tie_word_embeddings` is where the config leaves it out."""
    keys: Mapping[str, str] | None = None
    """Our key -> the config's, where they differ."""
    window: str = "none"
    """Who slides: none, all, alternate (every other layer), pattern (all but every n-th), chunked."""


_LLAMA: Final = _Family()
_MOE: Final = _Family()
_GEMMA: Final = _Family(tied=True)
FAMILIES: Final[dict[str, _Family]] = {
    "LlamaForCausalLM": _LLAMA,
    "MistralForCausalLM": _Family(window="all"),
    "Mistral3ForConditionalGeneration": _Family(window="all"),
    "MixtralForCausalLM": _Family(window="all", keys={"experts": "num_local_experts"}),
    "Qwen2ForCausalLM": _LLAMA,
    "Qwen2MoeForCausalLM": _MOE,
    "Qwen3ForCausalLM": _LLAMA,
    "Qwen3MoeForCausalLM": _MOE,
    "Phi3ForCausalLM": _LLAMA,
    "PhiForCausalLM": _Family(gated_mlp=False),
    "GraniteForCausalLM": _Family(tied=True),
    "GemmaForCausalLM": _GEMMA,
    "Gemma2ForCausalLM": _Family(tied=True, window="alternate"),
    "Gemma3ForCausalLM": _Family(tied=True, window="pattern"),
    "Gemma3ForConditionalGeneration": _Family(tied=True, window="pattern"),
    "Llama4ForConditionalGeneration": _Family(
        window="chunked", keys={"experts": "num_local_experts", "intermediate_size": "intermediate_size_mlp"}
    ),
    "DeepseekV2ForCausalLM": _MOE,
    "DeepseekV3ForCausalLM": _MOE,
    "GptOssForCausalLM": _Family(window="alternate", keys={"experts": "num_local_experts"}),
    "MiniMaxM2ForCausalLM": _Family(keys={"experts": "num_local_experts"}),
    "MiMoForCausalLM": _LLAMA,
    "OPTForCausalLM": _Family(gated_mlp=False, tied=True, keys={"intermediate_size": "ffn_dim"}),
    "BloomForCausalLM": _Family(
        gated_mlp=False, tied=True, keys={"num_hidden_layers": "n_layer", "num_attention_heads": "n_head"}
    ),
    "FalconForCausalLM": _Family(gated_mlp=False, tied=True, keys={"kv_heads": "num_kv_heads"}),
}
"""`architectures` of a config -> how it is read."""

REFUSED: Final = {
    "Qwen3NextForCausalLM": "linear attention",
    "Qwen3_5ForConditionalGeneration": "linear attention",
    "Qwen3_5MoeForConditionalGeneration": "linear attention",
    "KimiLinearForCausalLM": "linear attention",
    "MiniMaxText01ForCausalLM": "linear attention",
    "MambaForCausalLM": "a state-space model, which has no KV cache",
    "Mamba2ForCausalLM": "a state-space model, which has no KV cache",
    "JambaForCausalLM": "state-space layers",
    "BambaForCausalLM": "state-space layers",
    "FalconH1ForCausalLM": "state-space layers",
    "NemotronHForCausalLM": "state-space layers",
    "GraniteMoeHybridForCausalLM": "state-space layers",
    "Zamba2ForCausalLM": "state-space layers",
    "DeepseekV32ForCausalLM": "a sparse-attention indexer with a cache of its own",
    "DeepseekV4ForCausalLM": "compressed layers of several page sizes",
    "Gemma3nForConditionalGeneration": "layers that share KV",
    "Gemma4ForConditionalGeneration": "layers of different KV shapes",
    "Gemma4ForCausalLM": "layers of different KV shapes",
    "T5ForConditionalGeneration": "an encoder",
    "BartForConditionalGeneration": "an encoder",
    "WhisperForConditionalGeneration": "an encoder",
}
"""Known, and not modelled: why."""

_DTYPES: Final = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
_QUANTISATIONS: Final = {
    "awq": "awq",
    "gptq": "gptq",
    "fp8": "fp8",
    "fbgemm_fp8": "fbgemm_fp8",
    "mxfp4": "mxfp4",
    "modelopt_fp4": "nvfp4",
}


def read_config(path: str | Path) -> Architecture:
    """The architecture that a config.json (or a folder that holds one) describes.

    Raises:
        ConfigError: it can't be read, a field is missing or out of range, or its architecture is not modelled.
        UnknownNameError: its architecture is not known.
    """
    file = Path(path)
    if file.is_dir():
        file /= "config.json"
    try:
        if file.stat().st_size > _MAX_FILE_BYTES:
            raise ConfigError("model", str(file), f"a config.json has at most {_MAX_FILE_BYTES:,} bytes")
        document = json.loads(file.read_bytes(), object_pairs_hook=unique_keys)
    except OSError as error:
        raise ConfigError("model", str(file), f"can't be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError("model", str(file), f"is no JSON: {error}") from None
    if not isinstance(document, dict):
        raise ConfigError("model", str(file), "expected a JSON object with the keys of a config.json")
    return parse_config(document, str(file))


def parse_config(document: Mapping[str, Any], name: str) -> Architecture:
    """The architecture that the content of a config.json describes; errors as from `read_config`."""
    architectures = document.get("architectures")
    if not isinstance(architectures, list) or not architectures or not isinstance(architectures[0], str):
        raise ConfigError(f"{name}: architectures", architectures, 'expected a list such as ["LlamaForCausalLM"]')
    family_name = architectures[0]
    if family_name in REFUSED:
        remedy = f"not modelled: it has {REFUSED[family_name]}. Give --kv-bytes-per-token and --kv-cache-memory-bytes"
        raise ConfigError("architecture", family_name, remedy)
    if family_name not in FAMILIES:
        error = UnknownNameError("architecture", family_name, FAMILIES)
        error.args = (f"{error.args[0]}. Known: {', '.join(FAMILIES)}. Otherwise give --kv-bytes-per-token",)
        raise error
    text = document.get("text_config")
    fields = _Fields({**document, **text} if isinstance(text, dict) else document, name, FAMILIES[family_name])
    return _architecture(fields, family_name)


class _Fields:
    """The keys of one config: whole numbers, with the names that its family has for them."""

    def __init__(self, document: Mapping[str, Any], name: str, family: _Family) -> None:
        self.document = document
        self.name = name
        self.family = family

    def get(self, key: str) -> Any:
        return self.document.get((self.family.keys or {}).get(key, key))

    def optional(self, *keys: str, least: int = 1) -> int | None:
        """The first of the keys that is there."""
        for key in keys:
            value = self.get(key)
            if value is None:
                continue
            most = _MAX_COUNT if key in _COUNTS else _MAX_WIDTH
            if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
                raise ConfigError(f"{self.name}: {key}", value, f"expected a whole number from {least} to {most:,}")
            return value
        return None

    def count(self, *keys: str) -> int:
        value = self.optional(*keys)
        if value is None:
            raise ConfigError(f"{self.name}: {keys[0]}", None, "is missing")
        return value


def _architecture(fields: _Fields, family_name: str) -> Architecture:
    family = fields.family
    layers = fields.count("num_hidden_layers")
    hidden = fields.count("hidden_size")
    heads = fields.count("num_attention_heads")
    kv_heads = _kv_heads(fields, family_name, heads)
    experts = fields.optional("experts", "num_experts", "n_routed_experts") or 0
    rank = fields.optional("kv_lora_rank")
    intermediate = fields.optional("intermediate_size") or 4 * hidden
    sliding, window, chunked = _windows(fields, layers)
    kind = "MLA" if rank else "MQA" if kv_heads == 1 else "MHA" if kv_heads == heads else "GQA"
    tied = fields.get("tie_word_embeddings")
    return Architecture(
        name=fields.name,
        attention=kind + ("+chunked" if chunked else "+SW" if sliding else ""),
        layers=layers,
        full_attention_layers=layers - sliding,
        sliding_layers=sliding,
        sliding_window=window if sliding else None,
        hidden_size=hidden,
        query_heads=heads,
        kv_heads=1 if rank else kv_heads,
        head_dim=_head_dim(fields, hidden, heads, rank),
        mla_kv_lora_rank=rank,
        mla_rope_dim=fields.count("qk_rope_head_dim") if rank else None,
        mla_q_lora_rank=fields.optional("q_lora_rank") if rank else None,
        intermediate_size=intermediate,
        vocab_size=fields.count("vocab_size"),
        experts=experts,
        experts_per_token=fields.count("num_experts_per_tok") if experts else 0,
        moe_intermediate_size=_moe_width(fields, intermediate) if experts else 0,
        shared_experts=_shared_experts(fields) if experts else 0,
        dense_first_layers=fields.optional("first_k_dense_replace", least=0) or 0 if experts else 0,
        tied_embeddings=family.tied if tied is None else bool(tied),
        gated_mlp=family.gated_mlp,
        weight_dtype=_weight_dtype(fields),
        max_position_embeddings=fields.optional("max_position_embeddings"),
        source=f"{family_name} in {fields.name}",
    )


def _kv_heads(fields: _Fields, family_name: str, heads: int) -> int:
    if family_name == "FalconForCausalLM" and not fields.get("new_decoder_architecture"):
        return 1 if fields.get("multi_query") in (None, True) else heads
    return fields.optional("kv_heads", "num_key_value_heads") or heads


def _head_dim(fields: _Fields, hidden: int, heads: int, rank: int | None) -> int:
    if rank:
        return fields.count("v_head_dim")
    given = fields.optional("head_dim")
    if given is None and hidden % heads:
        raise ConfigError(
            f"{fields.name}: hidden_size", hidden, f"isn't a multiple of {heads} heads; head_dim is missing"
        )
    return given or hidden // heads


def _moe_width(fields: _Fields, intermediate: int) -> int:
    if fields.family.window == "chunked":  # Llama 4: intermediate_size is the experts', intermediate_size_mlp the MLP's
        width = fields.document.get("intermediate_size")
        return width if isinstance(width, int) else intermediate
    return fields.optional("moe_intermediate_size") or intermediate


def _shared_experts(fields: _Fields) -> int:
    if fields.family.window == "chunked":
        return 1
    width, routed = fields.optional("shared_expert_intermediate_size"), fields.optional("moe_intermediate_size")
    if width is not None and routed is not None:
        return width // routed
    return fields.optional("n_shared_experts", least=0) or 0


def _windows(fields: _Fields, layers: int) -> tuple[int, int | None, bool]:
    """(layers with a window, its tokens, whether they are chunks)."""
    kinds = fields.get("layer_types")
    chunk = fields.optional("attention_chunk_size")
    if fields.family.window == "chunked":
        if chunk is None:
            return 0, None, False
        counted = kinds.count("chunked_attention") if isinstance(kinds, list) else layers - layers // 4
        return counted, chunk, True
    window = fields.optional("sliding_window")
    if window is None or fields.get("use_sliding_window") is False or fields.family.window == "none":
        return 0, None, False
    if isinstance(kinds, list):
        return kinds.count("sliding_attention"), window, False
    if fields.family.window == "alternate":
        return layers - layers // 2, window, False
    if fields.family.window == "pattern":
        return layers - layers // (fields.optional("sliding_window_pattern") or 6), window, False
    return layers, window, False


def _weight_dtype(fields: _Fields) -> str:
    quantisation = fields.get("quantization_config")
    if isinstance(quantisation, dict):
        method = str(quantisation.get("quant_method", "")).lower()
        if method == "gptq" and quantisation.get("bits") == 8:
            return "gptq_int8"
        if method not in _QUANTISATIONS:
            remedy = f"not known: {', '.join(_QUANTISATIONS)}. Give --weight-dtype"
            raise ConfigError(f"{fields.name}: quant_method", method, remedy)
        return _QUANTISATIONS[method]
    dtype = fields.get("torch_dtype") or fields.get("dtype") or "bfloat16"
    return _DTYPES.get(str(dtype), "bf16")

"""Where the memory of a server's GPU goes, part by part, each with where its figure is from."""

from __future__ import annotations

from typing import Any, Final

from kvlab.servers import Server, VllmV1Server
from kvlab.sizing.figures import ASSUMED, DERIVED, GIVEN, MEASURED
from kvlab.units import format_bytes, format_number
from kvlab.web.your_server import fits

_PARTS: Final = {
    "weights": ("Weights", "weights_bytes"),
    "activations": ("Activations", "activation_bytes"),
    "non_torch": ("Outside PyTorch", "non_torch_bytes"),
    "graphs": ("CUDA graphs", "graph_bytes"),
    "kv": ("KV cache", "kv_cache_bytes"),
}
"""Part -> what the page calls it, and its figure; in the order of the bar."""


def waterfall(server: Server) -> dict[str, Any] | None:
    """The parts of one GPU's memory with what is left free, ready for JSON; None for a lab, which has no such split."""
    if not isinstance(server, VllmV1Server):
        return None
    capacity = fits(server)
    split, figures = capacity.waterfall, capacity.figures
    parts, notes = [], list(capacity.notes)
    if split is not None:
        for name, (label, figure) in _PARTS.items():
            found = figures[figure]
            parts.append(_part(name, label, int(found.value), found.provenance, found.source))
        free = "memory - all other parts: what gpu_memory_utilization leaves to others"
        left = split.total_bytes - sum(part["bytes"] for part in parts)
        parts.append(_part("free", "Free", left, DERIVED, free))
        if left < 0:
            notes.insert(0, f"That is {format_bytes(-left)} more than there is.")
    length = capacity.plan.max_model_len
    return {
        "gpu": server.gpu,
        "gpus": server.tensor_parallel_size * server.pipeline_parallel_size,
        "total_bytes": 0 if split is None else split.total_bytes,
        "total": "" if split is None else format_bytes(split.total_bytes),
        "parts": parts,
        "tokens": f"{capacity.kv_cache_tokens:,} tokens of KV in {capacity.num_gpu_blocks:,} blocks: "
        f"{format_number(capacity.max_concurrency)} requests of {length:,} tokens at once",
        "notes": notes,
        "step_time": _step_time(server),
    }


def _part(name: str, label: str, size: int, provenance: str, source: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": label,
        "bytes": max(0, size),
        "text": format_bytes(max(0, size)),
        "provenance": provenance,
        "source": source,
    }


def _step_time(server: VllmV1Server) -> dict[str, str]:
    """Where durations of steps are from: provenance, and a sentence."""
    profile = server.profile()
    if profile is None:
        return {"provenance": GIVEN, "text": "Step times are a straight line of given coefficients."}
    if not profile.assumed:
        return {"provenance": MEASURED, "text": f"Step times are fitted to {profile.provenance.measured}."}
    band = "" if profile.band_percent is None else f", and may be off by {profile.band_percent} %"
    return {"provenance": ASSUMED, "text": f"Step times are estimated from the GPU's peak rates{band}."}

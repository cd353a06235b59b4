"""Whatever is asked: the books balance, and what starts is what fits."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

import kvlab
from kvlab.errors import ConfigError
from kvlab.sizing.gpus import gpu_names
from kvlab.sizing.models import model_names


@settings(max_examples=150, deadline=None)
@given(
    model=st.sampled_from(model_names()),
    gpu=st.sampled_from(gpu_names()),
    tensor_parallel_size=st.sampled_from([1, 2, 4, 8]),
    pipeline_parallel_size=st.sampled_from([1, 2, 3]),
    gpu_memory_utilization=st.sampled_from(["0.5", "0.92", "1"]),
    max_model_len=st.integers(1, 200_000),
    block_size=st.sampled_from([None, 1, 16, 100]),
    kv_cache_dtype=st.sampled_from(["auto", "fp8"]),
    engine_version=st.sampled_from(["0.6", "0.11", "0.19", "0.21"]),
)
def test_an_engine_starts_exactly_if_its_longest_request_fits(max_model_len: int, **inputs: object) -> None:
    try:
        found = kvlab.capacity(max_model_len=max_model_len, **inputs)  # type: ignore[arg-type]
    except ConfigError:
        return
    assert found.waterfall is not None
    loads = found.waterfall.weights_bytes <= found.waterfall.total_bytes
    assert (found.refusal is None) == (loads and max_model_len <= found.longest_max_model_len)
    assert found.num_gpu_blocks * found.block_bytes <= max(0, found.kv_cache_bytes)
    assert found.max_concurrency * found.layout.blocks_per_request(max_model_len) >= 0
    if found.refusal is None:
        assert found.max_concurrency >= 1

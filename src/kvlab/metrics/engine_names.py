"""What serving engines call the figures of the catalog, in their /metrics unless said otherwise.

Names as of vLLM's V1 engine, SGLang's and TensorRT-LLM's metrics collectors and TGI 3's metrics reference. A figure
that an engine doesn't expose is absent. Engines export counters and histograms: percentiles of a histogram are only as
fine as its buckets, those of kvlab are exact.
"""

from __future__ import annotations

from typing import Final

ENGINE_NAMES: Final[dict[str, dict[str, str]]] = {
    "ttft": {
        "vLLM": "vllm:time_to_first_token_seconds",
        "SGLang": "sglang:time_to_first_token_seconds",
        "TensorRT-LLM": "trtllm_time_to_first_token_seconds",
    },
    "gap": {
        "vLLM": "vllm:inter_token_latency_seconds (vllm:time_per_output_token_seconds before 0.11)",
        "SGLang": "sglang:inter_token_latency_seconds",
    },
    "tpot": {
        "vLLM": "vllm:request_time_per_output_token_seconds",
        "TGI": "tgi_request_mean_time_per_token_duration",
        "TensorRT-LLM": "trtllm_time_per_output_token_seconds",
    },
    "e2e": {
        "vLLM": "vllm:e2e_request_latency_seconds",
        "SGLang": "sglang:e2e_request_latency_seconds",
        "TGI": "tgi_request_duration",
        "TensorRT-LLM": "trtllm_e2e_request_latency_seconds",
    },
    "queue_time": {
        "vLLM": "vllm:request_queue_time_seconds",
        "SGLang": "sglang:queue_time_seconds",
        "TGI": "tgi_request_queue_duration",
        "TensorRT-LLM": "trtllm_request_queue_time_seconds",
    },
    "throughput_in_window_tokens_per_s": {
        "SGLang": "sglang:gen_throughput",
    },
    "throughput_tokens_per_s": {
        "vLLM": "output_throughput (vllm bench serve)",
        "SGLang": "sglang:gen_throughput",
    },
    "requests_per_s": {
        "vLLM": "request_throughput (vllm bench serve)",
    },
    "goodput_per_s": {
        "vLLM": "request_goodput (vllm bench serve --goodput)",
    },
    "preemptions": {
        "vLLM": "vllm:num_preemptions_total",
        "SGLang": "sglang:num_retracted_requests_total",
    },
    "recomputes": {
        "vLLM": "vllm:num_preemptions_total",
        "SGLang": "sglang:num_retracted_requests_total",
    },
    "recomputed_tokens": {
        "SGLang": "sglang:num_retracted_input_tokens_total + sglang:num_retracted_output_tokens_total",
    },
    "kv_capacity_tokens": {
        "vLLM": "GPU KV cache size (start-up log); num_gpu_blocks x block_size (vllm:cache_config_info)",
        "SGLang": "sglang:max_total_num_tokens",
        "TensorRT-LLM": "trtllm_kv_cache_max_blocks x trtllm_kv_cache_tokens_per_block",
    },
    "mean_kv_usage_ratio": {
        "vLLM": "vllm:kv_cache_usage_perc (a ratio, 0 to 1; formerly vllm:gpu_cache_usage_perc), averaged over time",
        "SGLang": "sglang:token_usage, averaged over time",
        "TensorRT-LLM": "trtllm_kv_cache_utilization, averaged over time",
    },
    "peak_kv_usage_ratio": {
        "vLLM": "largest vllm:kv_cache_usage_perc",
        "SGLang": "largest sglang:token_usage",
        "TensorRT-LLM": "largest trtllm_kv_cache_utilization",
    },
    "prefix_hit_ratio": {
        "vLLM": "vllm:prefix_cache_hits_total / vllm:prefix_cache_queries_total",
        "SGLang": "sglang:cache_hit_rate",
        "TensorRT-LLM": "trtllm_kv_cache_hit_rate",
    },
    "cached_tokens": {
        "vLLM": "vllm:prefix_cache_hits_total",
    },
    "mean_running": {
        "vLLM": "vllm:num_requests_running",
        "SGLang": "sglang:num_running_reqs",
        "TGI": "tgi_batch_current_size",
        "TensorRT-LLM": "trtllm_num_requests_running",
    },
    "peak_running": {
        "vLLM": "largest vllm:num_requests_running",
        "SGLang": "largest sglang:num_running_reqs",
        "TGI": "largest tgi_batch_current_size",
        "TensorRT-LLM": "largest trtllm_num_requests_running",
    },
    "mean_waiting": {
        "vLLM": "vllm:num_requests_waiting",
        "SGLang": "sglang:num_queue_reqs",
        "TGI": "tgi_queue_size",
        "TensorRT-LLM": "trtllm_num_requests_waiting",
    },
    "peak_waiting": {
        "vLLM": "largest vllm:num_requests_waiting",
        "SGLang": "largest sglang:num_queue_reqs",
        "TGI": "largest tgi_queue_size",
        "TensorRT-LLM": "largest trtllm_num_requests_waiting",
    },
    "arrived": {
        "SGLang": "sglang:num_requests_total",
        "TGI": "tgi_request_count",
    },
    "finished": {
        "vLLM": "vllm:request_success_total",
        "TGI": "tgi_request_success",
        "TensorRT-LLM": "trtllm_request_success_total",
    },
    "output_tokens": {
        "vLLM": "vllm:generation_tokens_total",
        "SGLang": "sglang:generation_tokens_total",
        "TGI": "sum of tgi_request_generated_tokens",
        "TensorRT-LLM": "trtllm_generation_tokens_total",
    },
    "mean_step_ns": {
        "TensorRT-LLM": "trtllm_iteration_latency_seconds",
    },
    "busy_ratio": {
        "SGLang": "sglang:gpu_execution_seconds_total per second",
    },
}
"""Metric (of latencies: ttft, gap, tpot, e2e, queue_time) -> engine -> name there."""

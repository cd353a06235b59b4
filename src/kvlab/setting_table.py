"""All settings of the servers, of the traffic and of the service level: the table behind flags, files, links and help.

Engine names were checked against the engines' own documentation and sources: vLLM 0.6 (whose engine, the one before
V1, heeded `--preemption-mode` and `--swap-space`) to 0.24, SGLang 0.5, TGI 3 and TensorRT-LLM 1.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Final

from kvlab.errors import ConfigError, UnknownNameError
from kvlab.settings import (
    COUNT,
    DURATION,
    FACTOR,
    FILE,
    LENGTHS,
    NAME,
    RATE,
    RATIO,
    SIZE,
    SWITCH,
    TEXT,
    Setting,
)
from kvlab.units import NS_PER_S

PREEMPTION_LAB: Final = "preemption-lab"
BLOCK_TABLE_LAB: Final = "block-table-lab"
VLLM_V1: Final = "vllm-v1"
VLLM_V0: Final = "vllm-v0"
LABS: Final = (PREEMPTION_LAB, BLOCK_TABLE_LAB)
"""Small models to learn with."""
PAGE_RULES: Final = (*LABS, VLLM_V1)
"""Those that the page has."""
RULES: Final = (*PAGE_RULES, VLLM_V0)
_P: Final = (PREEMPTION_LAB,)
_B: Final = (BLOCK_TABLE_LAB,)
_V: Final = (VLLM_V1, VLLM_V0)
_V1: Final = (VLLM_V1,)
_PV: Final = (PREEMPTION_LAB, VLLM_V1, VLLM_V0)
_PV0: Final = (PREEMPTION_LAB, VLLM_V0)
_BV0: Final = (BLOCK_TABLE_LAB, VLLM_V0)
_LAB_P: Final = 'MODEL.md, "Preemption lab"'
_LAB_B: Final = 'MODEL.md, "Block-table lab"'
_BOTH: Final = "MODEL.md, both labs"
_VLLM: Final = "docs/vllm-v1.md"
_SIZING: Final = "docs/capacity.md"
_TIMING: Final = "docs/step-time.md"
_TRAFFIC: Final = 'MODEL.md, "Traffic"'
_OWN: Final = "kvlab (not part of the labs' rules)"

# Bounds that keep every sum of a run inside 63 bits and every pool inside a laptop's memory.
_MOST_BYTES: Final = 2**50
_MOST_TOKENS: Final = 10_000_000
_MOST_SEQS: Final = 1_000_000
_TEN_YEARS_NS: Final = 10 * 365 * 86_400 * NS_PER_S
_MILLIONTH: Final = Decimal("0.000001")
_MOST_STEP_NS: Final = 60 * NS_PER_S
_MOST_PER_ITEM_NS: Final = NS_PER_S


def _preemption_modes() -> Iterable[str]:
    from kvlab.core.preemption import GROUP_PREEMPTION_MODES

    return GROUP_PREEMPTION_MODES


def _arrivals() -> Iterable[str]:
    from kvlab.workloads.arrivals import ARRIVALS

    return ARRIVALS


def _trace_formats() -> Iterable[str]:
    from kvlab.workloads.traces import TRACE_FORMATS

    return TRACE_FORMATS


_SERVER: Final = (
    Setting(
        name="preemption_mode", group="server", kind=NAME, rules=_PV0, choices=_preemption_modes, source=_LAB_P,
        help="What becomes of a preempted sequence: its KV is computed again, or copied to the CPU and back; "
        "auto (vllm-v0): copied where a request has several samples.",
        engines={"vLLM": "--preemption-mode (before V1); V1 always recomputes",
                 "SGLang": "always recomputes (retraction)",
                 "TensorRT-LLM": "recomputes; host_cache_size lets blocks go to the CPU instead"},
    ),
    Setting(
        name="allocator", group="server", kind=NAME, rules=_B, choices=lambda: ("contiguous", "paged"), source=_LAB_B,
        help="One reserved range per sample, or blocks handed out as tokens come.",
        engines={"vLLM": "always paged", "SGLang": "always paged", "TGI": "always paged",
                 "TensorRT-LLM": "paged_kv_cache (engine build); paged by default"},
    ),
    Setting(
        name="model", group="server", kind=TEXT, rules=_V, source=_SIZING,
        help="The model: its Hugging Face id, or the path of its config.json.",
        engines={"vLLM": "--model", "SGLang": "--model-path", "TGI": "--model-id", "TensorRT-LLM": "--model_dir"},
    ),
    Setting(
        name="gpu", group="server", kind=NAME, rules=_V, source=_SIZING,
        help="The GPU: a name of the table, such as A100-80GB.",
    ),
    Setting(
        name="engine_version", group="server", kind=NAME, rules=_V, source=_SIZING,
        help="Version of vLLM whose memory accounting and defaults hold.",
    ),
    Setting(
        name="weight_dtype", group="server", kind=NAME, rules=_V, source=_SIZING,
        help="Numbers of the weights: as the publisher stores them (auto), or a dtype or quantisation.",
        engines={"vLLM": "--dtype, --quantization", "SGLang": "--dtype, --quantization"},
    ),
    Setting(
        name="tensor_parallel_size", group="server", kind=COUNT, unit="GPUs", rules=_V, at_least=1, at_most=1_024,
        source=_SIZING, help="GPUs that share each layer.",
        engines={"vLLM": "--tensor-parallel-size", "SGLang": "--tp-size", "TGI": "--num-shard",
                 "TensorRT-LLM": "--tp_size"},
    ),
    Setting(
        name="pipeline_parallel_size", group="server", kind=COUNT, unit="stages", rules=_V1, at_least=1, at_most=1_024,
        source=_SIZING, help="Stages that the layers are split into.",
        engines={"vLLM": "--pipeline-parallel-size", "SGLang": "--pp-size", "TensorRT-LLM": "--pp_size"},
    ),
    Setting(
        name="gpu_memory_utilization", group="server", kind=RATIO, rules=_PV, above=0, at_most=1, source=_LAB_P,
        help="Share of the GPU's memory for weights, overhead and KV cache together.",
        engines={"vLLM": "--gpu-memory-utilization", "SGLang": "--mem-fraction-static (weights and KV cache only)",
                 "TGI": "--cuda-memory-fraction",
                 "TensorRT-LLM": "free_gpu_memory_fraction (of what the weights leave free)"},
    ),
    Setting(
        name="gpu_memory_bytes", group="server", kind=SIZE, rules=_P, at_least=1, at_most=_MOST_BYTES, source=_LAB_P,
        help="Memory of the GPU.",
    ),
    Setting(
        name="weights_bytes", group="server", kind=SIZE, rules=_P, at_least=0, at_most=_MOST_BYTES, source=_LAB_P,
        help="Memory that the model's weights take.",
    ),
    Setting(
        name="overhead_bytes", group="server", kind=SIZE, rules=_P, at_least=0, at_most=_MOST_BYTES, source=_LAB_P,
        help="Memory for activations and everything else that is no KV cache.",
    ),
    Setting(
        name="kv_memory_bytes", group="server", kind=SIZE, rules=_B, at_least=1, at_most=_MOST_BYTES, source=_LAB_B,
        aliases=("--kv-memory",), help="Memory of the KV cache.",
        engines={"vLLM": "--kv-cache-memory-bytes", "TGI": "--max-batch-total-tokens (in tokens)",
                 "SGLang": "--max-total-tokens (in tokens)", "TensorRT-LLM": "max_tokens of KvCacheConfig (in tokens)"},
    ),
    Setting(
        name="kv_cache_memory_bytes", group="server", kind=SIZE, rules=_V1, at_least=1, at_most=_MOST_BYTES,
        source=_SIZING, optional=True, help="Memory of the KV cache on each GPU, in place of what the model leaves.",
        engines={"vLLM": "--kv-cache-memory-bytes"},
    ),
    Setting(
        name="num_gpu_blocks_override", group="server", kind=COUNT, unit="blocks", rules=_V, at_least=2,
        at_most=2**22, source=_SIZING, optional=True, help="Blocks of the KV cache, in place of what fits.",
        engines={"vLLM": "--num-gpu-blocks-override"},
    ),
    Setting(
        name="kv_cache_dtype", group="server", kind=NAME, rules=_PV, choices=lambda: ("auto", "fp8"), source=_LAB_P,
        help="Numbers in the KV cache: the model's 16 bits (auto), or 8 bits and so half the memory per token.",
        engines={"vLLM": "--kv-cache-dtype", "SGLang": "--kv-cache-dtype", "TGI": "--kv-cache-dtype",
                 "TensorRT-LLM": "dtype of KvCacheConfig"},
    ),
    Setting(
        name="enforce_eager", group="server", kind=SWITCH, rules=_V, source=_SIZING,
        help="Without CUDA graphs: what they take is left to the KV cache. Step times stay those with graphs.",
        engines={"vLLM": "--enforce-eager", "SGLang": "--disable-cuda-graph", "TGI": "--cuda-graphs 0"},
    ),
    Setting(
        name="kv_bytes_per_token", group="server", kind=SIZE, rules=LABS, at_least=1, at_most=2**30, source=_BOTH,
        help="KV cache that one token takes at 16 bits: 2 x layers x KV heads x head size x 2 bytes.",
    ),
    Setting(
        name="swap_space_bytes", group="server", kind=SIZE, rules=_PV0, at_least=0, at_most=_MOST_BYTES, source=_LAB_P,
        aliases=("--swap-space",), help="CPU memory for sequences that were swapped out.",
        engines={"vLLM": "--swap-space (GiB; before V1, gone in 0.18)",
                 "SGLang": "--hicache-size (a cache, not a swap space)",
                 "TensorRT-LLM": "host_cache_size of KvCacheConfig"},
    ),
    Setting(
        name="block_size", group="server", kind=COUNT, unit="tokens", rules=RULES, at_least=1, at_most=_MOST_TOKENS,
        source=_BOTH, help="Tokens per block of the KV cache.",
        engines={"vLLM": "--block-size", "SGLang": "--page-size", "TensorRT-LLM": "tokens_per_block of KvCacheConfig"},
    ),
    Setting(
        name="max_tokens", group="server", kind=COUNT, unit="tokens", rules=_B, at_least=1, at_most=_MOST_TOKENS,
        source=_LAB_B, help="Longest answer of a sample; contiguous memory is reserved for all of it.",
        engines={"vLLM": "max_tokens of a request", "SGLang": "max_new_tokens of a request",
                 "TGI": "max_new_tokens of a request", "TensorRT-LLM": "max_tokens of a request"},
    ),
    Setting(
        name="max_model_len", group="server", kind=COUNT, unit="tokens", rules=_V, at_least=2, at_most=_MOST_TOKENS,
        source=_VLLM, optional=True,
        help="Most tokens of a prompt and its answer; none: what config.json says, else 8,192.",
        engines={"vLLM": "--max-model-len", "SGLang": "--context-length", "TGI": "--max-total-tokens",
                 "TensorRT-LLM": "max_seq_len"},
    ),
    Setting(
        name="max_num_batched_tokens", group="server", kind=COUNT, unit="tokens", rules=_V, at_least=1,
        at_most=_MOST_TOKENS, source=_VLLM, optional=True,
        help="Token budget of one step, decodes included; none: the engine's default for the GPU.",
        engines={"vLLM": "--max-num-batched-tokens", "SGLang": "--chunked-prefill-size (without decodes)",
                 "TGI": "--max-batch-prefill-tokens (without decodes)", "TensorRT-LLM": "max_num_tokens"},
    ),
    Setting(
        name="enable_chunked_prefill", group="server", kind=SWITCH, rules=_V1, source=_VLLM,
        help="Whether a prompt may be computed over several steps.",
        engines={"vLLM": "--enable-chunked-prefill", "TensorRT-LLM": "enable_chunked_prefill"},
    ),
    Setting(
        name="long_prefill_token_threshold", group="server", kind=COUNT, unit="tokens", rules=_V1, at_least=0,
        at_most=_MOST_TOKENS, source=_VLLM, help="Most tokens of one request in one step; 0 is no limit.",
        engines={"vLLM": "--long-prefill-token-threshold"},
    ),
    Setting(
        name="enable_prefix_caching", group="server", kind=SWITCH, rules=_V1, source=_VLLM,
        help="Whether KV of equal beginnings is kept and shared.",
        engines={"vLLM": "--enable-prefix-caching", "SGLang": "--disable-radix-cache turns it off",
                 "TensorRT-LLM": "enable_block_reuse of KvCacheConfig"},
    ),
    Setting(
        name="scheduling_policy", group="server", kind=NAME, rules=_V1, choices=lambda: ("fcfs", "priority"),
        source=_VLLM, help="Who is admitted first, and who is preempted.",
        engines={"vLLM": "--scheduling-policy", "SGLang": "--schedule-policy"},
    ),
    Setting(
        name="watermark", group="server", kind=RATIO, rules=_V, at_least=0, at_most=1, source=_VLLM,
        help="Share of the pool that an admission must leave free, so that running requests can grow.",
        engines={"vLLM": "--watermark (0.24 and later)",
                 "SGLang": "--schedule-conservativeness (another rule, same aim)"},
    ),
    Setting(
        name="scheduler_reserve_full_isl", group="server", kind=SWITCH, rules=_V1, source=_VLLM,
        help="Whether an admission needs free blocks for the whole prompt, not just for its first chunk.",
        engines={"vLLM": "--scheduler-reserve-full-isl"},
    ),
    Setting(
        name="step_time", group="server", kind=TEXT, rules=_V, source=_TIMING,
        help="Where durations of steps are from: auto (measured for this GPU and model, else a roofline), roofline, "
        "linear (base_ns, per_seq_ns, per_prefill_token_ns), a profile's name or a file of `kvlab calibrate`.",
    ),
    Setting(
        name="max_num_seqs", group="server", kind=COUNT, unit="sequences", rules=RULES, at_least=1, at_most=_MOST_SEQS,
        source=_BOTH, help="Most sequences that run at once; the others wait.",
        engines={"vLLM": "--max-num-seqs", "SGLang": "--max-running-requests", "TGI": "--max-batch-size",
                 "TensorRT-LLM": "max_batch_size"},
    ),
    Setting(
        name="headroom_blocks", group="server", kind=COUNT, unit="blocks", rules=_P, at_least=0, at_most=2**40,
        source=_LAB_P, help="Free blocks that an admission must leave, so that running sequences can grow.",
        engines={"vLLM": "--watermark (a ratio of the pool; 0.24 and later)",
                 "SGLang": "--schedule-conservativeness (another rule, same aim)"},
    ),
    Setting(
        name="prefill_budget_tokens", group="server", kind=COUNT, unit="tokens", rules=_P, at_least=1,
        at_most=_MOST_TOKENS, source=_LAB_P, help="Most prompt tokens computed in one step; decodes do not count.",
        engines={"vLLM": "--max-num-batched-tokens (decodes count too)", "SGLang": "--chunked-prefill-size",
                 "TGI": "--max-batch-prefill-tokens", "TensorRT-LLM": "max_num_tokens (decodes count too)"},
    ),
    Setting(
        name="slow_pcie", group="server", kind=FACTOR, rules=_P, at_least=0, at_most=1_000, bare="5", source=_LAB_P,
        help="Copies to the CPU and back take this many times as long: an event, off at 1.",
    ),
    Setting(
        name="base_ns", group="server", kind=DURATION, rules=RULES, at_least=1, at_most=_MOST_STEP_NS, source=_BOTH,
        help="Duration of a step before anything is added: reading the weights.",
    ),
    Setting(
        name="per_seq_ns", group="server", kind=DURATION, rules=RULES, at_least=0, at_most=_MOST_PER_ITEM_NS,
        source=_BOTH, help="What each running sequence adds to a step.",
    ),
    Setting(
        name="per_context_token_ns", group="server", kind=DURATION, rules=_B, at_least=0, at_most=_MOST_PER_ITEM_NS,
        source=_LAB_B, help="What each token of context adds to a step: reading the KV cache.",
    ),
    Setting(
        name="per_prefill_token_ns", group="server", kind=DURATION, rules=RULES, at_least=0,
        at_most=_MOST_PER_ITEM_NS, source=_BOTH, help="What each prompt token computed adds to a step.",
    ),
    Setting(
        name="swap_per_token_ns", group="server", kind=DURATION, rules=_PV0, at_least=0, at_most=_MOST_PER_ITEM_NS,
        source=_LAB_P, help="What each token copied to the CPU, or back, adds to a step.",
    ),
    Setting(
        name="swap_per_block_ns", group="server", kind=DURATION, rules=_PV0, at_least=0, at_most=_MOST_PER_ITEM_NS,
        source=_LAB_P, help="What each block copied to the CPU, or back, adds to a step.",
    ),
    Setting(
        name="paging_overhead_num", group="server", kind=COUNT, rules=_B, at_least=0, at_most=1_000_000, source=_LAB_B,
        help="Overhead of paging, numerator: a step lasts 1 + num / (den x block_size) times as long, prefill apart.",
    ),
    Setting(
        name="paging_overhead_den", group="server", kind=COUNT, rules=_B, at_least=1, at_most=1_000_000, source=_LAB_B,
        help="Overhead of paging, denominator: a step lasts 1 + num / (den x block_size) times as long, prefill apart.",
    ),
)  # fmt: skip

_BENCH: Final = "of `vllm bench serve`"
_TRAFFIC_SETTINGS: Final = (
    Setting(
        name="seed", group="traffic", kind=COUNT, rules=RULES, source=_TRAFFIC, at_least=0, at_most=2**53 - 1,
        help="Start of all random streams: the same seed, the same requests.",
        engines={"vLLM": f"--seed {_BENCH}", "SGLang": "--seed of bench_serving"},
    ),
    Setting(
        name="arrivals", group="traffic", kind=NAME, rules=RULES, source=_TRAFFIC, choices=_arrivals,
        help="How requests come.",
    ),
    Setting(
        name="request_rate", group="traffic", kind=RATE, rules=RULES, source=_TRAFFIC,
        at_least=_MILLIONTH, at_most=1_000_000,
        help="Requests per second on average, before bursts.",
        engines={"vLLM": f"--request-rate {_BENCH}", "SGLang": "--request-rate of bench_serving"},
    ),
    Setting(
        name="burstiness", group="traffic", kind=FACTOR, rules=RULES, source=_OWN,
        at_least=Decimal("0.01"), at_most=10_000,
        help="Shape of gamma arrivals: 1 is Poisson, less is burstier; CV = 1 / sqrt(burstiness).",
        engines={"vLLM": f"--burstiness {_BENCH}"},
    ),
    Setting(
        name="max_concurrency", group="traffic", kind=COUNT, unit="users", rules=RULES, source=_OWN, optional=True,
        at_least=1, at_most=_MOST_SEQS, help="Users of a closed loop: each sends its next request when one has ended.",
        engines={"vLLM": f"--max-concurrency {_BENCH}", "SGLang": "--max-concurrency of bench_serving"},
    ),
    Setting(
        name="think_time_ns", group="traffic", kind=DURATION, rules=RULES, source=_OWN, at_least=0,
        at_most=_TEN_YEARS_NS, aliases=("--think-time",),
        help="Time between a user's answer and its next request (closed loop).",
    ),
    Setting(
        name="duration_ns", group="traffic", kind=DURATION, rules=RULES, source=_TRAFFIC, at_least=1,
        at_most=_TEN_YEARS_NS, aliases=("--duration",),
        help="Time in which requests arrive; the run goes on until all have ended.",
    ),
    Setting(
        name="num_requests", group="traffic", kind=COUNT, unit="requests", rules=RULES, source=_OWN, optional=True,
        at_least=1, at_most=1_000_000_000, help="Stop after this many requests, whatever the duration.",
        engines={"vLLM": f"--num-prompts {_BENCH}", "SGLang": "--num-prompts of bench_serving"},
    ),
    Setting(
        name="burst", group="traffic", kind=FACTOR, rules=RULES, source=_TRAFFIC, at_least=0, at_most=1_000, bare="2.5",
        help="The rate is this many times higher from 40 s to 70 s: an event, off at 1.",
    ),
    Setting(
        name="rate_events", group="traffic", kind=TEXT, rules=RULES, source=_OWN,
        help='Changes of the rate: "burst(40 s, 70 s, 2.5); ramp(0 s, 60 s, 1, 3)".',
    ),
    Setting(
        name="prompt_tokens", group="traffic", kind=LENGTHS, rules=RULES, source=_TRAFFIC,
        help='Prompt lengths: 512, "uniform(200, 1500)", "lognormal(p50=600, p95=3000)".',
    ),
    Setting(
        name="output_tokens", group="traffic", kind=LENGTHS, rules=RULES, source=_TRAFFIC,
        help='Answer lengths: 128, "exponential(250, max=1500)".',
    ),
    Setting(
        name="longer_answers", group="traffic", kind=FACTOR, rules=RULES, source=_TRAFFIC,
        at_least=Decimal("0.001"), at_most=1_000,
        bare="2", help="Answers are this many times longer on average: an event, off at 1.",
    ),
    Setting(
        name="long_report_users", group="traffic", kind=SWITCH, rules=RULES, source=_TRAFFIC,
        help="One request in five has a mean answer six times longer: an event.",
    ),
    Setting(
        name="num_samples", group="traffic", kind=COUNT, unit="samples", rules=_BV0, source=_TRAFFIC, at_least=1,
        at_most=1_024, bare="4", aliases=("--parallel-sampling",),
        help="Samples per request, each with an answer of its own (from a trace: all as long as its row says).",
        engines={"vLLM": "n of a request", "SGLang": "n of a request", "TensorRT-LLM": "n of a request"},
    ),
    Setting(
        name="trace", group="traffic", kind=FILE, rules=RULES, source=_OWN, optional=True,
        help="Requests from this file, in place of drawn ones.",
    ),
    Setting(
        name="trace_format", group="traffic", kind=NAME, rules=RULES, source=_OWN, optional=True,
        choices=_trace_formats, help="Format of the trace, where it is not to be detected.",
    ),
    Setting(
        name="trace_columns", group="traffic", kind=TEXT, rules=RULES, source=_OWN, optional=True,
        help='Columns of a generic trace: "arrival=ts,prompt=in,output=out".',
    ),
    Setting(
        name="trace_from_ns", group="traffic", kind=DURATION, rules=RULES, source=_OWN, at_least=0,
        at_most=_TEN_YEARS_NS, aliases=("--from",), help="Start of the part of the trace that is used.",
    ),
    Setting(
        name="trace_until_ns", group="traffic", kind=DURATION, rules=RULES, source=_OWN, optional=True, at_least=1,
        at_most=_TEN_YEARS_NS, aliases=("--until",), help="End of that part.",
    ),
    Setting(
        name="trace_speed", group="traffic", kind=FACTOR, rules=RULES, source=_OWN,
        at_least=_MILLIONTH, at_most=1_000_000,
        aliases=("--speed",), help="Play the trace this many times as fast.",
    ),
)  # fmt: skip

_SLO: Final = (
    Setting(
        name="slo", group="slo", kind=TEXT, rules=RULES, source=_OWN,
        help='Limits that a good request meets, all of them: "ttft<=2s, tpot<=60ms, gap<=150ms, e2e<=30s".',
        engines={"vLLM": f"--goodput {_BENCH} (ttft, tpot, e2el)"},
    ),
)  # fmt: skip

SETTINGS: Final[dict[str, Setting]] = {setting.name: setting for setting in (*_SERVER, *_TRAFFIC_SETTINGS, *_SLO)}


def settings_of(rules: str, group: str | None = None) -> list[Setting]:
    """The settings of one lab, or of one group of them, in the order of the table."""
    return [s for s in SETTINGS.values() if rules in s.rules and group in (None, s.group)]


def find_setting(name: str, rules: str, given: object = None) -> Setting:
    """The setting of that name in one lab.

    Args:
        given: the value that goes with it, for the message.
    Raises:
        UnknownNameError: no lab has it; names the nearest that this one has.
        ConfigError: only the other lab has it.
    """
    setting = SETTINGS.get(name)
    if setting is None:
        raise UnknownNameError("setting", name, [s.name for s in settings_of(rules)])
    if rules not in setting.rules:
        raise ConfigError(name, given, f"a setting of the {' and '.join(setting.rules)}; the {rules} has none such")
    return setting

"""Every flag of `vllm serve` that kvlab knows, and what becomes of it: the table behind `--vllm` and docs/flags.md.

Checked against vLLM's arguments from 0.6 to 0.26 (vllm/engine/arg_utils.py, vllm/entrypoints/openai/cli_args.py).
A flag that isn't here is an error: nothing that could change the answer is passed over in silence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from kvlab.vllm_values import (
    Reading,
    all_zero,
    dtype,
    gib,
    kv_cache_dtype,
    length,
    plain,
    quantization,
    readable_count,
    readable_size,
)

Takes = Literal["value", "switch", "words", "maybe"]
"""One value; none, with a --no- form; any number of words; one value or none."""
Fate = Literal["mapped", "noted", "ignored", "refused"]
"""Noted: taken, though it changes something that isn't simulated, which is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """One row of the table."""

    name: str
    fate: Fate
    takes: Takes = "value"
    shorts: tuple[str, ...] = ()
    setting: str | None = None
    """Of kvlab, where the flag is mapped."""
    read: Callable[[str], Reading] = plain
    """What a value of a mapped flag means."""
    why: str = ""
    """Why it is ignored, refused or noted; what is said beside a mapped one that is on."""
    remedy: str = ""
    """What to do about a refused flag."""
    harmless: tuple[str, ...] = ()
    """Values of a refused or noted flag with which the engine does what it does without it."""
    is_harmless: Callable[[str], bool] | None = None
    """The same, where a list doesn't say it."""

    def changes_nothing(self, value: str) -> bool:
        """Whether the engine does with this value what it does without the flag."""
        return value in self.harmless or (self.is_harmless is not None and self.is_harmless(value))


def _mapped(
    name: str,
    setting: str,
    read: Callable[[str], Reading] = plain,
    *,
    shorts: tuple[str, ...] = (),
    takes: Takes = "value",
) -> Flag:
    return Flag(name=name, fate="mapped", setting=setting, read=read, shorts=shorts, takes=takes)


def _ignored(why: str, values: str = "", switches: str = "", words: str = "") -> tuple[Flag, ...]:
    """Flags that share a reason, by what they take."""
    takes: dict[str, Takes] = {
        **dict.fromkeys(values.split(), "value"),
        **dict.fromkeys(switches.split(), "switch"),
        **dict.fromkeys(words.split(), "words"),
    }
    return tuple(Flag(name=name, fate="ignored", takes=what, why=why) for name, what in takes.items())


def _noted(name: str, why: str, takes: Takes = "value", *harmless: str, shorts: tuple[str, ...] = ()) -> Flag:
    return Flag(name=name, fate="noted", takes=takes, why=why, harmless=harmless, shorts=shorts)


def _refused(
    name: str, why: str, remedy: str, *harmless: str, takes: Takes = "value", shorts: tuple[str, ...] = ()
) -> Flag:
    return Flag(name=name, fate="refused", takes=takes, why=why, remedy=remedy, harmless=harmless, shorts=shorts)


LEAVE_OUT: Final = "leave it out to simulate the server without it"
_EMPTY: Final = ("none", "None", "{}", "")

_MAPPED: Final = (
    _mapped("--model", "model"),
    _mapped("--max-num-seqs", "max_num_seqs"),
    _mapped("--max-num-batched-tokens", "max_num_batched_tokens", readable_count),
    _mapped("--max-model-len", "max_model_len", length),
    _mapped("--gpu-memory-utilization", "gpu_memory_utilization"),
    _mapped("--kv-cache-memory-bytes", "kv_cache_memory_bytes", readable_size),
    _mapped("--num-gpu-blocks-override", "num_gpu_blocks_override"),
    _mapped("--kv-cache-dtype", "kv_cache_dtype", kv_cache_dtype),
    _mapped("--block-size", "block_size"),
    _mapped("--tensor-parallel-size", "tensor_parallel_size", shorts=("-tp",)),
    _mapped("--pipeline-parallel-size", "pipeline_parallel_size", shorts=("-pp",)),
    _mapped("--enable-prefix-caching", "enable_prefix_caching", takes="switch"),
    _mapped("--enable-chunked-prefill", "enable_chunked_prefill", takes="switch"),
    _mapped("--long-prefill-token-threshold", "long_prefill_token_threshold"),
    _mapped("--scheduling-policy", "scheduling_policy"),
    _mapped("--watermark", "watermark"),
    _mapped("--scheduler-reserve-full-isl", "scheduler_reserve_full_isl", takes="switch"),
    Flag(name="--enforce-eager", fate="mapped", setting="enforce_eager", takes="switch",
         why="memory is that without CUDA graphs; step times stay those with them"),
    _mapped("--dtype", "weight_dtype", dtype),
    _mapped("--quantization", "weight_dtype", quantization, shorts=("-q",)),
)  # fmt: skip

_NOTED: Final = (
    _noted("--async-scheduling", "decisions lag one step behind the GPU, which is not simulated", "switch"),
    _noted("--compilation-config", "step times and graph memory stay those of the defaults", "value", *_EMPTY,
           shorts=("-cc",)),
    _noted("--optimization-level", "step times stay those of the default", "value", "1", "2", "3", shorts=("-O",)),
    _noted("--cudagraph-capture-sizes", "step times and graph memory stay those of the defaults", "words"),
    _noted("--max-cudagraph-capture-size", "step times and graph memory stay those of the defaults"),
    _noted("--cuda-graph-sizes", "step times and graph memory stay those of the defaults", "words"),
    _noted("--full-cuda-graph", "step times and graph memory stay those of the defaults", "switch"),
    _noted("--attention-backend", "step times stay those that were measured or computed for the GPU"),
    _noted("--attention-config", "step times stay those that were measured or computed for the GPU", "value", *_EMPTY,
           shorts=("-ac",)),
    _noted("--kernel-config", "step times stay those that were measured or computed for the GPU", "value", *_EMPTY),
    _noted("--moe-backend", "step times stay those that were measured or computed for the GPU", "value", "auto"),
    _noted("--disable-custom-all-reduce", "step times stay those with it", "switch"),
    _noted("--enable-expert-parallel", "memory and step times stay those of tensor parallelism", "switch",
           shorts=("-ep",)),
    _noted("--model-impl", "step times stay those of vLLM's own models", "value", "auto", "vllm"),
    _noted("--nnodes", "the links between nodes are not simulated", "value", "1", shorts=("-n",)),
    _noted("--performance-mode", "step times stay those of the default", "value", "balanced"),
    _noted("--revision", "the shape of the model is that of its newest files"),
)  # fmt: skip

_REFUSED: Final = (
    _refused("--config", "its settings are in a file that is not read", "write them into the command"),
    _refused("--speculative-config", "a step then emits several tokens a sequence", LEAVE_OUT, *_EMPTY,
             shorts=("-sc",)),
    _refused("--speculative-model", "a step then emits several tokens a sequence", LEAVE_OUT, *_EMPTY),
    _refused("--num-speculative-tokens", "a step then emits several tokens a sequence", LEAVE_OUT),
    _refused("--spec-method", "a step then emits several tokens a sequence", LEAVE_OUT),
    _refused("--spec-model", "a step then emits several tokens a sequence", LEAVE_OUT),
    _refused("--spec-tokens", "a step then emits several tokens a sequence", LEAVE_OUT),
    _refused("--num-lookahead-slots", "it reserves blocks for speculative tokens", LEAVE_OUT, "0"),
    _refused("--num-scheduler-steps", "it is of the engine before V1", LEAVE_OUT, "1"),
    _refused("--scheduler-delay-factor", "it is of the engine before V1", LEAVE_OUT, "0", "0.0"),
    _refused("--preemption-mode", "it is of the engine before V1, which could swap; V1 recomputes",
             "leave it out, or take the rules of vllm-v0", "recompute"),
    _refused("--data-parallel-size", "each replica has a queue and a pool of its own",
             "leave it out and give one replica its share of the traffic", "1", shorts=("-dp",)),
    _refused("--data-parallel-rank", "it makes this server one of several replicas",
             "leave it out and give one replica its share of the traffic", shorts=("-dpn",)),
    _refused("--decode-context-parallel-size", "the KV of one sequence is then split over GPUs", LEAVE_OUT, "1",
             shorts=("-dcp",)),
    _refused("--prefill-context-parallel-size", "a prompt is then split over GPUs", LEAVE_OUT, "1", shorts=("-pcp",)),
    _refused("--headless", "such a node serves replicas of another", "give the command of the node with the API",
             takes="switch"),
    _refused("--enable-dbo", "two half batches then overlap", LEAVE_OUT, takes="switch"),
    _refused("--ubatch-size", "a batch is then cut in parts that overlap", LEAVE_OUT, "0"),
    _refused("--kv-transfer-config", "KV then comes from, or goes to, another place", LEAVE_OUT, *_EMPTY),
    _refused("--ec-transfer-config", "encoder outputs then come from another server", LEAVE_OUT, *_EMPTY),
    _refused("--kv-offloading-size", "KV then goes to the CPU and back", LEAVE_OUT, "0"),
    _refused("--kv-sharing-fast-prefill", "a prefill then skips layers", LEAVE_OUT, takes="switch"),
    _refused("--kv-cache-dtype-skip-layers", "layers then differ in the size of their KV", LEAVE_OUT, takes="words"),
    _refused("--cpu-offload-gb", "weights then lie in the CPU's memory and are copied in every step", LEAVE_OUT, "0",
             "0.0"),
    _refused("--offload-group-size", "weights then lie in the CPU's memory", LEAVE_OUT, "0"),
    _refused("--enable-lora", "adapters take memory and limit who may run together", LEAVE_OUT, takes="switch"),
    _refused("--lora-modules", "adapters take memory and limit who may run together", LEAVE_OUT, takes="words"),
    _refused("--enable-prompt-adapter", "adapters take memory", LEAVE_OUT, takes="switch"),
    _refused("--prompt-adapters", "adapters take memory", LEAVE_OUT, takes="words"),
    _refused("--prefix-match-unit", "cached beginnings are then found in other units than blocks", LEAVE_OUT),
    _refused("--max-num-partial-prefills", "the scheduler then limits how many prompts are in pieces", LEAVE_OUT, "1"),
    _refused("--max-long-partial-prefills", "the scheduler then limits how many prompts are in pieces", LEAVE_OUT,
             "1"),
    _refused("--max-num-scheduled-tokens", "it is a second token budget", "give --max-num-batched-tokens instead"),
    _refused("--prefill-schedule-interval", "prompts then wait for every n-th step", LEAVE_OUT, "1"),
    _refused("--stream-interval", "tokens are then sent several at a time, which changes gaps", LEAVE_OUT, "1"),
    _refused("--scheduler-cls", "its rules are not known", LEAVE_OUT, "vllm.core.scheduler.Scheduler",
             "vllm.v1.core.sched.scheduler.Scheduler"),
    _refused("--worker-cls", "what it does is not known", LEAVE_OUT, "auto"),
    _refused("--worker-extension-cls", "what it does is not known", LEAVE_OUT, ""),
    _refused("--additional-config", "it is for platforms that are not simulated", LEAVE_OUT, *_EMPTY),
    _refused("--device", "only GPUs are simulated", LEAVE_OUT, "auto", "cuda"),
    _refused("--disable-sliding-window", "it shortens requests to the window", "give --max-model-len instead",
             takes="switch"),
    _refused("--rope-scaling", "it changes how long requests may be",
             "leave it out and give --max-model-len", *_EMPTY),
    _refused("--rope-theta", "it changes how long requests may be", "leave it out and give --max-model-len"),
    _refused("--hf-overrides", "it changes the model's config",
             "change a copy of config.json and give its path as the model", *_EMPTY),
    _refused("--model-class-overrides", "it puts another model in place of the model's own", LEAVE_OUT, *_EMPTY),
    _refused("--hf-config-path", "it is another config than the model's", "give its path as the model"),
    _refused("--override-attention-dtype", "attention then computes in other numbers", LEAVE_OUT),
    _refused("--task", "only generation is simulated", LEAVE_OUT, "auto", "generate"),
    _refused("--runner", "only generation is simulated", LEAVE_OUT, "auto", "generate"),
    _refused("--convert", "only generation is simulated", LEAVE_OUT, "auto", "none"),
    _refused("--qlora-adapter-name-or-path", "adapters take memory", LEAVE_OUT),
    Flag(name="--limit-mm-per-prompt", fate="refused", why="images, audio and video take memory and steps",
         remedy="leave it out, or set every limit to 0, to simulate text alone", harmless=_EMPTY, is_harmless=all_zero),
    _refused("--enable-mm-embeds", "images, audio and video take memory and steps", LEAVE_OUT, takes="switch"),
    _refused("--mm-encoder-only", "nothing is then generated", LEAVE_OUT, takes="switch"),
    Flag(name="--load-format", fate="refused", why="such files store weights in numbers that are not in the table",
         remedy="leave it out and set weight_dtype", is_harmless=lambda value: value not in ("gguf", "bitsandbytes")),
)  # fmt: skip

_IGNORED: Final = (
    *_ignored(
        "of the HTTP server",
        values="--host --port --uds --uvicorn-log-level --disable-access-log-for-endpoints --ssl-keyfile "
        "--ssl-certfile --ssl-ca-certs --ssl-cert-reqs --ssl-ciphers --root-path --middleware "
        "--h11-max-incomplete-event-size --h11-max-header-count --api-server-count --shutdown-timeout "
        "--allowed-origins --allowed-methods --allowed-headers --data-parallel-supervisor-port "
        "--dp-supervisor-probe-interval-s --dp-supervisor-probe-timeout-s --dp-supervisor-probe-failure-threshold",
        switches="--allow-credentials --enable-ssl-refresh --disable-fastapi-docs --enable-offline-docs "
        "--enable-request-id-headers --disable-uvicorn-access-log --disable-frontend-multiprocessing --grpc",
        words="--api-key",
    ),
    *_ignored(
        "of the API: what answers look like",
        values="--response-role --chat-template --chat-template-content-format --default-chat-template-kwargs "
        "--tool-call-parser --tool-parser-plugin --tool-server --reasoning-parser --reasoning-parser-plugin "
        "--reasoning-config --fingerprint-mode --fingerprint-value --io-processor-plugin --max-logprobs "
        "--logprobs-mode --guided-decoding-backend --structured-outputs-config --renderer-num-workers --cohere-format",
        switches="--enable-auto-tool-choice --exclude-tools-when-tool-choice-none --trust-request-chat-template "
        "--return-tokens-as-token-ids --enable-prompt-tokens-details --enable-per-request-metrics "
        "--enable-server-load-tracking --enable-force-include-usage --enable-tokenizer-info-endpoint "
        "--enable-reasoning --tokens-only --enable-prompt-embeds --enable-return-routed-experts "
        "--enable-flash-late-interaction --cohere-is-reasoning-model",
        words="--served-model-name --logits-processors --logits-processor-pattern",
    ),
    *_ignored(
        "of logs and metrics",
        values="--log-config-file --max-log-len --otlp-traces-endpoint --show-hidden-metrics-for-version "
        "--kv-cache-metrics-sample --profiler-config --kv-events-config",
        switches="--disable-log-requests --enable-log-requests --disable-log-stats --enable-log-outputs "
        "--enable-log-deltas --log-error-stack --aggregate-engine-logging --kv-cache-metrics --cudagraph-metrics "
        "--enable-layerwise-nvtx-tracing --enable-mfu-metrics --enable-logging-iteration-details "
        "--fail-on-environ-validation --use-tqdm-on-load --ray-workers-use-nsight",
        words="--collect-detailed-traces",
    ),
    *_ignored(
        "of how the model is found and loaded",
        values="--tokenizer --tokenizer-mode --tokenizer-revision --tokenizer-pool-size --tokenizer-pool-type "
        "--tokenizer-pool-extra-config --code-revision --config-format --download-dir --model-loader-extra-config "
        "--pt-load-map-location --safetensors-load-strategy --safetensors-prefetch-num-threads "
        "--safetensors-prefetch-block-size --max-parallel-loading-workers --quantization-param-path "
        "--weight-transfer-config",
        switches="--trust-remote-code --skip-tokenizer-init --allow-deprecated-quantization --enable-sleep-mode "
        "--enable-cumem-allocator",
        words="--ignore-patterns",
    ),
    Flag(name="--hf-token", fate="ignored", takes="maybe", why="of how the model is found and loaded"),
    *_ignored(
        "of sampling: the lengths of answers are from the traffic",
        values="--seed --generation-config --override-generation-config",
        switches="--use-fp64-gumbel",
    ),
    *_ignored(
        "of how processes are started and joined",
        values="--distributed-executor-backend --distributed-timeout-seconds --cpu-distributed-timeout-seconds "
        "--master-addr --master-port --numa-bind-nodes --numa-bind-cpus",
        switches="--numa-bind --worker-use-ray --engine-use-ray",
    ),
    Flag(name="--node-rank", fate="ignored", shorts=("-r",), why="of how processes are started and joined"),
    *_ignored(
        "of replicas: there is one here",
        values="--data-parallel-address --data-parallel-rpc-port --data-parallel-backend "
        "--data-parallel-size-local --data-parallel-start-rank --eplb-config --expert-placement-strategy "
        "--all2all-backend --dbo-decode-token-threshold --dbo-prefill-token-threshold",
        switches="--data-parallel-hybrid-lb --data-parallel-external-lb --data-parallel-multi-port-external-lb "
        "--enable-eplb --enable-elastic-ep "
        "--enable-ep-weight-filter --disable-nccl-for-dp-synchronization",
    ),
    *_ignored(
        "of adapters, which --enable-lora or --enable-prompt-adapter turns on",
        values="--max-loras --max-lora-rank --max-cpu-loras --lora-dtype --lora-extra-vocab-size "
        "--long-lora-scaling-factors --default-mm-loras --max-prompt-adapters --max-prompt-adapter-token",
        switches="--fully-sharded-loras --enable-lora-bias --enable-tower-connector-lora --specialize-active-lora",
        words="--lora-target-modules",
    ),
    *_ignored(
        "of images, audio and video: prompts are text here",
        values="--mm-processor-kwargs --mm-processor-cache-gb --mm-processor-cache-type --mm-encoder-tp-mode "
        "--mm-encoder-attn-backend --mm-shm-cache-max-object-size-mb --mm-tensor-ipc --media-io-kwargs "
        "--video-pruning-rate --allowed-local-media-path --mm-encoder-attn-dtype --mm-encoder-fp8-scale-path "
        "--mm-encoder-fp8-scale-save-path --mm-encoder-fp8-scale-save-margin",
        switches="--disable-mm-preprocessor-cache --disable-chunked-mm-input --interleave-mm-strings "
        "--skip-mm-profiling --language-model-only",
        words="--allowed-media-domains",
    ),
    *_ignored(
        "of models whose layers keep a state, which are not simulated",
        values="--mamba-block-size --mamba-cache-dtype --mamba-ssm-cache-dtype --mamba-cache-mode "
        "--gdn-prefill-backend",
        switches="--disable-hybrid-kv-cache-manager --enable-mamba-cache-stochastic-rounding",
    ),
    *_ignored(
        "it does nothing unless tokens are speculated",
        values="--speculative-model-quantization --speculative-draft-tensor-parallel-size --speculative-max-model-len "
        "--speculative-disable-by-batch-size --ngram-prompt-lookup-max --ngram-prompt-lookup-min "
        "--spec-decoding-acceptance-method --typical-acceptance-sampler-posterior-threshold "
        "--typical-acceptance-sampler-posterior-alpha",
        switches="--speculative-disable-mqa-scorer --disable-logprobs-during-spec-decoding",
    ),
    *_ignored(
        "it does nothing unless one sequence is split over GPUs",
        values="--dcp-comm-backend --dcp-kv-cache-interleave-size --cp-kv-cache-interleave-size",
    ),
    *_ignored("of models that don't generate", values="--pooler-config --override-pooler-config"),
    *_ignored("of hardware that is not simulated", values="--override-neuron-config"),
    *_ignored("it does nothing unless KV is offloaded", values="--kv-offloading-backend"),
    *_ignored(
        "it does nothing unless weights are offloaded",
        values="--offload-backend --offload-num-in-group --offload-prefetch-step",
        words="--offload-params --cpu-offload-params",
    ),
    *_ignored("V1 never swaps: it does nothing since V1, and is gone in 0.18", values="--swap-space"),
    *_ignored(
        "it does nothing since V1",
        values="--max-seq-len-to-capture",
        switches="--use-v2-block-manager --disable-async-output-proc --multi-step-stream-outputs",
    ),
    *_ignored(
        "it changes how, not what is computed",
        values="--prefix-caching-hash-algo",
        switches="--calculate-kv-scales --disable-cascade-attn --enable-flashinfer-autotune",
    ),
)

FLAGS: Final[dict[str, Flag]] = {flag.name: flag for flag in (*_MAPPED, *_NOTED, *_REFUSED, *_IGNORED)}
"""By name: first what is mapped, last what is ignored."""
_NOT_IN_V0: Final = "the rules of vllm-v0 have nothing like it"
_OF_V0: Final = (
    _mapped("--preemption-mode", "preemption_mode"),
    _mapped("--swap-space", "swap_space_bytes", gib),
    _refused("--enable-chunked-prefill", "the rules of vllm-v0 compute whole prompts", LEAVE_OUT, takes="switch"),
    _refused("--enable-prefix-caching", "the rules of vllm-v0 keep no KV of beginnings", LEAVE_OUT, takes="switch"),
    _refused("--scheduler-reserve-full-isl", _NOT_IN_V0, LEAVE_OUT, takes="switch"),
    _refused("--pipeline-parallel-size", _NOT_IN_V0, LEAVE_OUT, "1", shorts=("-pp",)),
    _refused("--scheduling-policy", _NOT_IN_V0, LEAVE_OUT, "fcfs"),
    _refused("--long-prefill-token-threshold", _NOT_IN_V0, LEAVE_OUT, "0"),
    _refused("--kv-cache-memory-bytes", _NOT_IN_V0, "give --num-gpu-blocks-override instead"),
)
FLAGS_OF_V0: Final[dict[str, Flag]] = {flag.name: flag for flag in _OF_V0}
"""What becomes of some of them under the rules of the engine before V1."""
SHORTS: Final[dict[str, Flag]] = {short: flag for flag in FLAGS.values() for short in flag.shorts} | {
    "-dpa": FLAGS["--data-parallel-address"],
    "-dpp": FLAGS["--data-parallel-rpc-port"],
    "-dpb": FLAGS["--data-parallel-backend"],
    "-dpl": FLAGS["--data-parallel-size-local"],
    "-dpr": FLAGS["--data-parallel-start-rank"],
    "-dph": FLAGS["--data-parallel-hybrid-lb"],
    "-dpe": FLAGS["--data-parallel-external-lb"],
    "-asc": FLAGS["--api-server-count"],
}

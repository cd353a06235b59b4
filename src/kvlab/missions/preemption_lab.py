"""The missions of the preemption lab, in order. Every number in them is proven by search in the tests."""

from __future__ import annotations

from typing import Final

from kvlab.missions.model import Goal, Guess, Mission, Question
from kvlab.setting_table import PREEMPTION_LAB

_THROUGHPUT: Final = "throughput_in_window_tokens_per_s"
_LONG: Final = {"longer_answers": "2"}

_CAP = Mission(
    id="cap-concurrency",
    rules=PREEMPTION_LAB,
    title="Streams that freeze",
    story=(
        "We left the limit at 256 running sequences, because a full batch is an efficient batch. Now one stream in "
        "twelve freezes for more than a second in the middle of its answer, and nothing in the log is an error."
    ),
    setup={**_LONG, "request_rate": "2.2", "max_num_seqs": "256"},
    levers={
        "preemption_mode": ("recompute", "swap"),
        "gpu_memory_utilization": ("0.9", "0.92", "0.95"),
        "max_num_seqs": ("16", "24", "32", "36", "40", "44", "48", "64", "128", "256"),
    },
    goals=(
        Goal("paused_ratio", "<=", "0.5 %"),
        Goal("preemptions_per_1000", "<=", "10"),
        Goal(_THROUGHPUT, ">=", "730"),
    ),
    cheapest=2,
    decoys=("preemption_mode", "gpu_memory_utilization"),
    question=Question(
        text="You allow 40 running sequences in place of 256. What becomes of the throughput?",
        change={"max_num_seqs": "40"},
        metric=_THROUGHPUT,
        guesses=(
            Guess(text="It falls by more than a fifth: the batch is smaller", up_to=80),
            Guess(text="It stays about the same", above=80, up_to=120),
            Guess(text="It rises by more than a fifth", above=120),
        ),
        answer=1,
    ),
    hints=(
        "Look at the red ticks: each is a running request that loses its blocks at the moment the cache is full.",
        "The cache fills because too many answers grow in it at once. How many whole requests fit?",
        "56,720 tokens of cache, and about 1,340 tokens per finished request: any limit much over 40 is too many.",
    ),
    why=(
        "A prompt is admitted when it fits now, but its answer goes on growing: with 256 seats the pool was promised "
        "more than once, and the last to come were thrown out again and again, each time to be computed anew. Under a "
        "limit of about pool / whole length of a request, the same people wait in the queue instead, where waiting "
        "costs the GPU nothing, so nothing is lost in throughput. In vLLM that is --max-num-seqs; it is right when "
        "vllm:num_preemptions_total stops rising and vllm:kv_cache_usage_perc stays just under 1, while "
        "vllm:num_requests_waiting shows the queue you now have in the open."
    ),
    vllm_flag="--max-num-seqs 40",
)

_SWAP_WINS = Mission(
    id="swap-for-the-batch",
    rules=PREEMPTION_LAB,
    title="Paying for the same tokens twice",
    story=(
        "Nobody watches these streams: they are summaries for tomorrow morning, and all I care about is tokens per "
        "second. A quarter of the prefill goes into tokens that the server had already computed and thrown away."
    ),
    setup={**_LONG, "request_rate": "3"},
    levers={
        "preemption_mode": ("recompute", "swap"),
        "gpu_memory_utilization": ("0.9", "0.92", "0.95"),
        "max_num_seqs": ("24", "32", "40", "48", "64", "128"),
    },
    goals=(Goal("recomputed_tokens", "<=", "1000"), Goal(_THROUGHPUT, ">=", "800")),
    cheapest=1,
    decoys=("gpu_memory_utilization",),
    question=Question(
        text="Preempted requests are now swapped to the CPU. What becomes of the number of preemptions?",
        change={"preemption_mode": "swap"},
        metric="preemptions_per_1000",
        guesses=(
            Guess(text="At most half are left", up_to=50),
            Guess(text="About the same", above=50, up_to=150),
            Guess(text="More than half again as many", above=150),
        ),
        answer=1,
    ),
    hints=(
        "Preemptions are not the goal here: see what each of them costs.",
        "A preempted request can keep its KV, if it is put somewhere else.",
        "Swap. A copy out and back takes about 70 us per token here; computing a token again takes 120 us.",
    ),
    why=(
        "Swapping preempts just as often, but it copies the KV to host memory and back instead of computing it again, "
        "and on a healthy link the copy is the cheaper of the two: the tokens per second rise, and nothing is computed "
        "twice. (Capping at 40 works too, for a point more: not to preempt at all is better than either.) In vLLM "
        "before V1 this was --preemption-mode swap with --swap-space; watch vllm:num_requests_swapped and "
        "vllm:cpu_cache_usage_perc there. V1 always recomputes; its --kv-offloading-size keeps blocks in host memory, "
        "so that the recompute finds them."
    ),
    vllm_flag="--preemption-mode swap --swap-space 4 (before V1); --kv-offloading-size (V1)",
)

_RECOMPUTE_WINS = Mission(
    id="recompute-for-the-chat",
    rules=PREEMPTION_LAB,
    title="The same server, with people watching",
    story=(
        "The batch moved away and chat moved in, on the same server and with swapping still on. People say that the "
        "text stutters, and our limit is a gap of 105 ms between two tokens at p99."
    ),
    setup={**_LONG, "request_rate": "3", "preemption_mode": "swap"},
    levers={
        "preemption_mode": ("recompute", "swap"),
        "gpu_memory_utilization": ("0.9", "0.92", "0.95"),
        "max_num_seqs": ("24", "32", "40", "48", "64", "128"),
    },
    goals=(Goal("p99_gap_ns", "<=", "105 ms"), Goal(_THROUGHPUT, ">=", "770")),
    cheapest=1,
    decoys=("gpu_memory_utilization",),
    question=Question(
        text="You go back to recompute. What becomes of the throughput?",
        change={"preemption_mode": "recompute"},
        metric=_THROUGHPUT,
        guesses=(
            Guess(text="It falls by more than a tenth", up_to=90),
            Guess(text="It changes by less than a tenth", above=90, up_to=110),
            Guess(text="It rises by more than a tenth", above=110),
        ),
        answer=1,
    ),
    hints=(
        "Nobody else's stream should stop because one request is moved.",
        "A copy of a whole request happens within one step. Is there a way to come back in small pieces?",
        "Recompute: a prefill is cut into chunks of 512 tokens, a step each, and the others decode along.",
    ),
    why=(
        "A swap moves a whole sequence within one step, and every stream waits for that step; a recompute comes back "
        "as prefill, in chunks that are mixed with everybody's decoding. So the batch gains from swapping and the chat "
        "from recomputing, on the very same machine: which is right depends on the tile you are paid for. V1 of vLLM "
        "always recomputes, and --max-num-batched-tokens sets how large the chunks are; watch "
        "vllm:inter_token_latency_seconds at p99, not the mean."
    ),
    vllm_flag="--preemption-mode recompute (before V1; what V1 always does)",
)

_SWAP_FULL = Mission(
    id="swap-space-full",
    rules=PREEMPTION_LAB,
    title="Swapping, and yet recomputing",
    story=(
        "The container was short of memory, so somebody cut the swap space to half a GiB; swapping is still switched "
        "on. The server recomputes tens of thousands of tokens all the same, and the batch is late."
    ),
    setup={**_LONG, "request_rate": "3", "preemption_mode": "swap", "swap_space_bytes": "512 MiB"},
    levers={
        "preemption_mode": ("recompute", "swap"),
        "swap_space_bytes": ("512 MiB", "1 GiB", "2 GiB", "4 GiB", "8 GiB"),
        "gpu_memory_utilization": ("0.9", "0.95"),
        "max_num_seqs": ("32", "48", "64"),
    },
    goals=(Goal("recomputed_tokens", "<=", "500"), Goal(_THROUGHPUT, ">=", "805")),
    cheapest=1,
    decoys=("preemption_mode", "gpu_memory_utilization", "max_num_seqs"),
    question=Question(
        text="You double the swap space, to 1 GiB. How much of the recomputing is left?",
        change={"swap_space_bytes": "1 GiB"},
        metric="recomputed_tokens",
        guesses=(
            Guess(text="More than 80 %", above=80),
            Guess(text="Between a third and 80 %", above=33, up_to=80),
            Guess(text="At most a third", up_to=33),
        ),
        answer=2,
    ),
    hints=(
        "Look at the second map, the CPU's: it is full whenever a tick is drawn as a recompute.",
        "A victim that does not fit into the swap space falls back to recompute, without a word.",
        "One long request takes up to 1.5 GiB of KV. Two GiB are enough here; four are the usual default.",
    ),
    why=(
        "When the swap space can't take a victim whole, it is recomputed instead: the flag said swap, the server did "
        "something else, and only the counters told. Host memory is the cheapest memory in the machine, so size the "
        "swap space for the few largest sequences that may be out at the same time. In vLLM before V1: --swap-space, "
        "in GiB per GPU; vllm:cpu_cache_usage_perc near 1 is the sign. In V1 the same holds for --kv-offloading-size: "
        "what does not fit is computed again."
    ),
    vllm_flag="--swap-space 4 (before V1); --kv-offloading-size (V1)",
)

_SLOW_PCIE = Mission(
    id="slow-pcie",
    rules=PREEMPTION_LAB,
    title="A slow link turns the answer over",
    story=(
        "We moved the batch to a cheaper host with the swap settings that had served us so well. Its PCIe link is five "
        "times slower, everything stutters, and 15 % of the throughput has gone."
    ),
    setup={**_LONG, "request_rate": "3", "preemption_mode": "swap", "slow_pcie": "5"},
    levers={
        "preemption_mode": ("recompute", "swap"),
        "gpu_memory_utilization": ("0.9", "0.92", "0.95"),
        "max_num_seqs": ("24", "32", "40", "48", "64"),
    },
    goals=(Goal("p99_gap_ns", "<=", "120 ms"), Goal(_THROUGHPUT, ">=", "770")),
    cheapest=1,
    decoys=("gpu_memory_utilization",),
    question=Question(
        text="You switch to recompute on the slow host. What becomes of the p99 gap between tokens?",
        change={"preemption_mode": "recompute"},
        metric="p99_gap_ns",
        guesses=(
            Guess(text="At most half is left", up_to=50),
            Guess(text="It stays within a half of what it was", above=50, up_to=150),
            Guess(text="It grows by more than half", above=150),
        ),
        answer=0,
    ),
    hints=(
        "Compare what a token costs to copy out and back with what it costs to compute.",
        "What was right on the old host rested on a number that has changed.",
        "Recompute: a copy now takes about 340 us per token, computing it again still 120 us.",
    ),
    why=(
        "Swap or recompute is a comparison of two speeds: out and back over the link, against prefill. On the old host "
        "copying won, on this one computing does, and by a factor of three; measure the link (nvidia-smi shows its "
        "generation and width, and a virtual machine may give less) before you carry settings over. In vLLM before V1: "
        "--preemption-mode recompute. Watch vllm:inter_token_latency_seconds at p99, where every copy shows. "
        "(Capping at 40 is dearer and better still: what is not preempted needs neither.)"
    ),
    vllm_flag="--preemption-mode recompute (before V1; what V1 always does)",
)

_HEADROOM = Mission(
    id="headroom",
    rules=PREEMPTION_LAB,
    title="The answers have grown",
    story=(
        "The new model version writes answers twice as long, and since then the cache runs over. I could lower the "
        "limit on running sequences, but the last time I did that the throughput went with it."
    ),
    setup={**_LONG, "request_rate": "2.5"},
    levers={
        "preemption_mode": ("recompute", "swap"),
        "headroom_blocks": ("0", "50", "100", "125", "200", "250", "500"),
        "max_num_seqs": ("32", "40", "48", "64"),
    },
    goals=(Goal("preemptions_per_1000", "<=", "20"), Goal(_THROUGHPUT, ">=", "800")),
    cheapest=1,
    decoys=("preemption_mode", "max_num_seqs"),
    question=Question(
        text="Admissions now leave 100 blocks free, 3 % of the cache. What becomes of the throughput?",
        change={"headroom_blocks": "100"},
        metric=_THROUGHPUT,
        guesses=(
            Guess(text="It falls by more than 2 %: memory stands empty", up_to=98),
            Guess(text="It changes by less than 2 %", above=98, up_to=102),
            Guess(text="It rises by more than 2 %", above=102),
        ),
        answer=2,
    ),
    hints=(
        "Who fills the last block: a newcomer's prompt, or an answer that is growing?",
        "Leave the newcomers outside a little earlier, and only when it is tight.",
        "A headroom of 100 blocks, 3 % of the pool, is enough. 500 is too much: that memory serves nobody.",
    ),
    why=(
        "Headroom keeps the last few blocks for those who are already running: a newcomer waits until there is its "
        "prompt's room and some to spare, so that each step's growth has somewhere to go. Unlike a lower limit it "
        "adapts: many short requests may run, or fewer long ones. Too much of it is idle memory; 2 to 5 % is where "
        "preemptions have nearly gone and throughput is highest, here as in vLLM's own measurements. There it is "
        "--watermark, a share of the pool, 0 by default (in 0.24 and later); watch vllm:num_preemptions_total, and "
        "expect the queue time to move a little."
    ),
    vllm_flag="--watermark 0.03 (0.24 and later)",
)

_BURST = Mission(
    id="burst-least-memory",
    rules=PREEMPTION_LAB,
    title="A burst, and a neighbour on the GPU",
    story=(
        "Every day for half a minute two and a half times as many people come, and then they wait 36 s for a first "
        "token. A second model shares this GPU, so every per cent of memory I take is one that it loses."
    ),
    setup={"request_rate": "2.5", "gpu_memory_utilization": "0.8", "burst": "2.5"},
    levers={
        "gpu_memory_utilization": (
            "0.8", "0.81", "0.82", "0.83", "0.84", "0.85", "0.86", "0.87", "0.88", "0.9", "0.92", "0.95",
        ),
        "headroom_blocks": ("0", "50", "100"),
        "kv_cache_dtype": ("auto", "fp8"),
    },
    goals=(Goal("p95_ttft_ns", "<=", "28 s"), Goal("preemptions_per_1000", "<=", "10")),
    cheapest=7,
    decoys=("gpu_memory_utilization", "headroom_blocks"),
    question=Question(
        text="You raise the utilisation from 80 % to 95 %. How many of the preemptions are left?",
        change={"gpu_memory_utilization": "0.95"},
        metric="preemptions_per_1000",
        guesses=(
            Guess(text="At most a third", up_to=33),
            Guess(text="Between a third and three quarters", above=33, up_to=75),
            Guess(text="More than three quarters", above=75),
        ),
        answer=2,
    ),
    hints=(
        "There are two problems: too little room for the burst, and room that is given away too greedily.",
        "Memory alone only makes a larger cache that is just as full. Stop the preemptions first, then add memory.",
        "100 blocks of headroom and 86 % do it. FP8 does it too, but somebody has to vouch for the answers.",
    ),
    why=(
        "A burst fills any cache you can pay for, so more memory alone preempts just as much; it only lets more "
        "requests run. With headroom the work of preemption is saved, and then six points of memory give what fifteen "
        "could not. In vLLM: --gpu-memory-utilization and --watermark; --kv-cache-dtype fp8 is one point dearer here "
        "and would be cheaper for a larger gap. Watch vllm:num_requests_waiting drain after the burst, and "
        "vllm:time_to_first_token_seconds at p95."
    ),
    vllm_flag="--gpu-memory-utilization 0.86 --watermark 0.03 (0.24 and later)",
)  # fmt: skip

_TOO_SMALL = Mission(
    id="cache-too-small",
    rules=PREEMPTION_LAB,
    title="No flag left to turn",
    story=(
        "First tokens take 43 s, and the limit is 2 s; I have tried every flag that costs nothing. Finance offers a "
        "choice: turn people away, or find the memory on the card that we have."
    ),
    setup={**_LONG, "request_rate": "2.5"},
    levers={
        "gpu_memory_utilization": ("0.9", "0.95"),
        "headroom_blocks": ("0", "100"),
        "max_num_seqs": ("32", "64", "96"),
        "kv_cache_dtype": ("auto", "fp8"),
        "request_rate": ("1.5", "2", "2.5"),
    },
    goals=(Goal("p95_ttft_ns", "<=", "2 s"), Goal("preemptions_per_1000", "<=", "10")),
    cheapest=9,
    decoys=("gpu_memory_utilization", "headroom_blocks", "max_num_seqs", "kv_cache_dtype"),
    question=Question(
        text="FP8 doubles what fits into the cache; 64 sequences run as before. What is left of the p95 first token?",
        change={"kv_cache_dtype": "fp8"},
        metric="p95_ttft_ns",
        guesses=(
            Guess(text="At most a tenth", up_to=10),
            Guess(text="Between a tenth and a half", above=10, up_to=50),
            Guess(text="More than half", above=50),
        ),
        answer=1,
    ),
    hints=(
        "Work out what this traffic needs: 2.5 requests a second, most of a minute each, up to 1,340 tokens a piece.",
        "Only one lever doubles the cache. After it, another limit is the one that holds the queue.",
        "FP8, and 96 running sequences: with 64 a quarter of the cache is never used, while people wait.",
    ),
    why=(
        "Here the KV cache really is too small, and no order of admission makes it larger: the honest choices are more "
        "memory, smaller tokens or fewer users. FP8 halves what a token takes, and then the limit of 64 sequences, set "
        "for the old pool, becomes the bottleneck: a fix moves the bottleneck, so look again after each. In vLLM: "
        "--kv-cache-dtype fp8 and --max-num-seqs 96, after an evaluation of your own on long contexts. "
        "vllm:kv_cache_usage_perc well under 1 beside a long vllm:num_requests_waiting means that the limit holds you, "
        "not the memory."
    ),
    vllm_flag="--kv-cache-dtype fp8 --max-num-seqs 96",
)

MISSIONS: Final = (
    _CAP,
    _SWAP_WINS,
    _RECOMPUTE_WINS,
    _SWAP_FULL,
    _SLOW_PCIE,
    _HEADROOM,
    _BURST,
    _TOO_SMALL,
)

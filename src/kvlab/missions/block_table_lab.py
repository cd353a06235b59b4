"""The missions of the block-table lab, in order. Every number in them is proven by search in the tests."""

from __future__ import annotations

from typing import Final

from kvlab.missions.model import Goal, Guess, Mission, Question
from kvlab.setting_table import BLOCK_TABLE_LAB

_THROUGHPUT: Final = "throughput_in_window_tokens_per_s"

_IDLE_CACHE = Mission(
    id="idle-cache",
    rules=BLOCK_TABLE_LAB,
    title="A long queue before an empty cache",
    story=(
        "A careful colleague allows eight running sequences, to be safe. First tokens take a minute, and the order for "
        "more KV memory is on my desk to be signed."
    ),
    setup={"request_rate": "3.5", "max_num_seqs": "8"},
    levers={
        "block_size": ("16", "32"),
        "kv_memory_bytes": ("3 GiB", "4 GiB", "6 GiB"),
        "max_num_seqs": ("4", "8", "12", "16", "24", "32", "64"),
    },
    goals=(Goal("p95_ttft_ns", "<=", "3 s"),),
    cheapest=1,
    decoys=("block_size", "kv_memory_bytes"),
    question=Question(
        text="You double the KV memory, to 6 GiB. What is left of the p95 first token?",
        change={"kv_memory_bytes": "6 GiB"},
        metric="p95_ttft_ns",
        guesses=(
            Guess(text="At most half", up_to=50),
            Guess(text="Between half and nine tenths", above=50, up_to=90),
            Guess(text="More than nine tenths: it hardly changes", above=90),
        ),
        answer=2,
    ),
    hints=(
        "How full is the cache while people wait? Look at the area of the chart, and at the largest hole.",
        "If there is room, something else keeps people out.",
        "Allow 24 running sequences or more: the memory that you have takes about 15 at a time, sometimes 21.",
    ),
    why=(
        "The cache was never full: the limit on sequences held the queue, so memory could not help. Raise the limit "
        "until the memory is what decides, and no further than preemptions allow. In vLLM: --max-num-seqs; a long "
        "vllm:num_requests_waiting beside a low vllm:kv_cache_usage_perc, with vllm:num_requests_running stuck at one "
        "round number, is the picture to remember."
    ),
    vllm_flag="--max-num-seqs 24",
)

_MAX_TOKENS = Mission(
    id="generous-max-tokens",
    rules=BLOCK_TABLE_LAB,
    title="The price of a generous max_tokens",
    story=(
        "Our engine sets aside the whole of max_tokens for every request, and our gateway asks for 4,096 by default. "
        "Hardly an answer is longer than 1,000 tokens, and five requests fill the server."
    ),
    setup={"allocator": "contiguous", "max_tokens": "4096", "request_rate": "2.5"},
    levers={
        "kv_memory_bytes": ("3 GiB", "4 GiB", "6 GiB"),
        "max_tokens": ("512", "768", "1024", "1536", "2048", "4096"),
        "max_num_seqs": ("64", "128"),
    },
    goals=(Goal("p95_ttft_ns", "<=", "5 s"), Goal(_THROUGHPUT, ">=", "600")),
    cheapest=2,
    decoys=("kv_memory_bytes", "max_num_seqs"),
    question=Question(
        text="max_tokens goes down from 4,096 to 1,024; one answer in sixty is cut. What becomes of the throughput?",
        change={"max_tokens": "1024"},
        metric=_THROUGHPUT,
        guesses=(
            Guess(text="It falls: answers are cut", up_to=100),
            Guess(text="It rises by up to a half", above=100, up_to=150),
            Guess(text="It rises by more than a half", above=150),
        ),
        answer=2,
    ),
    hints=(
        "Look at the hatched part of the map: reserved, and nothing in it.",
        "The reservation is prompt + max_tokens, whatever the answer turns out to be.",
        "768 or 1,024. Below that the answers themselves are cut, and the throughput goal tells.",
    ),
    why=(
        "An engine that reserves to completion pays for the answer that might come, not for the one that comes: at "
        "4,096 three quarters of the reserved memory held nothing. A limit near the longest answers you really give is "
        "almost free; one below them cuts people off. vLLM does not reserve max_tokens, but TensorRT-LLM's "
        "GUARANTEED_NO_EVICT does, and in any engine max_tokens bounds how long one request can hold its blocks: set "
        "it per request, and cap it with --max-model-len. Watch vllm:request_params_max_tokens against "
        "vllm:request_generation_tokens."
    ),
    vllm_flag="max_tokens of the request; --max-model-len",
)

_CONTIGUOUS = Mission(
    id="contiguous-waste",
    rules=BLOCK_TABLE_LAB,
    title="Memory that holds nothing",
    story=(
        "max_tokens is sensible now, the cache is reserved to the last corner, and people still wait half a minute. "
        "When I look inside, four tenths of what is reserved has never held a token."
    ),
    setup={"allocator": "contiguous", "request_rate": "3.5"},
    levers={
        "allocator": ("contiguous", "paged"),
        "kv_memory_bytes": ("3 GiB", "3.5 GiB", "4 GiB", "6 GiB"),
        "max_tokens": ("512", "1024", "2048"),
    },
    goals=(Goal("p95_ttft_ns", "<=", "4 s"), Goal("waste_ratio", "<=", "5 %")),
    cheapest=3,
    decoys=("kv_memory_bytes", "max_tokens"),
    question=Question(
        text="Blocks are handed out as tokens come, in place of one range per answer. How many requests run at once?",
        change={"allocator": "paged"},
        metric="mean_running",
        guesses=(
            Guess(text="About as many as before", up_to=110),
            Guess(text="Up to half as many again", above=110, up_to=150),
            Guess(text="More than half as many again", above=150),
        ),
        answer=2,
    ),
    hints=(
        "Two things are lost: the hatched tail of every range, and the holes between ranges that fit nobody.",
        "More memory is wasted in the same proportion.",
        "The paged allocator: a block of 16 tokens at a time, wherever one is free.",
    ),
    why=(
        "A contiguous range has to be reserved for the longest answer and leaves holes when it is returned; blocks are "
        "taken when a token needs one, so at most the last block of a sequence is partly empty. The same 3 GiB run two "
        "thirds more requests. The price shows on the tiles too: memory that is promised to nobody can run out, and "
        "then a request is preempted. vLLM always pages (PagedAttention); there is no flag to forget. Watch "
        "vllm:kv_cache_usage_perc, which counts blocks, and vllm:num_preemptions_total."
    ),
    vllm_flag="none: vLLM always pages",
)

_TOO_LARGE = Mission(
    id="blocks-too-large",
    rules=BLOCK_TABLE_LAB,
    title="Blocks the size of a chapter",
    story=(
        "To keep the block tables short, somebody set the block size to 1,024 tokens. We page, and we waste as much as "
        "before we did."
    ),
    setup={"block_size": "1024", "request_rate": "3.5"},
    levers={
        "block_size": ("1", "8", "16", "32", "64", "128", "256", "512", "1024"),
        "kv_memory_bytes": ("3 GiB", "4 GiB", "6 GiB"),
        "max_num_seqs": ("16", "64"),
    },
    goals=(Goal("waste_ratio", "<=", "5 %"), Goal("p95_ttft_ns", "<=", "4 s")),
    cheapest=1,
    decoys=("kv_memory_bytes", "max_num_seqs"),
    question=Question(
        text="You double the KV memory and keep the blocks. What becomes of the internal waste, in per cent?",
        change={"kv_memory_bytes": "6 GiB"},
        metric="waste_ratio",
        guesses=(
            Guess(text="It halves", up_to=60),
            Guess(text="It falls, but by less than half", above=60, up_to=90),
            Guess(text="It stays as it is", above=90),
        ),
        answer=2,
    ),
    hints=(
        "Every sequence has one block that is partly empty: half a block on average.",
        "Half of 1,024 tokens, beside an average request of about 1,200.",
        "8, 16 or 32 tokens: less than 2 % is lost, and every attention kernel knows these sizes.",
    ),
    why=(
        "Half of the last block of every sequence is empty, so the waste is about half a block per request: 27 % at "
        "1,024 tokens, 0.6 % at 16. More memory hides the queue but wastes the same share. In vLLM --block-size is 16 "
        "by default, and on NVIDIA GPUs up to 32 is what kernels are made for; leave it unless a back end asks for "
        "another. vllm:cache_config_info shows the size in use; vllm:kv_cache_usage_perc counts whole blocks, so it "
        "can't show this waste."
    ),
    vllm_flag="--block-size 16",
)

_TOO_SMALL = Mission(
    id="blocks-too-small",
    rules=BLOCK_TABLE_LAB,
    title="Blocks of a single token",
    story=(
        "After the last lesson we went all the way: blocks of one token, and the waste is exactly zero. Somehow the "
        "server has become slower, and people wait again."
    ),
    setup={"block_size": "1", "request_rate": "3"},
    levers={
        "block_size": ("1", "2", "4", "8", "16", "32", "64", "256"),
        "kv_memory_bytes": ("3 GiB", "4 GiB", "6 GiB"),
        "max_num_seqs": ("16", "64"),
    },
    goals=(
        Goal("p95_ttft_ns", "<=", "1 s"),
        Goal("waste_ratio", "<=", "2 %"),
        Goal(_THROUGHPUT, ">=", "700"),
    ),
    cheapest=1,
    decoys=("max_num_seqs",),
    question=Question(
        text="Blocks of 16 tokens, in the same memory. What becomes of the throughput?",
        change={"block_size": "16"},
        metric=_THROUGHPUT,
        guesses=(
            Guess(text="It falls: half a block per request is lost", up_to=100),
            Guess(text="It rises by up to a tenth", above=100, up_to=110),
            Guess(text="It rises by more than a tenth", above=110),
        ),
        answer=2,
    ),
    hints=(
        "Nothing is wasted, and yet every step takes longer. What does a step do once per block?",
        "Each block is looked up in the block table and read on its own.",
        "8, 16 or 32 tokens keep both the waste and the lookups small.",
    ),
    why=(
        "Reading the cache through a table costs something per block: at one token a block this model charges 60 % "
        "more for every step, at 16 under 4 %. Slower steps mean that requests hold their memory longer, so the queue "
        "came back although no byte was wasted. Sixteen is the middle that vLLM chose (--block-size 16, and 8 to 32 "
        "work); watch vllm:inter_token_latency_seconds when you change it, not only the waste."
    ),
    vllm_flag="--block-size 16",
)

_SHARING = Mission(
    id="four-answers-one-prompt",
    rules=BLOCK_TABLE_LAB,
    title="Four answers to one prompt",
    story=(
        "The product now asks for four answers to each prompt and shows the best. One request a second, and the server "
        "drowns: it keeps the same prompt four times."
    ),
    setup={"allocator": "contiguous", "num_samples": "4", "request_rate": "1", "max_num_seqs": "16"},
    levers={
        "allocator": ("contiguous", "paged"),
        "kv_memory_bytes": ("3 GiB", "4 GiB", "6 GiB"),
        "max_num_seqs": ("16", "32", "64", "128"),
    },
    goals=(Goal("p95_ttft_ns", "<=", "1 s"), Goal("mean_saved_blocks", ">=", "300")),
    cheapest=4,
    decoys=("allocator", "kv_memory_bytes", "max_num_seqs"),
    question=Question(
        text="You allow 64 running sequences in place of 16, and nothing else. What is left of the p95 first token?",
        change={"max_num_seqs": "64"},
        metric="p95_ttft_ns",
        guesses=(
            Guess(text="At most half", up_to=50),
            Guess(text="Between half and nine tenths", above=50, up_to=90),
            Guess(text="More than nine tenths: it hardly changes", above=90),
        ),
        answer=2,
    ),
    hints=(
        "Four ranges start with the very same prompt. Blocks can be shared, ranges can't.",
        "After that, count again: a sequence is one sample, so what does a limit of 16 mean in requests?",
        "Paged, and 32 running sequences or more: eight requests of four samples each.",
    ),
    why=(
        "With block tables the samples of a request point to the same prompt blocks, and a block is copied only when a "
        "sample writes into one that others hold: hundreds of blocks are saved, enough to run twice as many. But the "
        "limit counts samples, so 16 meant four requests, and either lever alone leaves the other as the bottleneck. "
        "vLLM shares the prompt's blocks of n > 1 (in V1 through its prefix cache, --enable-prefix-caching, on by "
        "default), and --max-num-seqs counts every sample; watch vllm:num_requests_running and "
        "vllm:prefix_cache_hits_total."
    ),
    vllm_flag="--enable-prefix-caching --max-num-seqs 32",
)

_REPORTS = Mission(
    id="long-report-users",
    rules=BLOCK_TABLE_LAB,
    title="The report writers",
    story=(
        "One user in five asks for a report, six times as long as anything else, and then the whole server starts to "
        "throw requests out. Cutting the reports short is what everybody proposes, but the reports are what they pay "
        "us for."
    ),
    setup={"long_report_users": "on", "max_tokens": "4096", "request_rate": "2"},
    levers={
        "kv_memory_bytes": ("3 GiB", "3.5 GiB", "4 GiB", "5 GiB"),
        "max_tokens": ("1024", "2048", "4096"),
        "max_num_seqs": ("8", "12", "16", "20", "64"),
    },
    goals=(Goal("preemptions", "<=", "2"), Goal(_THROUGHPUT, ">=", "740")),
    cheapest=2,
    decoys=("max_tokens",),
    question=Question(
        text="You buy a third more KV memory, 4 GiB. How many of the preemptions are left?",
        change={"kv_memory_bytes": "4 GiB"},
        metric="preemptions",
        guesses=(
            Guess(text="At most a tenth", up_to=10),
            Guess(text="Between a tenth and a half", above=10, up_to=50),
            Guess(text="More than half", above=50),
        ),
        answer=1,
    ),
    hints=(
        "A report goes on growing long after it was admitted, and others come in beside it.",
        "Plan for the long ones: how many requests fit if a few of them are reports?",
        "Twelve running sequences. Five GiB do it too, for twice the points and a shorter queue.",
    ),
    why=(
        "The mean length says little when one request in five is six times longer: the limit has to leave room for "
        "the reports that happen to meet, so size it by the p95 of what a request holds, not by the mean. The price is "
        "a longer queue for all; if that hurts, memory is the next lever, or a replica of its own for the reports. In "
        "vLLM: --max-num-seqs 12; take the lengths from vllm:request_generation_tokens (a histogram: look at its "
        "tail) and watch vllm:num_preemptions_total."
    ),
    vllm_flag="--max-num-seqs 12",
)

_RELEASE_DAY = Mission(
    id="release-day",
    rules=BLOCK_TABLE_LAB,
    title="Release day",
    story=(
        "At noon the announcement goes out, and for half a minute two and a half times as many people come to the "
        "smallest server we have. Every lever I tried alone failed, so it must be more than one."
    ),
    setup={"request_rate": "2", "burst": "2.5", "kv_memory_bytes": "2 GiB", "block_size": "512"},
    levers={
        "block_size": ("16", "64", "512"),
        "kv_memory_bytes": ("2 GiB", "2.5 GiB", "3 GiB", "4 GiB"),
        "max_num_seqs": ("12", "16", "20", "64"),
    },
    goals=(Goal("p95_ttft_ns", "<=", "15 s"), Goal("waste_ratio", "<=", "5 %"), Goal("preemptions", "<=", "2")),
    cheapest=5,
    decoys=("block_size", "kv_memory_bytes", "max_num_seqs"),
    question=Question(
        text="You double the KV memory and change nothing else. How many of the preemptions are left?",
        change={"kv_memory_bytes": "4 GiB"},
        metric="preemptions",
        guesses=(
            Guess(text="At most a third", up_to=33),
            Guess(text="Between a third and three quarters", above=33, up_to=75),
            Guess(text="More than three quarters", above=75),
        ),
        answer=2,
    ),
    hints=(
        "Three tiles are wrong, and each has a lever of its own.",
        "First what is free of memory: the waste. Then the preemptions. Memory last, for what is left of the queue.",
        "Blocks of 16 tokens, 16 running sequences, 3 GiB.",
    ),
    why=(
        "Each fix uncovers the next: sensible blocks give back a sixth of the cache, a limit stops the server from "
        "promising it twice, and only then does more memory shorten the queue instead of feeding preemptions. Going "
        "from the cheap to the dear, one GiB is enough where two alone were not. In vLLM: --block-size 16, "
        "--max-num-seqs 16, --kv-cache-memory-bytes or --gpu-memory-utilization; after each change look again at "
        "vllm:kv_cache_usage_perc, vllm:num_preemptions_total and vllm:num_requests_waiting, in that order."
    ),
    vllm_flag="--block-size 16 --max-num-seqs 16 --kv-cache-memory-bytes 3221225472",
)

MISSIONS: Final = (
    _IDLE_CACHE,
    _MAX_TOKENS,
    _CONTIGUOUS,
    _TOO_LARGE,
    _TOO_SMALL,
    _SHARING,
    _REPORTS,
    _RELEASE_DAY,
)

"""`kvlab capacity`: how many tokens of KV fit on a server, how many requests that is, and where the memory goes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from kvlab.cli.options import OnceCommand
from kvlab.cli.vllm import sources, vllm_options, warn

if TYPE_CHECKING:
    from kvlab.sizing.result import Capacity

_F = TypeVar("_F", bound=Callable[..., Any])

_OPTIONS: Final = (
    ("--model", "ID|FILE", "A Hugging Face id, or a config.json on this machine; nothing is downloaded."),
    ("--gpu", "NAME", 'Such as "A100-80GB" or "H100".'),
    ("--gpu-memory", "SIZE", "Of one GPU as the driver reports it; in place of --gpu."),
    ("--tensor-parallel-size", "N", "GPUs that share every layer. [1]"),
    ("--pipeline-parallel-size", "N", "Stages that share the layers out. [1]"),
    ("--gpu-memory-utilization", "RATIO", "Share of the memory that the engine may take. [the engine's: 0.92]"),
    ("--max-model-len", "N", "Longest request in tokens. [the config's, else 8192]"),
    ("--weight-dtype", "NAME", "bf16, fp16, fp32, fp8, int8, awq, gptq, mxfp4, ... [as published]"),
    ("--kv-cache-dtype", "NAME", "auto, fp8, bf16, ... [auto]"),
    ("--block-size", "N", "Tokens a block. [16; 64 for MLA]"),
    ("--max-num-batched-tokens", "N", "Tokens a step. [the engine's for the GPU]"),
    ("--max-num-seqs", "N", "Sequences a step. [the engine's for the GPU]"),
    ("--engine-version", "VERSION", "Of vLLM: rules changed at 0.9, 0.17 and 0.21. [0.21]"),
    ("--weights-bytes", "SIZE", "On one GPU, as a log has it; in place of what the model's shape says."),
    ("--kv-bytes-per-token", "SIZE", "On one GPU; in place of what the model's shape says."),
    ("--kv-cache-memory-bytes", "SIZE", "On one GPU; in place of what is left for KV."),
    ("--num-gpu-blocks-override", "N", "Blocks; in place of what fits."),
    ("--prompt-tokens", "LENGTHS", 'Of your requests: 1000, "lognormal(p50=600, p95=3000)", ...'),
    ("--output-tokens", "LENGTHS", "Of your requests."),
    ("--trace", "FILE", "Your requests; in place of the two above."),
)
"""Flag, what stands for its value, help; the names are those of `kvlab.capacity`."""
_MORE_GPUS: Final = (2, 4, 8)


def _inputs(function: _F) -> _F:
    for flag, metavar, text in reversed(_OPTIONS):
        function = click.option(flag, metavar=metavar, help=text)(function)
    return function


@click.command(cls=OnceCommand)
@vllm_options
@click.option("--json", "as_json", is_flag=True, help="Print every figure as JSON, with its provenance and source.")
@_inputs
@click.option("--enforce-eager", is_flag=True, help="Without CUDA graphs.")
def capacity(vllm: str | None, vllm_log: str | None, as_json: bool, **given: Any) -> int:
    """Say how many tokens of KV fit, how many requests that is, and where the memory goes.

    \b
    kvlab capacity --model Qwen/Qwen2.5-7B-Instruct --gpu A100-80GB
    kvlab capacity --vllm "vllm serve Qwen/Qwen3-8B -tp 2 --max-model-len 16k" --gpu L40S
    kvlab capacity --model ./config.json --gpu H100 --tensor-parallel-size 2
    kvlab capacity --model Qwen/Qwen3-8B --gpu L40S --prompt-tokens 1000 --output-tokens "exponential(250)"

    Exit status 1 if the engine would not start.
    """
    from kvlab.sizing.accuracy import band, from_scratch
    from kvlab.sizing.compute import capacity as fit

    inputs = {name: value for name, value in given.items() if value is not None and value is not False}
    origins = None
    if vllm is not None or vllm_log is not None:
        from kvlab.vllm_setup import sizing_inputs

        inputs, origins = sizing_inputs(sources(vllm, vllm_log), inputs)
        warn(origins.warnings)
    found = fit(**inputs)
    status = 0 if found.refusal is None else 1
    errors = band(from_scratch()) if found.is_from_scratch else None
    if as_json:
        document = found.to_dict()
        if errors is not None:
            document["error_band"] = {
                "facts": errors.count,
                "median_ratio": round(float(errors.median), 4),
                "four_fifths_ratio": round(float(errors.four_fifths), 4),
                "worst_ratio": round(float(errors.worst), 4),
                "facts_lower_than_computed": errors.above,
            }
        if origins is not None:
            document["vllm"] = origins.to_dict()
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
        return status
    from kvlab.cli.capacity_page import page
    from kvlab.cli.terminal import stdout_terminal
    from kvlab.cli.vllm import origin_lines

    terminal = stdout_terminal()
    click.echo(page(found, errors, _starts_with(found, inputs), terminal), nl=False)
    if origins is not None:
        click.echo(terminal.render(["", *origin_lines(origins, terminal)]), nl=False)
    return status


def _starts_with(found: Capacity, inputs: dict[str, Any]) -> str | None:
    """The fewest GPUs with which a model that doesn't start would: 2, 4 or 8 that share every layer."""
    from kvlab.errors import ConfigError
    from kvlab.sizing.compute import capacity as fit

    if found.refusal is None or found.waterfall is None:
        return None
    for gpus in _MORE_GPUS:
        if gpus <= found.plan.tensor_parallel_size:
            continue
        try:
            if fit(**{**inputs, "tensor_parallel_size": gpus}).refusal is None:
                return f"--tensor-parallel-size {gpus}"
        except ConfigError:
            continue  # heads that can't be shared out so
    return None

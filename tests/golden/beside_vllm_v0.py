"""Plays random scenarios and the goldens of vllm-v0 beside the scheduler class of vLLM 0.6.2, decision by decision.

pip download --no-deps vllm==0.6.2; unzip -d FOLDER vllm-*.whl 'vllm/core/*' vllm/sequence.py vllm/block.py
pip install msgspec
python tests/golden/beside_vllm_v0.py FOLDER [RUNS]

Scheduler, block manager and sequences are the real ones; what they import besides (torch, settings, logs) is made up.
The clock is the reference's. After each step these must be equal: who was admitted, brought back, preempted and how,
and who finished; the lengths of the queues; all block tables, on the GPU and in the swap space.

Where docs/vllm-v0.md says that kvlab departs from the engine, the engine is helped to go on: tables are freed in order
(`_free_block_table`), samples that ended leave a group that is recomputed (`_preempt_by_recompute`), a request that
fails gives its blocks back. Random scenarios have swap space for all, and one sample where groups would be recomputed.
"""

from __future__ import annotations

import enum
import logging
import sys
import types
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

from hypothesis import HealthCheck, given, settings

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.golden.make_vllm_v0 import FOLDER
from tests.vllm_v0_strategies import V0Case, v0_cases

from kvlab import reference
from kvlab.core.config import VllmV0Config
from kvlab.core.records import StepRecord
from kvlab.core.request import Request
from kvlab.goldens import read_golden
from kvlab.reference.log import Tables

KEPT = ("01", "02", "04", "06", "07", "09", "10")
"""Goldens that the engine survives: in the others swap space runs out, or groups are recomputed."""


class _SamplingParams:
    use_beam_search = False

    def __init__(self, samples: int) -> None:
        self.n = self.best_of = samples


class _ObjectCache:
    def __init__(self, make: Any) -> None:
        self.get_object = make

    def reset(self) -> None:
        """Nothing is kept."""


def real(folder: str) -> types.SimpleNamespace:
    """The classes of vLLM 0.6.2 in `folder`, with everything around them made up."""
    device: Any = enum.Enum("Device", "GPU CPU")
    log = logging.getLogger("vllm")
    log.disabled = True
    made_up: dict[str, dict[str, object]] = {
        "vllm": {},
        "torch": {"Tensor": object},
        "vllm.config": {"CacheConfig": object, "LoRAConfig": object, "SchedulerConfig": object},
        "vllm.logger": {"init_logger": lambda name: log},
        "vllm.lora": {},
        "vllm.lora.request": {"LoRARequest": object},
        "vllm.prompt_adapter": {},
        "vllm.prompt_adapter.request": {"PromptAdapterRequest": object},
        "vllm.inputs": {"LLMInputs": dict, "EncoderDecoderLLMInputs": dict},
        "vllm.inputs.parse": {"is_valid_encoder_decoder_llm_inputs": lambda inputs: False},
        "vllm.pooling_params": {"PoolingParams": object},
        "vllm.spec_decode": {},
        "vllm.spec_decode.metrics": {"SpecDecodeWorkerMetrics": object},
        "vllm.sampling_params": {"SamplingParams": _SamplingParams},
        "vllm.utils": {"Device": device, "PyObjectCache": _ObjectCache, "cdiv": lambda a, b: -(-a // b)},
    }
    for name, values in made_up.items():
        module: Any = types.ModuleType(name)
        module.__path__ = [f"{folder}/vllm"] if name == "vllm" else []
        module.__getattr__ = lambda attribute: MagicMock(name=attribute)
        module.__dict__.update(values)
        sys.modules[name] = module
    import vllm.core.block_manager_v1 as blocks  # type: ignore[import-not-found]
    import vllm.core.scheduler as scheduler  # type: ignore[import-not-found]
    import vllm.sequence as sequence  # type: ignore[import-not-found]

    def free_in_order(self: Any, table: Any) -> None:
        for block in table:
            (self.gpu_allocator if block.device == device.GPU else self.cpu_allocator).free(block)

    blocks.BlockSpaceManagerV1._free_block_table = free_in_order
    return types.SimpleNamespace(scheduler=scheduler, sequence=sequence)


class Server:
    """The real scheduler, with an engine around it that gives every scheduled sample a token."""

    def __init__(self, vllm: types.SimpleNamespace, config: VllmV0Config) -> None:
        self._vllm = vllm
        self.preempted: list[tuple[int, str]] = []
        limits = types.SimpleNamespace(
            max_num_batched_tokens=config.max_num_batched_tokens,
            max_num_seqs=config.max_num_seqs,
            max_model_len=config.max_model_len,
            preemption_mode=None if config.preemption_mode == "auto" else config.preemption_mode,
            policy="fcfs", delay_factor=0.0, num_lookahead_slots=0, use_v2_block_manager=False,
            embedding_mode=False, chunked_prefill_enabled=False, send_delta_data=False,
        )  # fmt: skip
        cache = types.SimpleNamespace(
            block_size=config.block_size,
            num_gpu_blocks=config.num_gpu_blocks,
            num_cpu_blocks=config.num_cpu_blocks,
            sliding_window=None,
            enable_prefix_caching=False,
        )
        self._config = config
        self._forked: set[str] = set()
        self._outputs: dict[str, tuple[int, ...]] = {}
        self._samples = 1_000_000
        self.scheduler = self._watched()(limits, cache, None)
        manager = self.scheduler.block_manager
        manager.watermark_blocks = config.watermark_blocks
        self._can_swap_in, manager.can_swap_in = manager.can_swap_in, self._freeing

    def _freeing(self, group: Any, *rest: Any) -> Any:
        """`can_swap_in`, but who can never come back gives its blocks back at once."""
        status = self._can_swap_in(group, *rest)
        if status == self._vllm.scheduler.AllocStatus.NEVER:
            for sample in group.seqs:
                self.scheduler.free_seq(sample)
        return status

    def _watched(self) -> Any:
        """The scheduler class, which says whom it preempts, and lets ended samples leave a group that is recomputed."""
        server, modes = self, self._vllm.scheduler.PreemptionMode

        class Watched(self._vllm.scheduler.Scheduler):  # type: ignore[name-defined,misc]
            def _preempt(self, group: Any, *rest: Any) -> Any:
                mode = super()._preempt(group, *rest)
                server.preempted.append((int(group.request_id), "swap" if mode == modes.SWAP else "recompute"))
                return mode

            def _preempt_by_recompute(self, group: Any) -> None:
                super()._preempt_by_recompute(group)
                for sample in list(group.seqs):
                    if sample.is_finished():
                        group.remove(sample.seq_id)
                group.sampling_params.best_of = 1
                group.is_single_seq = True

        return Watched

    def add(self, request: Request) -> None:
        """An arrival."""
        sequence = self._vllm.sequence
        inputs = {"prompt_token_ids": [0] * request.prompt_tokens, "prompt": ""}
        first = sequence.Sequence(request.id, inputs, self._config.block_size)
        first.sample = 0
        longest = self._config.max_model_len - request.prompt_tokens
        self._outputs[str(request.id)] = tuple(min(output, longest) for output in request.output_tokens)
        params = _SamplingParams(len(request.output_tokens))
        group = sequence.SequenceGroup(str(request.id), [first], float(request.arrival_ns), sampling_params=params)
        self.scheduler.add_seq_group(group)

    def tables(self, queue: Any) -> Tables:
        """Block tables of the live samples of a queue."""
        manager = self.scheduler.block_manager
        return {
            (int(group.request_id), sample.sample): tuple(manager.get_block_table(sample))
            for group in queue
            for sample in group.seqs
            if not sample.is_finished()
        }

    def decide(self) -> tuple[Any, list[int], list[int]]:
        """A step: what is scheduled, who was admitted, and who came back."""
        self.preempted.clear()
        swapped = {group.request_id for group in self.scheduler.swapped}
        _, outputs, _ = self.scheduler.schedule()
        scheduled = list(outputs.scheduled_seq_groups)
        admitted = [int(one.seq_group.request_id) for one in scheduled[: outputs.num_prefill_groups]]
        resumed = [int(group.request_id) for group in self.scheduler.running if group.request_id in swapped]
        return scheduled, admitted, resumed

    def is_forked(self, request_id: int) -> bool:
        """Whether its samples have tables of their own: from the end of its first prefill on."""
        return str(request_id) in self._forked

    def emit(self, scheduled: Any) -> set[int]:
        """A token for each live sample. Returns who finished."""
        sequence = self._vllm.sequence
        for one in scheduled:
            group = one.seq_group
            outputs = self._outputs[group.request_id]
            group.update_num_computed_tokens(one.token_chunk_size)
            if group.request_id not in self._forked:
                self._forked.add(group.request_id)
                for number in range(1, len(outputs)):
                    self._samples += 1
                    child = group.seqs[0].fork(self._samples)
                    child.sample = number
                    group.add(child)
                    self.scheduler.fork_seq(group.seqs[0], child)
            for sample in group.seqs:
                if not sample.is_finished():
                    sample.append_token_id(0, {0: sequence.Logprob(0.0)})
                    if sample.get_output_len() == outputs[sample.sample]:
                        sample.status = sequence.SequenceStatus.FINISHED_STOPPED
                        self.scheduler.free_seq(sample)
        self.scheduler.free_finished_seq_groups()
        return {int(name) for name in self.scheduler.get_and_reset_finished_requests_ids()}


def compare(vllm: types.SimpleNamespace, case: V0Case, met: Counter[str]) -> None:
    """Raises AssertionError with the first step in which the two differ."""
    run = reference.simulate(case.config, case.source())
    server = Server(vllm, case.config)
    coming = [request for request in case.requests if request.id not in run.record.rejected]
    for number, row in enumerate(run.record.steps):
        while coming and coming[0].arrival_ns <= row.t_ns - row.dur_ns:
            server.add(coming.pop(0))
        scheduled, admitted, resumed = server.decide()
        _same(server, row, number, admitted, resumed)
        mine = run.tables[number]
        mine = {key: mine[key] for key in mine if key[1] == 0 or server.is_forked(key[0])}
        assert list(mine.items()) == list(server.tables(server.scheduler.running).items()), f"step {number}: tables"
        cpu_tables = server.tables(server.scheduler.swapped)
        assert list(run.cpu_tables[number].items()) == list(cpu_tables.items()), f"step {number}: swap space"
        assert server.emit(scheduled) == set(row.finished), f"step {number}: finished"
        met["steps"] += 1
        met["admissions"] += len(admitted)
        met["swap-ins"] += len(resumed)
        met.update(f"preemptions: {mode}" for _, mode in server.preempted)
    met["scenarios"] += 1
    met["copies on write"] += run.record.totals.cow_copies
    met["unfinished"] += run.record.totals.unfinished


def _same(server: Server, row: StepRecord, number: int, admitted: list[int], resumed: list[int]) -> None:
    scheduler = server.scheduler
    got = (admitted, resumed, server.preempted, len(scheduler.waiting), len(scheduler.swapped))
    expected = ([*row.admitted], [*row.resumed], [*row.preempted], row.waiting, row.swapped)
    assert got == expected, f"step {number}: vLLM {got}, reference {expected}"


def fitted(case: V0Case) -> V0Case:
    """The case as the engine survives it."""
    requests = case.requests
    if case.config.preemption_mode == "recompute":
        requests = tuple(request._replace(output_tokens=request.output_tokens[:1]) for request in requests)
    return replace(case, config=replace(case.config, num_cpu_blocks=5_000), requests=requests, users=None)


def main(folder: str, runs: int) -> None:
    """Goldens, then random scenarios; prints what was met."""
    vllm = real(folder)
    met: Counter[str] = Counter()
    for path in sorted(FOLDER.glob("*.json.gz")):
        if path.name.startswith(KEPT):
            golden = read_golden(path)
            compare(vllm, V0Case(golden.config, golden.requests), met)  # type: ignore[arg-type]
    for coarse in (False, True):

        @settings(max_examples=runs, database=None, deadline=None, suppress_health_check=list(HealthCheck))
        @given(v0_cases(coarse=coarse))
        def agree(case: V0Case) -> None:
            compare(vllm, fitted(case), met)

        agree()
    print(*(f"{count:9,} {what}" for what, count in sorted(met.items())), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 500)

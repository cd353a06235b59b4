"""Work is refused by number, before a run and while it goes on."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

import kvlab
from kvlab.core.engine import Engine
from kvlab.errors import ConfigError, KvlabError
from kvlab.web import limits
from kvlab.web.errors import Refusal, refusal_of
from kvlab.web.jobs import simulate
from kvlab.web.limits import LimitError, check_size


def go_on() -> None:
    """Nobody stops the run."""


@pytest.mark.parametrize(
    ("lab", "settings", "field", "value"),
    [
        ("preemption-lab", {"request_rate": 167}, "request_rate", 20_040),
        ("preemption-lab", {"num_requests": 20_001}, "num_requests", 20_001),
        ("preemption-lab", {"arrivals": "closed-loop", "max_concurrency": 20_001}, "max_concurrency", 20_001),
        ("block-table-lab", {"num_samples": 84}, "num_samples", 40_320),
        ("preemption-lab", {"gpu_memory_bytes": "2400 GiB"}, "gpu_memory_bytes", 274_496),
        ("preemption-lab", {"swap_space_bytes": "2100 GiB", "preemption_mode": "swap"}, "swap_space_bytes", 268_800),
        ("block-table-lab", {"kv_memory_bytes": "33 GiB", "block_size": 1}, "kv_memory_bytes", 270_336),
    ],
)
def test_what_is_too_large_is_refused_before_it_runs(
    lab: str, settings: dict[str, Any], field: str, value: int
) -> None:
    with pytest.raises(LimitError) as caught:
        check_size(kvlab.scenario(lab, **settings))
    assert (caught.value.field, caught.value.value) == (field, value)
    assert caught.value.limit < value
    assert f"{value:,}" in str(caught.value)
    assert f"{caught.value.limit:,}" in str(caught.value)


@pytest.mark.parametrize(
    ("lab", "settings"),
    [
        ("preemption-lab", {"request_rate": "166.6"}),
        ("preemption-lab", {"num_requests": 20_000}),
        ("block-table-lab", {"num_samples": 83}),
        ("block-table-lab", {"kv_memory_bytes": "32 GiB", "block_size": 1}),
        ("block-table-lab", {"kv_memory_bytes": "512 GiB", "allocator": "contiguous"}),
    ],
)
def test_what_is_just_small_enough_passes(lab: str, settings: dict[str, Any]) -> None:
    check_size(kvlab.scenario(lab, **settings))


def test_lengths_from_files_of_the_server_are_refused() -> None:
    with pytest.raises(ConfigError, match="the page reads no files"):
        check_size(kvlab.scenario("preemption-lab", output_tokens="empirical(lengths.csv, tokens)"))


@pytest.mark.parametrize(
    ("limit", "lab", "settings", "field"),
    [
        ("MAX_STEPS", "preemption-lab", {}, "duration_ns"),
        ("MAX_STEPS", "block-table-lab", {"allocator": "contiguous"}, "duration_ns"),
        ("MAX_REQUESTS", "preemption-lab", {"arrivals": "closed-loop", "max_concurrency": 8, "output_tokens": 9},
         "num_requests"),
        ("MAX_SAMPLES", "block-table-lab", {"num_samples": 8, "num_requests": 10}, "num_samples"),
        ("MAX_OUTPUT_TOKENS", "preemption-lab", {}, "output_tokens"),
        ("MAX_LOGGED_BLOCKS", "block-table-lab", {"block_size": 1}, "block_size"),
        ("MAX_LOGGED_BLOCKS", "preemption-lab", {"gpu_memory_utilization": "0.42"}, "block_size"),
    ],
)  # fmt: skip
def test_what_turns_out_too_large_is_refused_while_it_runs(
    monkeypatch: pytest.MonkeyPatch, limit: str, lab: str, settings: dict[str, Any], field: str
) -> None:
    scenario = kvlab.scenario(lab, duration_ns="20 s", **settings)
    assert simulate(scenario, go_on).metrics.finished
    monkeypatch.setattr(limits, limit, 60)
    with pytest.raises(LimitError) as caught:
        simulate(scenario, go_on)
    assert (caught.value.field, caught.value.limit) == (field, 60)
    assert isinstance(caught.value.value, int)
    assert caught.value.value > 60


def test_a_watched_run_is_the_run() -> None:
    scenario = kvlab.scenario("preemption-lab", duration_ns="20 s", gpu_memory_utilization="0.42")
    assert simulate(scenario, go_on).record == kvlab.simulate(scenario).record


def test_a_run_leaves_nothing_for_the_garbage_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers collect only in quiet moments: what runs leave behind must go by itself."""
    engines: list[weakref.ref[Engine]] = []

    class Watched(Engine):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            engines.append(weakref.ref(self))

    monkeypatch.setattr("kvlab.web.jobs.Engine", Watched)
    gc.disable()
    try:
        simulate(kvlab.scenario("preemption-lab", duration_ns="2 s"), go_on)
        assert [engine() for engine in engines] == [None]
    finally:
        gc.enable()


def test_a_run_asks_often_enough_whether_to_stop() -> None:
    class StoppedError(Exception):
        pass

    asked = 0

    def stop_later() -> None:
        nonlocal asked
        asked += 1
        if asked == 10:
            raise StoppedError

    with pytest.raises(StoppedError):
        simulate(kvlab.scenario("preemption-lab"), stop_later)
    assert asked == 10


def test_refusals_name_field_value_and_limit() -> None:
    def refusal(**settings: Any) -> Refusal:
        with pytest.raises(KvlabError) as caught:
            check_size(kvlab.scenario("preemption-lab", **settings))
        return refusal_of(caught.value)

    too_many = refusal(request_rate=1000)
    assert (too_many.status, too_many.field, too_many.value, too_many.limit) == (413, "request_rate", 120_000, 20_000)
    wrong = refusal(gpu_memory_utilization="1.5")
    assert (wrong.status, wrong.field, wrong.value) == (400, "gpu_memory_utilization", "1.5")
    assert wrong.limit == "more than 0, at most 1"
    unknown = refusal(arrivals="psoisson")
    assert (unknown.status, unknown.field) == (400, "arrivals")
    assert "poisson" in str(unknown.limit)
    unbounded = refusal(prompt_tokens="unifrom(1, 2)")
    assert unbounded.limit is None
    assert b'"limit": null' in unbounded.to_json()

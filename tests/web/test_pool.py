"""Workers: cancelled runs stop, dead workers are replaced, the queue has an end."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable

import pytest

import kvlab
from kvlab.web import pool as pool_module
from kvlab.web.errors import BUSY, TOO_LARGE, Refusal
from kvlab.web.jobs import DetailJob, RunJob
from kvlab.web.pool import Pool


def job(**settings: object) -> RunJob:
    scenario = kvlab.scenario("preemption-lab", **{"duration_ns": "2 s"} | settings)
    return RunJob(scenario=scenario, shown=scenario)


LONG = {"duration_ns": "1000 s", "request_rate": 10}
"""Seconds of work, within the limits."""


def with_pool(size: int, body: Callable[[Pool], Awaitable[None]]) -> None:
    async def main() -> None:
        pool = Pool(size)
        try:
            await body(pool)
        finally:
            pool.close()

    asyncio.run(main())


def pids(pool: Pool) -> list[int]:
    return [process._process.pid for process in pool._all if process._process is not None]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(("size", "spare"), [(1, 1), (2, 1), (8, 7)])
def test_one_worker_at_least_is_kept_free_of_searches(size: int, spare: int) -> None:
    async def body(pool: Pool) -> None:
        assert pool.spare == spare

    with_pool(size, body)


def test_answers_go_to_who_asked() -> None:
    async def body(pool: Pool) -> None:
        seeds = [pool.do(job(seed=seed)) for seed in (1, 2, 3, 1)]
        answers = await asyncio.gather(*seeds)
        assert all(isinstance(answer, bytes) for answer in answers)
        assert answers[0] == answers[3]
        assert len(set(map(bytes, answers))) == 3  # type: ignore[arg-type]

    with_pool(2, body)


def test_a_cancelled_run_frees_its_worker() -> None:
    async def body(pool: Pool) -> None:
        await pool.do(job())
        (pid,) = pids(pool)
        long = asyncio.create_task(pool.do(job(**LONG)))
        await asyncio.sleep(0.05)
        long.cancel()
        with pytest.raises(asyncio.CancelledError):
            await long
        assert isinstance(await pool.do(job(seed=2)), bytes)
        assert pids(pool) == [pid]  # it stopped by itself

    with_pool(1, body)


def test_a_run_cancelled_before_its_turn_never_begins() -> None:
    async def body(pool: Pool) -> None:
        first = asyncio.create_task(pool.do(job()))
        waiting = asyncio.create_task(pool.do(job(**LONG)))
        await asyncio.sleep(0)
        waiting.cancel()
        assert isinstance(await first, bytes)
        assert isinstance(await pool.do(job(seed=2)), bytes)
        assert waiting.cancelled()

    with_pool(1, body)


def test_a_worker_that_dies_is_replaced() -> None:
    async def body(pool: Pool) -> None:
        await pool.do(job())
        (pid,) = pids(pool)
        long = asyncio.create_task(pool.do(job(**LONG)))
        await asyncio.sleep(0.05)
        os.kill(pid, signal.SIGKILL)
        answer = await long
        assert isinstance(answer, Refusal)
        assert answer.status == TOO_LARGE
        assert isinstance(await pool.do(job(seed=2)), bytes)
        assert pids(pool) != [pid]

    with_pool(1, body)


def test_a_worker_that_hangs_is_put_down(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(pool: Pool) -> None:
        await pool.do(job())
        (pid,) = pids(pool)
        monkeypatch.setattr(pool_module, "JOB_S", 0.05)
        answer = await pool.do(job(**LONG))
        assert isinstance(answer, Refusal)
        assert (answer.status, answer.limit) == (TOO_LARGE, 0.05)
        monkeypatch.undo()
        assert isinstance(await pool.do(job(seed=2)), bytes)
        assert not is_alive(pid)

    with_pool(1, body)


def test_the_queue_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "_MAX_WAITING", 2)

    async def body(pool: Pool) -> None:
        tasks = [asyncio.create_task(pool.do(job(seed=seed))) for seed in range(5)]
        answers = await asyncio.gather(*tasks)
        refused = [answer for answer in answers if isinstance(answer, Refusal)]
        assert [answer.status for answer in refused] == [BUSY] * 2
        assert all(isinstance(answer, bytes) for answer in answers[:3])

    with_pool(1, body)


def test_the_end_of_a_pool_is_the_end_of_its_workers() -> None:
    found: list[int] = []

    async def body(pool: Pool) -> None:
        pool.start()
        found.extend(pids(pool))
        long = asyncio.create_task(pool.do(job(**LONG)))
        await asyncio.sleep(0.05)
        long.cancel()

    with_pool(2, body)
    assert len(found) == 2
    assert not any(map(is_alive, found))


def test_a_bug_in_a_worker_is_told_and_survived(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(pool: Pool) -> None:
        answer = await pool.do(DetailJob(scenario=None, request_id=0, t_ns=0))  # type: ignore[arg-type]
        assert isinstance(answer, Refusal)
        assert answer.status == 500
        assert answer.message.startswith("this is a bug in kvlab: AttributeError")
        assert isinstance(await pool.do(job()), bytes)

    with_pool(1, body)

"""Runs that are worked on before anybody asks: never in the way of those that somebody waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import httpx
import pytest
from tests.web.test_clients import SHORT, eventually
from tests.web.test_pool import LONG, job

import kvlab
from kvlab.web import ahead as ahead_module
from kvlab.web.ahead import MOST_RUNS, Ahead, neighbours
from kvlab.web.jobs import Answer, RunJob
from kvlab.web.pool import Pool
from kvlab.web.server import Server

Kept = list[tuple[RunJob, Answer]]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that have to start first are no reason to give up."""
    monkeypatch.setattr(ahead_module, "LONGEST_S", 60.0)


def with_ahead(size: int, body: Callable[[Pool, Ahead, Kept], Awaitable[None]]) -> None:
    async def main() -> None:
        pool, kept = Pool(size), Kept()
        ahead = Ahead(pool, lambda job, answer: kept.append((job, answer)))
        try:
            await body(pool, ahead, kept)
        finally:
            ahead.close()
            pool.close()

    asyncio.run(main())


async def until(condition: Callable[[], bool]) -> None:
    """Returns when it has come true."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.005)


def test_a_neighbour_differs_in_one_field() -> None:
    fields = {"lab": "preemption-lab", "request_rate": "3"}
    found = neighbours("request_rate=2.9&max_num_seqs=8", fields)
    assert found == [{**fields, "request_rate": "2.9"}, {**fields, "max_num_seqs": "8"}]


@pytest.mark.parametrize("header", ["", "=", "request_rate", "a=1&" * 300, "\x00"])
def test_what_is_no_plan_plans_nothing(header: str) -> None:
    assert neighbours(header, {"lab": "preemption-lab"}) == []


def test_a_plan_is_short_and_traces_have_none() -> None:
    header = "&".join(f"seed={seed}" for seed in range(20))
    assert len(neighbours(header, {})) == MOST_RUNS
    assert neighbours(header, {"trace": "abc"}) == []


def test_what_is_planned_is_worked_on_in_order() -> None:
    async def body(pool: Pool, ahead: Ahead, kept: Kept) -> None:
        jobs = [job(seed=seed) for seed in (1, 2, 3)]
        ahead.plan(jobs)
        await until(lambda: len(kept) == 3)
        assert [done for done, _ in kept] == jobs
        assert kept[1][1] == await pool.do(jobs[1])

    with_ahead(2, body)


def test_who_asks_for_what_is_worked_on_gets_that() -> None:
    async def body(pool: Pool, ahead: Ahead, kept: Kept) -> None:
        wanted = job(seed=1)
        ahead.plan([wanted, job(seed=2)])
        assert ahead.take(job(seed=2)) is None  # not begun
        task = ahead.take(job(seed=1))
        assert task is not None
        assert isinstance(await task, bytes)
        assert ahead.take(wanted) is None
        await until(lambda: len(kept) == 1)
        assert kept[0][0] == job(seed=2)  # the other goes on for nobody, when its time has come

    with_ahead(2, body)


def test_it_makes_way_for_a_job_that_has_to_wait() -> None:
    async def body(pool: Pool, ahead: Ahead, kept: Kept) -> None:
        ahead.plan([job(**LONG), job(seed=3)])
        await asyncio.sleep(0.02)
        assert isinstance(await pool.do(job(seed=2)), bytes)
        assert ahead.take(job(**LONG)) is None
        assert kept == []

    with_ahead(1, body)


def test_it_waits_while_others_work() -> None:
    async def body(pool: Pool, ahead: Ahead, kept: Kept) -> None:
        wanted = [asyncio.create_task(pool.do(job(seed=seed, duration_ns="20 s"))) for seed in (1, 2)]
        await asyncio.sleep(0)
        ahead.plan([job(seed=3)])
        assert ahead.take(job(seed=3)) is None
        await asyncio.gather(*wanted)
        await until(lambda: len(kept) == 1)

    with_ahead(2, body)


def test_a_newer_plan_takes_the_place_of_the_older() -> None:
    async def body(pool: Pool, ahead: Ahead, kept: Kept) -> None:
        ahead.plan([job(**LONG), job(seed=1)])
        ahead.plan([job(seed=2), job(seed=3)])
        ahead.plan([job(seed=3), job(seed=2)])  # that one is being worked on, and stays
        await until(lambda: len(kept) == 2)
        assert [done for done, _ in kept] == [job(seed=2), job(seed=3)]

    with_ahead(2, body)


def test_what_takes_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead_module, "LONGEST_S", 0.01)

    async def body(pool: Pool, ahead: Ahead, kept: Kept) -> None:
        ahead.plan([job(**LONG), job(seed=1)])
        await until(lambda: ahead.take(job(**LONG)) is None and not ahead._planned)
        assert isinstance(await pool.do(job(seed=2)), bytes)
        assert kept == []

    with_ahead(1, body)


def test_a_refused_run_is_no_obstacle() -> None:
    async def body(pool: Pool, ahead: Ahead, kept: Kept) -> None:
        many = kvlab.scenario("preemption-lab", num_requests=30_000, request_rate=5_000)
        ahead.plan([RunJob(scenario=many, shown=many), job(seed=1)])
        await until(lambda: len(kept) == 2)
        assert not isinstance(kept[0][1], bytes)

    with_ahead(2, body)


def test_nothing_begins_after_the_end() -> None:
    async def body(pool: Pool, ahead: Ahead, kept: Kept) -> None:
        ahead.close()
        ahead.plan([job(seed=1)])
        assert ahead.take(job(seed=1)) is None

    with_ahead(1, body)


def test_the_next_stops_are_known_before_they_are_asked_for(client: httpx.Client, server: Server) -> None:
    seeds = (70_001, 70_002)
    scenarios = [kvlab.scenario("preemption-lab", duration_ns="2 s", seed=seed) for seed in seeds]
    answer = client.get(SHORT + "70000", headers={"X-Ahead": "seed=70001&no_such=1&seed=never&seed=70002"})
    assert answer.status_code == 200
    assert eventually(lambda: server._cache.get(scenarios[0]) is not None)
    found = server._cache.get(scenarios[0])
    assert found is not None
    assert client.get(SHORT + "70001").content == found[0]
    assert server._cache.get(scenarios[1]) is None  # three are planned, two of them nonsense


def test_a_slider_with_the_focus_is_worked_ahead_for(client: httpx.Client, server: Server) -> None:
    answer = client.get("/api/ahead?lab=preemption-lab&duration_ns=2 s", headers={"X-Ahead": "seed=70011&seed=70012"})
    assert (answer.status_code, answer.content) == (204, b"")
    for seed in (70_011, 70_012):
        scenario = kvlab.scenario("preemption-lab", duration_ns="2 s", seed=seed)
        assert eventually(lambda wanted=scenario: server._cache.get(wanted) is not None)  # type: ignore[misc]
    assert client.get("/api/ahead?lab=preemption-lab").status_code == 204
    assert client.get("/api/ahead?lab=preemption-lab&lab=x").status_code == 400

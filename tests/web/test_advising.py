"""Searches of the page: lines as they are found, never in the way of who waits for a run, over when nobody listens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from queue import SimpleQueue
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from tests.web.test_clients import SHORT, eventually
from tests.web.test_pool import LONG, job

import kvlab
from kvlab.advice.answer import FIX, HOLDS, NOTHING, Advice
from kvlab.advice.goals import parse_goals
from kvlab.errors import ConfigError
from kvlab.missions import MISSIONS
from kvlab.setting_table import PAGE_RULES
from kvlab.sweeps.outcome import Outcome, key_of, run_one
from kvlab.web import background as background_module
from kvlab.web import server as server_module
from kvlab.web.advising import LIMITS, _texts, limits_for, limits_of
from kvlab.web.background import MOST_SEARCHES, Background, StoppedError, _Wanted
from kvlab.web.jobs import OutcomeJob
from kvlab.web.pool import Pool
from kvlab.web.server import Server
from kvlab.web.streams import Streams
from kvlab.web.uploads import Uploads


def endless(fields: dict[str, str], find_trace: object) -> Any:
    """Runs that never end, one after the other."""

    def work(emit: Any, executor: Any) -> None:
        emit({"start": {}})
        tasks = ((seed, kvlab.scenario("preemption-lab", seed=seed, **LONG)) for seed in range(10**6))
        for number, _ in executor(tasks):
            emit({"done": number})

    return work


def late(fields: dict[str, str], find_trace: object) -> Any:
    """Something goes wrong after the first line."""

    def work(emit: Any, executor: Any) -> None:
        emit({"start": {}})
        raise ConfigError("max_num_seqs", 0, "must be at least 1") if "user" in fields else RuntimeError("nobody knew")

    return work


@pytest.fixture(scope="module")
def server() -> Server:
    patch = pytest.MonkeyPatch()
    patch.setitem(server_module.STREAMS, "/api/endless", endless)
    patch.setitem(server_module.STREAMS, "/api/late", late)
    return Server(pool=Pool(2))


def lines_of(client: httpx.Client, path: str, **options: Any) -> list[dict[str, Any]]:
    with client.stream("GET", path, **options) as response:
        assert response.status_code == 200
        assert response.headers["content-type"] == "application/x-ndjson"
        assert response.headers["cache-control"] == "no-store"
        assert response.headers["content-security-policy"]
        return [json.loads(line) for line in response.iter_lines()]


_begun: list[Iterator[str]] = []
"""A client that forgets its iterator hangs up."""


def begun(response: httpx.Response) -> Iterator[str]:
    """The lines after the first."""
    lines = response.iter_lines()
    assert json.loads(next(lines)) == {"start": {}}
    _begun.append(lines)
    return lines


def advice(mission: str) -> str:
    found = MISSIONS[mission]
    fields = {"lab": found.rules, **found.setup, "mission": mission, "goals": limits_of(found)}
    return f"/api/advise?{httpx.QueryParams(fields)}"


def test_fixes_come_one_by_one_and_then_the_answer(client: httpx.Client) -> None:
    lines = [line for line in lines_of(client, advice("slow-pcie")) if "progress" not in line]
    assert [next(iter(line)) for line in lines] == ["start", *["fix"] * (len(lines) - 2), "done"]
    assert lines[0]["start"]["seeds"] == 1
    done = lines[-1]["done"]
    assert done["verdict"] == "fix"
    assert [fix["price"] for fix in done["fixes"]] == sorted(fix["price"] for fix in done["fixes"])
    assert [line["fix"] for line in lines[1:-1] if line["fix"] == done["fixes"][0]]
    best = done["fixes"][0]
    assert best["price"] == MISSIONS["slow-pcie"].cheapest
    assert best["changes"] == {"preemption_mode": "recompute"}
    assert best["moves"][0]["label"] == "A preempted request"
    assert (best["moves"][0]["before"], best["moves"][0]["after"]) == ("Swap", "Recompute")
    assert best["moves"][0]["reason"] == kvlab.prices.PRICES["preemption_mode"].reason
    assert best["cost"] == "1 point"
    assert best["effects"][0]["limit"] == "at most 120 ms"
    assert all(isinstance(effect[name], str) for effect in best["effects"] for name in ("before", "after", "range"))


def test_a_second_search_on_the_same_setup_asks_no_worker(
    client: httpx.Client, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = lines_of(client, advice("slow-pcie"))
    monkeypatch.setattr(server._pool, "do", "not to be called")
    again = lines_of(client, advice("slow-pcie"))
    assert again[-1] == first[-1]


@pytest.mark.parametrize(
    ("query", "status", "field", "says"),
    [
        ("lab=preemption-lab", 400, "goals", "at least one limit"),
        ("lab=preemption-lab&goals=fast", 400, "goals", "fast: expected limits such as"),
        ("lab=preemption-lab&goals=tttf_p95<=2s", 400, "goals", "did you mean"),
        ("lab=preemption-lab&goals=ttft_p95<=2", 400, "goals", "needs a unit"),
        ("lab=preemption-lab&goals=ttft_p95<=2s&mission=none", 400, "mission", "unknown mission"),
        ("lab=preemption-lab&goals=ttft_p95<=2s&request_rate=1000", 413, "request_rate", "kvlab run"),
        ("goals=ttft_p95<=2s", 400, "lab", "unknown lab"),
    ],
)
def test_what_is_wrong_before_the_first_line_is_a_plain_error(
    client: httpx.Client, query: str, status: int, field: str, says: str
) -> None:
    response = client.get(f"/api/advise?{query}")
    assert response.status_code == status
    error = response.json()["error"]
    assert error["field"] == field
    assert says in error["message"]


def test_what_goes_wrong_later_is_the_last_line(client: httpx.Client, server: Server) -> None:
    first, last = lines_of(client, "/api/late?user=1")
    assert first == {"start": {}}
    assert set(last["error"]) == {"field", "value", "limit", "message"}
    assert last["error"]["field"] == "max_num_seqs"
    bug = lines_of(client, "/api/late", headers={"Connection": "close"})[-1]
    assert "this is a bug" in bug["error"]["message"]
    assert eventually(lambda: server._streams.count == 0)


def test_who_goes_away_ends_the_search(client: httpx.Client, server: Server) -> None:
    with client.stream("GET", "/api/endless") as response:
        begun(response)
        assert server._streams.count == 1
        assert client.get(SHORT + "31").status_code == 200, "a run beside it"
    assert eventually(lambda: server._streams.count == 0 and not server._background._running)


def test_there_is_a_limit_of_searches(client: httpx.Client, server: Server) -> None:
    with ExitStack() as open_ones:
        for _ in range(MOST_SEARCHES):
            begun(open_ones.enter_context(client.stream("GET", "/api/endless")))
        refused = client.get("/api/endless")
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "1"
        assert refused.json()["error"]["limit"] == MOST_SEARCHES
    assert eventually(lambda: server._streams.count == 0)
    assert lines_of(client, "/api/late?user=1")


def test_a_newer_search_of_the_same_page_ends_the_older(client: httpx.Client, server: Server) -> None:
    me, other = {"X-Client": "me"}, {"X-Client": "other"}
    with (
        client.stream("GET", "/api/endless", headers=me) as older,
        client.stream("GET", "/api/endless", headers=other) as others,
    ):
        lines = begun(older)
        begun(others)
        lines_of(client, "/api/late?user=1", headers=me)  # of another kind
        with client.stream("GET", "/api/endless", headers=me) as newer:
            begun(newer)
            last = json.loads(list(lines)[-1])
            assert last["error"]["field"] == "client"
            assert server._streams.count == 2
    assert eventually(lambda: server._streams.count == 0)


def test_limits_that_the_page_offers_are_limits() -> None:
    assert LIMITS.keys() == set(PAGE_RULES)
    for lab, limits in LIMITS.items():
        assert all(len(parse_goals(limit)) == 1 for limit in limits)
        assert parse_goals(limits_for(lab)["first"])
    for mission in MISSIONS.values():
        assert parse_goals(limits_of(mission)) == tuple(goal.measure for goal in mission.goals)


@pytest.mark.parametrize(
    ("verdict", "complete", "bottleneck", "says"),
    [
        (HOLDS, True, True, ["hold already, with each of 3 seeds"]),
        (HOLDS, True, False, ["hold already", "not the bottleneck", "at most 40 %"]),
        (FIX, False, True, ["0 fixes keep all limits", "stopped at its limit"]),
        (NOTHING, True, True, ["No change of the levers keeps all limits, alone or combined."]),
    ],
)
def test_the_answer_in_words(verdict: str, complete: bool, bottleneck: bool, says: list[str]) -> None:
    given = Advice(
        scenario=kvlab.scenario("preemption-lab"), goals=parse_goals("ttft_p95<=2s"), seeds=(1, 2, 3), verdict=verdict,
        kv_is_bottleneck=bottleneck, peak_kv_usage=0.4, now=(), fixes=(), nearest=None, crossover=None, runs=3,
        complete=complete, turned_away=2,
    )  # fmt: skip
    texts = _texts(given, in_mission=False)
    assert any(text.startswith("2 requests are turned away") for text in texts)
    assert all(part in " ".join(texts) for part in says)
    assert ("bottleneck" in " ".join(texts)) != bottleneck


# The background, without a server around it


With = Callable[[Callable[[Pool, Background], Awaitable[None]]], None]


@pytest.fixture(scope="module")
def with_background() -> Iterator[With]:
    """Runs a test with one worker, which all of them share."""
    with asyncio.Runner() as runner:

        async def start() -> Pool:
            return Pool(1)

        pool = runner.run(start())

        def run(body: Callable[[Pool, Background], Awaitable[None]]) -> None:
            async def main() -> None:
                background = Background(pool)
                try:
                    await body(pool, background)
                finally:
                    background.end()

            runner.run(main())

        yield run
        pool.close()


def scenario(**settings: object) -> kvlab.Scenario:
    return kvlab.scenario("preemption-lab", **{"duration_ns": "2 s"} | settings)


def test_an_outcome_is_that_of_a_sweep(with_background: With) -> None:
    async def body(pool: Pool, background: Background) -> None:
        answer = await pool.do(OutcomeJob(scenario=scenario(seed=5)))
        assert isinstance(answer, bytes)
        assert Outcome.from_json(answer.decode()) == run_one(scenario(seed=5))

    with_background(body)


async def collected(search: Any, scenarios: list[kvlab.Scenario]) -> dict[int, Outcome]:
    return await asyncio.to_thread(lambda: dict(search.executor(enumerate(scenarios))))


def test_whoever_waits_takes_the_worker_of_a_search_which_goes_on_later(with_background: With) -> None:
    async def body(pool: Pool, background: Background) -> None:
        search = background.open()
        middling = scenario(duration_ns="60 s")
        found = asyncio.create_task(collected(search, [middling]))
        while not background._running:
            await asyncio.sleep(0.001)
        assert pool.spare == 1
        wanted = asyncio.create_task(pool.do(job(seed=2)))
        await asyncio.sleep(0)
        assert pool.spare == 0
        assert not background._running
        assert isinstance(await wanted, bytes)
        assert not found.done(), "it was stopped, and begins anew"
        assert await found == {0: run_one(middling)}
        assert search.num_done == 1

    with_background(body)


def test_searches_take_turns(with_background: With) -> None:
    async def body(pool: Pool, background: Background) -> None:
        one, other = background.open(), background.open()
        order: SimpleQueue[Any] = SimpleQueue()
        for search, first in ((one, 10), (other, 20)):
            for number in range(first, first + 3):
                given = scenario(seed=number)
                background.want(search, _Wanted(number, given, key_of(given), order))
        assert len(background._running) == 1, "as many as there are workers to spare"
        numbers = [(await asyncio.to_thread(order.get))[0] for _ in range(6)]
        assert numbers == [10, 20, 11, 21, 12, 22]

    with_background(body)


def test_what_is_known_is_kept_up_to_a_bound() -> None:
    kept = background_module._Outcomes(most=2)
    for key in "abc":
        kept.put(key, key.encode())
        kept.get("a")
    assert [kept.get(key) for key in "abc"] == [b"a", None, b"c"]


def test_a_run_beyond_the_limits_is_one_that_could_not_be_run(with_background: With) -> None:
    async def body(pool: Pool, background: Background) -> None:
        found = await collected(background.open(), [scenario(num_requests=10**6), scenario()])
        assert found[0].metrics is None
        assert "at most 20,000" in str(found[0].error)
        assert found[1].metrics is not None

    with_background(body)


def test_a_stopped_search_tells_its_thread(with_background: With) -> None:
    async def body(pool: Pool, background: Background) -> None:
        search = background.open()
        found = asyncio.create_task(collected(search, [scenario(**LONG), scenario()]))
        while not background._running:
            await asyncio.sleep(0.001)
        search.stop()
        with pytest.raises(StoppedError):
            await found
        assert not background._running
        with pytest.raises(StoppedError):
            await collected(search, [scenario()])
        assert isinstance(await pool.do(job(seed=3)), bytes)

    with_background(body)


def test_the_end_of_the_server_is_the_end_of_its_streams(with_background: With) -> None:
    async def body(pool: Pool, background: Background) -> None:
        streams, sent = Streams(background, Uploads()), []

        async def receive() -> Any:
            await asyncio.Event().wait()

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "path": "/api/endless", "query_string": b"", "headers": []}
        response = await streams.answer(endless, Request(scope, receive))
        sending = asyncio.create_task(response(scope, receive, send))
        while len(sent) < 2:
            await asyncio.sleep(0.001)
        streams.end()
        await sending
        assert json.loads(sent[-2]["body"])["error"]["message"] == "the server is being stopped"
        assert sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}
        assert streams.count == 0

    with_background(body)

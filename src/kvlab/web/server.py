"""The local server: the page's files, the labs, runs. All computing is done by worker processes."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from kvlab.errors import KvlabError
from kvlab.scenarios import Scenario
from kvlab.setting_table import PAGE_RULES
from kvlab.web.advising import advising
from kvlab.web.ahead import AFTER_S, Ahead, neighbours
from kvlab.web.assets import Asset, Assets, asset_of
from kvlab.web.background import Background
from kvlab.web.commands import pasted
from kvlab.web.controls import base
from kvlab.web.errors import A_BUG, BUG, BUSY, CONFLICT, NOT_FOUND, TIMEOUT, Refusal, RefusedError, refusal_of
from kvlab.web.guard import Guard, refused
from kvlab.web.heatmap import sweeping
from kvlab.web.jobs import Answer, DetailJob, Job, RunJob, TraceJob
from kvlab.web.labs import tables
from kvlab.web.limits import MAX_UPLOAD_BYTES
from kvlab.web.pool import Pool
from kvlab.web.queries import fields_of, read_scenario, scenario_of, take_client, take_moment
from kvlab.web.streams import Plan, Streams, disconnected
from kvlab.web.uploads import Uploads, too_large
from kvlab.web.waterfall import waterfall
from kvlab.workloads.traces.formats import trace_format

UPLOAD_S: Final = 60.0
_CACHE_BYTES: Final = 64 * 2**20
_LOOPBACK: Final = ("127.0.0.1", "::1", "testclient")
_BINARY: Final = "application/octet-stream"

STREAMS: Final[dict[str, Plan]] = {"/api/advise": advising, "/api/heatmap": sweeping}
"""Answers that come line by line, by their addresses."""

Handler = Callable[[Request], Awaitable[Response]]


class _Cache:
    """Payloads of the latest scenarios, up to so many bytes."""

    def __init__(self, most_bytes: int = _CACHE_BYTES) -> None:
        self._most_bytes = most_bytes
        self._kept: OrderedDict[object, tuple[bytes, bool]] = OrderedDict()
        self._bytes = 0

    def get(self, key: object) -> tuple[bytes, bool] | None:
        """A payload, and whether it is compressed."""
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def put(self, key: object, data: bytes, *, packed: bool) -> None:
        """Keeps a payload; those that were not asked for in a long time go."""
        before = self._kept.pop(key, None)
        self._bytes += len(data) - (0 if before is None else len(before[0]))
        self._kept[key] = (data, packed)
        while self._bytes > self._most_bytes:
            _, (old, _) = self._kept.popitem(last=False)
            self._bytes -= len(old)


class Server:
    """Handlers of all addresses, and what they share."""

    def __init__(self, assets: Assets | None = None, pool: Pool | None = None) -> None:
        self._assets = Assets() if assets is None else assets
        self._pool = Pool() if pool is None else pool
        self._uploads = Uploads()
        self._cache = _Cache()
        self._background = Background(self._pool)  # before what works ahead: searches come first
        self._streams = Streams(self._background, self._uploads)
        self._ahead = Ahead(self._pool, self._keep)
        self._labs = asset_of(json.dumps(tables(), ensure_ascii=False).encode(), "json")
        self._latest: dict[str, asyncio.Task[Answer]] = {}
        self._warming: dict[Scenario, asyncio.Task[None]] = {}
        self._handling: set[asyncio.Task[Any]] = set()
        self._ending = False

    @property
    def waiting_clients(self) -> frozenset[str]:
        """Named clients whose answers are being worked on."""
        return frozenset(self._latest)

    @property
    def num_streams(self) -> int:
        """Answers that are still being told line by line."""
        return self._streams.count

    def app(self, hosts: tuple[str, ...] = ()) -> Guard:
        """The ASGI app, for requests to those hosts besides localhost and IP addresses."""
        routes = [
            Route("/", self._page),
            Route("/api/labs", self._send_labs),
            Route("/api/run", self._guarded(self._run)),
            Route("/api/ahead", self._guarded(self._expect)),
            Route("/api/request", self._guarded(self._request)),
            Route("/api/memory", self._guarded(self._memory)),
            Route("/api/command", self._guarded(self._command)),
            Route("/api/scenario", self._guarded(self._scenario)),
            Route("/api/trace", self._guarded(self._trace), methods=["POST"]),
            *(Route(path, self._guarded(partial(self._streams.answer, plan))) for path, plan in STREAMS.items()),
            Route("/{name:path}", self._file),
        ]
        handlers: dict[Any, Any] = {HTTPException: _http_error, Exception: _bug}
        return Guard(Starlette(routes=routes, lifespan=self._lifespan, exception_handlers=handlers), hosts)

    def end(self) -> None:
        """Ends what is being worked on: the server is to stop now."""
        self._ending = True
        self._streams.end()
        for task in self._handling:
            task.cancel()

    def _guarded(self, handler: Handler) -> Handler:
        """The handler with errors as JSON."""

        async def handle(request: Request) -> Response:
            task = asyncio.current_task()
            assert task is not None
            self._handling.add(task)
            try:
                return await handler(request)
            except RefusedError as error:
                refusal = error.refusal
            except KvlabError as error:
                refusal = refusal_of(error)
            except ClientDisconnect:
                return Response(status_code=400)  # nobody is there to read it
            except asyncio.CancelledError:
                if not self._ending:
                    raise
                refusal = Refusal(status=BUSY, message="the server is being stopped")
            finally:
                self._handling.discard(task)
            response = refused(refusal)
            if request.method == "POST":
                response.headers["Connection"] = "close"  # what is still to come of the body is not waited for
            return response

        return handle

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        self._pool.start()
        for lab in PAGE_RULES:
            self._warming[base(lab)] = asyncio.create_task(self._warm(base(lab)))
        try:
            yield
        finally:
            for task in self._warming.values():
                task.cancel()
            self._streams.end()
            self._ahead.close()
            self._pool.close()
            self._uploads.close()

    async def _warm(self, scenario: Scenario) -> None:
        """The first picture of a lab is ready before anybody asks, and small."""
        answer = await self._pool.do(RunJob(scenario=scenario, shown=scenario, packed=True))
        if isinstance(answer, bytes):
            self._cache.put(scenario, answer, packed=True)

    async def _page(self, request: Request) -> Response:
        return self._asset(request, self._assets.find("index.html"), "index.html")

    async def _file(self, request: Request) -> Response:
        name = request.path_params["name"].removeprefix("static/")
        return self._asset(request, self._assets.find(name), request.url.path)

    async def _send_labs(self, request: Request) -> Response:
        return self._asset(request, self._labs, "")

    def _asset(self, request: Request, asset: Asset | None, name: str) -> Response:
        if asset is None:
            return refused(Refusal(status=NOT_FOUND, message="there is nothing here", field="path", value=name))
        headers = {"Cache-Control": "no-cache", "ETag": asset.etag, "Vary": "Accept-Encoding"}
        if asset.etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        if asset.packed is not None and _takes_gzip(request):
            return Response(asset.packed, headers=headers | {"Content-Encoding": "gzip"}, media_type=asset.type)
        return Response(asset.data, headers=headers, media_type=asset.type)

    async def _run(self, request: Request) -> Response:
        fields = fields_of(request.url.query)
        client = take_client(fields, request.headers.get("x-client"))
        scenario, shown, token = self._scenarios(fields)
        self._supersede(client)
        if scenario in self._warming:
            await asyncio.wait({self._warming[scenario]})
        found = self._cache.get(scenario)
        # a browser on this machine gets the bytes faster than anybody could compress them
        packed = _takes_gzip(request) and not _is_near(request)
        job = RunJob(scenario=scenario, shown=shown, trace=token, packed=packed)
        ahead = request.headers.get("x-ahead")
        if ahead is not None:
            asyncio.get_running_loop().call_later(AFTER_S, self._plan, ahead, fields, packed)
        if found is None:
            answer = await self._work(request, job, client)
            if isinstance(answer, Refusal):
                return self._refused(answer, fields)
            found = (answer, packed)
            self._keep(job, answer)
        return _payload(request, *found)

    def _keep(self, job: RunJob, answer: Answer) -> None:
        if isinstance(answer, bytes):
            self._cache.put(job.scenario, answer, packed=job.packed)

    async def _expect(self, request: Request) -> Response:
        """Nothing is asked for yet: a slider got the focus."""
        fields = fields_of(request.url.query)
        take_client(fields, None)
        self._plan(request.headers.get("x-ahead", ""), fields, _takes_gzip(request) and not _is_near(request))
        return Response(status_code=204, headers={"Cache-Control": "no-store"})

    def _plan(self, header: str, fields: Mapping[str, str], packed: bool) -> None:
        """Has those runs worked on that are likely to be asked for next; a guess that can't be run is left out."""
        jobs = []
        for changed in neighbours(header, fields):
            with suppress(KvlabError, RefusedError):
                scenario, _, _ = self._scenarios(changed)
                if self._cache.get(scenario) is None:
                    jobs.append(RunJob(scenario=scenario, shown=scenario, packed=packed))
        self._ahead.plan(jobs)

    async def _request(self, request: Request) -> Response:
        fields = fields_of(request.url.query)
        client = take_client(fields, request.headers.get("x-client"))
        request_id, t_ns = take_moment(fields)
        scenario, _, _ = self._scenarios(fields)
        job = DetailJob(scenario=scenario, request_id=request_id, t_ns=t_ns)
        client = None if client is None else f"{client}/request"  # a click stops no run
        self._supersede(client)
        answer = await self._work(request, job, client)
        if isinstance(answer, Refusal):
            return self._refused(answer, fields)
        return Response(answer, headers={"Cache-Control": "no-store"}, media_type="application/json")

    async def _memory(self, request: Request) -> Response:
        """The waterfall of a server, whether it would start or not."""
        fields = fields_of(request.url.query)
        take_client(fields, None)
        found = read_scenario(fields, self._uploads.find)
        document = json.dumps(waterfall(found.scenario.server))
        return Response(document, headers={"Cache-Control": "no-store"}, media_type="application/json")

    async def _command(self, request: Request) -> Response:
        fields = fields_of(request.url.query)
        take_client(fields, None)
        text, gpu = fields.pop("text", ""), fields.pop("gpu", "")
        _no_more(fields)
        document = json.dumps(pasted(text, gpu))
        return Response(document, headers={"Cache-Control": "no-store"}, media_type="application/json")

    async def _scenario(self, request: Request) -> Response:
        fields = fields_of(request.url.query)
        take_client(fields, None)
        _, shown, _ = self._scenarios(fields)
        headers = {
            "Cache-Control": "no-store",
            "Content-Disposition": f'attachment; filename="kvlab-{shown.rules}.json"',
        }
        return Response(shown.to_json(), headers=headers, media_type="application/json")

    async def _trace(self, request: Request) -> Response:
        fields = fields_of(request.url.query)
        take_client(fields, None)
        name, given = fields.pop("name", "trace"), fields.pop("format", "")
        _no_more(fields)
        chosen = given if given not in ("", "none") else None
        if chosen is not None:
            trace_format(chosen, "format")
        declared = request.headers.get("content-length", "")
        if declared.isdigit() and int(declared) > 8 * MAX_UPLOAD_BYTES:
            raise too_large(int(declared))  # not worth waiting for
        try:
            async with asyncio.timeout(UPLOAD_S):
                upload = await self._uploads.receive(request.stream(), name, chosen)
        except TimeoutError:
            message = f"the file did not come whole within {UPLOAD_S:g} s"
            raise RefusedError(
                Refusal(status=TIMEOUT, message=message, field="body", value=name, limit=UPLOAD_S)
            ) from None
        answer = await self._pool.do(TraceJob(path=upload.path, format=chosen))
        if isinstance(answer, Refusal):
            self._uploads.drop(upload)
            return refused(answer.renamed(upload.path, upload.name))
        self._uploads.keep(upload)
        document = {"trace": upload.token, "name": upload.name, **json.loads(answer)}
        return Response(json.dumps(document), headers={"Cache-Control": "no-store"}, media_type="application/json")

    def _scenarios(self, fields: Mapping[str, str]) -> tuple[Scenario, Scenario, str | None]:
        """The scenario that is run; the one that is shown, which calls a trace by its name; the trace's token."""
        query = scenario_of(fields, self._uploads.find)
        if query.trace is None:
            return query.scenario, query.scenario, None
        return query.scenario, query.scenario.replace(trace=query.trace.name), query.trace.token

    def _supersede(self, client: str | None) -> None:
        """A newer request of the client is here: its older job stops."""
        older = None if client is None else self._latest.pop(client, None)
        if older is not None:
            older.cancel()

    async def _work(self, request: Request, job: Job, client: str | None) -> Answer:
        """The answer to a job, which stops when its client goes away, or asks for something newer."""
        ahead = self._ahead.take(job) if isinstance(job, RunJob) else None
        work = ahead or asyncio.create_task(self._pool.do(job))
        if client is not None:
            self._latest[client] = work
        gone = asyncio.create_task(disconnected(request))
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            work.cancel()  # nothing happens to one that is done
            gone.cancel()
            if client is not None and self._latest.get(client) is work:
                del self._latest[client]
        if not work.done() or work.cancelled():
            message = "a newer request of the same client came before this one was done"
            return Refusal(status=CONFLICT, message=message, field="client", value=client)
        return work.result()

    def _refused(self, refusal: Refusal, fields: Mapping[str, str]) -> Response:
        if "trace" in fields and fields["trace"] != "none":
            upload = self._uploads.find(fields["trace"])
            refusal = refusal.renamed(upload.path, upload.name)
        return refused(refusal)


def _no_more(fields: Mapping[str, str]) -> None:
    for field in fields:
        raise RefusedError(Refusal(status=400, message=f"unknown field {field}", field=field, value=fields[field]))


async def _http_error(request: Request, error: Exception) -> Response:
    """What Starlette itself refuses: an address or a method that isn't there."""
    assert isinstance(error, HTTPException)
    response = refused(Refusal(status=error.status_code, message=error.detail, field="path", value=request.url.path))
    response.headers.update(error.headers or {})
    return response


async def _bug(request: Request, error: Exception) -> Response:
    """Nobody is shown a traceback but who runs the server: it passes on to the log."""
    return refused(Refusal(status=BUG, message=A_BUG))


def _payload(request: Request, data: bytes, packed: bool) -> Response:
    headers = {"Cache-Control": "no-store"}
    if packed and _takes_gzip(request):
        headers["Content-Encoding"] = "gzip"
    elif packed:
        data = gzip.decompress(data)
    return Response(data, headers=headers, media_type=_BINARY)


def _takes_gzip(request: Request) -> bool:
    for part in request.headers.get("accept-encoding", "").split(","):
        name, _, weight = part.replace(" ", "").partition(";q=")
        if name == "gzip":
            return weight.strip("0.") != "" or weight == ""
    return False


def _is_near(request: Request) -> bool:
    return request.client is not None and request.client.host in _LOOPBACK

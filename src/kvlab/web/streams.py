"""Answers that come line by line: a search in a thread, and what it finds as JSON lines, each as soon as it is there.

What is wrong before the first line is an error like any other; what goes wrong after it is the last line,
`{"error": ...}` of the same shape. Now and then a line says how far it is: `{"progress": {"done": 37}}`. A search ends
when its client goes away, asks for something newer at the same address, or when the server ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from kvlab.errors import KvlabError
from kvlab.sweeps.workers import Executor
from kvlab.web.background import Background, Search, StoppedError
from kvlab.web.errors import A_BUG, BUG, BUSY, CONFLICT, Refusal, RefusedError, refusal_of
from kvlab.web.queries import FindTrace, fields_of, take_client
from kvlab.web.uploads import Uploads

MEDIA_TYPE: Final = "application/x-ndjson"
BEAT_S: Final = 0.25
"""Between lines that only say how far a search is."""

Emit = Callable[[Mapping[str, Any]], None]
"""Sends a line; raises when the search is over."""
Work = Callable[[Emit, Executor], None]
"""What a search does, in its thread: all runs by the executor."""
Plan = Callable[[dict[str, str], FindTrace], Work]
"""From the fields of a query to the work; raises what is wrong with them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    """Of a stream: nothing more to say; or a refusal as the last line; or an exception that nobody expected."""

    refusal: Refusal | None = None
    bug: Exception | None = None


class Streams:
    """All searches of all clients. To be used from the event loop."""

    def __init__(self, background: Background, uploads: Uploads) -> None:
        self._background = background
        self._uploads = uploads
        self._latest: dict[str, _Stream] = {}
        self._all: set[_Stream] = set()

    @property
    def count(self) -> int:
        """Streams that have not ended."""
        return len(self._all)

    async def answer(self, plan: Plan, request: Request) -> Response:
        """The lines of a search as a response.

        Raises:
            KvlabError, RefusedError: there is something wrong before the first line.
        """
        fields = fields_of(request.url.query)
        client = take_client(fields, request.headers.get("x-client"))
        token = fields.get("trace", "none")
        work = plan(fields, self._uploads.find)
        name = None if client is None else f"{client}{request.url.path}"
        if name is not None and name in self._latest:
            message = "a newer request of the same client came before this one was done"
            self._latest[name].end(Refusal(status=CONFLICT, message=message, field="client", value=client))
        upload = None if token == "none" else self._uploads.find(token)
        stream = _Stream(self._background.open(), lambda refusal: refusal if upload is None
                         else refusal.renamed(upload.path, upload.name))  # fmt: skip
        self._all.add(stream)
        if name is not None:
            self._latest[name] = stream

        def close() -> None:
            self._all.discard(stream)
            if name is not None and self._latest.get(name) is stream:
                del self._latest[name]

        return await stream.begin(request, work, close)

    def end(self) -> None:
        """The server is to stop."""
        for stream in tuple(self._all):
            stream.end(Refusal(status=BUSY, message="the server is being stopped"))


class _Stream:
    """One search and its lines."""

    def __init__(self, search: Search, shown: Callable[[Refusal], Refusal]) -> None:
        self._search = search
        self._shown = shown
        self._lines: asyncio.Queue[bytes | _End] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        self.bug: Exception | None = None
        """What nobody expected, and is no business of the client's."""

    async def begin(self, request: Request, work: Work, close: Callable[[], None]) -> Response:
        """The response, once the first line is there. `close` is called when all is over."""
        gone = asyncio.create_task(disconnected(request))
        gone.add_done_callback(lambda _: self.end(None))

        def closed() -> None:
            self._search.stop()
            gone.cancel()
            close()

        threading.Thread(target=self._run, args=(work,), name="kvlab-search", daemon=True).start()
        try:
            first = await self._lines.get()
            if isinstance(first, _End):
                if first.bug is not None:
                    raise first.bug
                if first.refusal is not None:
                    raise RefusedError(self._shown(first.refusal))
        except BaseException:
            closed()
            raise
        return _Response(self, first, closed)

    def end(self, refusal: Refusal | None) -> None:
        """Ends it early; what its thread still says is not sent."""
        self._search.stop()
        self._lines.put_nowait(_End(refusal=refusal))

    def _run(self, work: Work) -> None:
        """The thread's life."""
        end = _End()
        try:
            work(self._emit, self._search.executor)
        except StoppedError:
            return  # who stopped it said why
        except RefusedError as error:
            end = _End(refusal=error.refusal)
        except KvlabError as error:
            end = _End(refusal=refusal_of(error))
        except Exception as error:
            end = _End(bug=error)
        self._put(end)

    def _emit(self, document: Mapping[str, Any]) -> None:
        self._search.check()
        self._put(_line(document))

    def _put(self, item: bytes | _End) -> None:
        try:
            self._loop.call_soon_threadsafe(self._lines.put_nowait, item)
        except RuntimeError:  # the loop has ended, and the search with it
            raise StoppedError from None

    async def lines(self, first: bytes | _End) -> AsyncIterator[bytes]:
        """All lines, the first of which is that one."""
        item: bytes | _End | None = first
        said, due = 0, self._loop.time() + BEAT_S
        while not isinstance(item, _End):
            if item is not None:
                yield item
                item = None
            if self._loop.time() >= due:
                due = self._loop.time() + BEAT_S
                if said != self._search.num_done:
                    said = self._search.num_done
                    yield _line({"progress": {"done": said}})
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(due):
                    item = await self._lines.get()
        if item.refusal is not None:
            yield _line(self._shown(item.refusal).to_dict())
        if item.bug is not None:
            yield _line(Refusal(status=BUG, message=A_BUG).to_dict())
            self.bug = item.bug


class _Response(Response):
    """Sends lines as they come. Whatever happens, the search is over afterwards."""

    def __init__(self, stream: _Stream, first: bytes | _End, close: Callable[[], None]) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "Content-Type": MEDIA_TYPE})
        del self.headers["content-length"]  # nobody knows
        self._stream = stream
        self._first = first
        self._close = close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            async for line in self._stream.lines(self._first):
                await send({"type": "http.response.body", "body": line, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except OSError:
            pass  # nobody is there to read it
        finally:
            self._close()
        if self._stream.bug is not None:
            raise self._stream.bug  # for who runs the server


async def disconnected(request: Request) -> None:
    """Returns when the client has gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _line(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode() + b"\n"

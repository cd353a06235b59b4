"""A real server in a thread of this process, with real workers; and a client for it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import httpx
import pytest
import uvicorn

from kvlab.web.listen import bind
from kvlab.web.pool import Pool
from kvlab.web.server import Server


class Running(uvicorn.Server):
    """A server that says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listens = threading.Event()

    async def startup(self, sockets: object = None) -> None:
        await super().startup(sockets)  # type: ignore[arg-type]
        self.listens.set()


@pytest.fixture(scope="module")
def server() -> Server:
    return Server(pool=Pool(2))


@pytest.fixture(scope="module")
def port(server: Server) -> Iterator[int]:
    listener = bind("127.0.0.1", 0)
    running = Running(uvicorn.Config(server.app(), log_level="critical", ws="none", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=running.run, args=([listener],))
    thread.start()
    assert running.listens.wait(60)
    yield listener.getsockname()[1]
    running.should_exit = True
    thread.join(60)
    assert not thread.is_alive()
    listener.close()


@pytest.fixture(scope="module")
def client(port: int) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        yield client

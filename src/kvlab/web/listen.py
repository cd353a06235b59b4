"""A free port, and the server on it until somebody ends it."""

from __future__ import annotations

import errno
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import uvicorn

from kvlab.errors import OutputError
from kvlab.web.server import Server

_PORTS_TRIED: Final = 50
_MAX_PORT: Final = 65_535
_BACKLOG: Final = 128
_SHUTDOWN_S: Final = 2
_SWITCH_S: Final = 0.001
"""Between threads of this process: one of a search may compute, and must not hold up the answers."""


def serve_forever(host: str, port: int, ready: Callable[[str, int], None]) -> None:
    """See `kvlab.web.serve`."""
    listener = bind(host, port)
    address = f"http://{_shown(host)}:{listener.getsockname()[1]}/"
    labs = Server()
    config = uvicorn.Config(
        labs.app((host,)),
        log_level="error",
        access_log=False,
        server_header=False,
        limit_concurrency=256,
        timeout_graceful_shutdown=_SHUTDOWN_S,
        lifespan="on",
        ws="none",
    )
    server = _LabServer(config, labs, lambda: ready(address, listener.getsockname()[1]))
    sys.setswitchinterval(_SWITCH_S)
    with listener, suppress(KeyboardInterrupt):  # uvicorn ends in good order first, then passes Ctrl-C on
        server.run(sockets=[listener])


class _LabServer(uvicorn.Server):
    """Says when it listens, and does not wait for runs when it is to stop."""

    def __init__(self, config: uvicorn.Config, labs: Server, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._labs = labs
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """See uvicorn."""
        await super().startup(sockets=sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """See uvicorn."""
        self._labs.end()
        await super().shutdown(sockets=sockets)


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens on the port, or on the next one that is free; 0 is any.

    Raises:
        OutputError: none is free, or the host is none of this machine.
    """
    for attempt in range(port, min(port + _PORTS_TRIED, _MAX_PORT + 1)):
        try:
            return socket.create_server((host, attempt), family=_family(host), backlog=_BACKLOG, reuse_port=False)
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise OutputError(f"can't listen on {host}:{attempt}: {error.strerror or error}") from None
    raise OutputError(f"no free port from {port} on: end another server, or name one with --port")


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _shown(host: str) -> str:
    """The host as a browser on this machine reaches it."""
    if host in ("0.0.0.0", ""):
        return "127.0.0.1"
    return "[::1]" if host == "::" else f"[{host}]" if ":" in host else host

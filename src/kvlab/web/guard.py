"""Around every request: whose it may be, and what every answer says of itself."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kvlab.web.errors import FORBIDDEN, MISDIRECTED, Refusal

POLICY: Final = (
    "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?\Z")
_ANYWHERE: Final = ("0.0.0.0", "::", "")


def refused(refusal: Refusal) -> Response:
    """A refusal as a response."""
    headers = {"Cache-Control": "no-store"} | ({"Retry-After": "1"} if refusal.status == 503 else {})
    return Response(refusal.to_json(), refusal.status, headers, "application/json")


class Guard:
    """An ASGI app around the page's.

    A page of another site must not use this server: it can make a browser send requests here, under a name of its own
    that leads to 127.0.0.1 (then Host tells) or from its own origin (then Origin or Sec-Fetch-Site tells).
    """

    def __init__(self, app: ASGIApp, hosts: Iterable[str] = ()) -> None:
        self._app = app
        self._hosts = {"localhost", socket.gethostname().lower(), *(host.lower() for host in hosts)} - {*_ANYWHERE}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        refusal = self._refusal(scope)
        if refusal is None:
            await self._app(scope, receive, guarded)
        else:
            await refused(refusal)(scope, receive, guarded)

    def _refusal(self, scope: Scope) -> Refusal | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if len(headers.getlist("host")) != 1 or not self._is_ours(host):
            message = f"this server answers to {', '.join(sorted(self._hosts))} and to IP addresses, not to that Host"
            return Refusal(status=MISDIRECTED, message=message, field="Host", value=host)
        if not scope["path"].startswith("/api/"):
            return None  # links to the page may be anywhere
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            message = "another site's page may not use this server"
            return Refusal(status=FORBIDDEN, message=message, field="Origin", value=origin)
        site = headers.get("sec-fetch-site", "none")
        if site not in ("none", "same-origin"):
            message = "another site's page may not use this server"
            return Refusal(status=FORBIDDEN, message=message, field="Sec-Fetch-Site", value=site)
        return None

    def _is_ours(self, host: str) -> bool:
        match = _HOST.match(host)
        if match is None:
            return False
        name = match[1].lower().strip("[]").rstrip(".")
        return name in self._hosts or _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True

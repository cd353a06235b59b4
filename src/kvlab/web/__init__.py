"""The labs as a page: what it shows (controls, tiles, payload) and the local server behind it."""

from __future__ import annotations

from collections.abc import Callable


def serve(host: str, port: int, ready: Callable[[str, int], None]) -> None:
    """Serves the labs until Ctrl-C or a TERM signal.

    Args:
        port: the first to try; if it's taken, the next free one.
        ready: called once with the address of the page and the port that it got, as soon as browsers may connect.
    Raises:
        OutputError: no port, or not such a host.
    """
    from kvlab.web.listen import serve_forever  # only who serves needs the server

    serve_forever(host, port, ready)

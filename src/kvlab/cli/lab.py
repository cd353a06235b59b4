"""`kvlab lab`: the labs in the browser, served by this machine for itself."""

from __future__ import annotations

import threading
import webbrowser

import click

from kvlab.errors import OutputError


@click.command()
@click.option("--port", default=8300, show_default=True, type=click.IntRange(0, 65_535), help="0 takes any free one.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; 0.0.0.0 lets others in.")
@click.option("--no-open", is_flag=True, help="Do not open the page in the browser.")
def lab(port: int, host: str, no_open: bool) -> int:
    """Open both labs as one page: move the levers, see the memory, solve the missions.

    The page and everything it needs come from this machine. Ctrl-C ends it.
    """
    try:
        from kvlab.web import serve  # the one place where the command line knows the page
    except ImportError as error:
        raise OutputError(f"the page can't be served: {error}. Install kvlab again, with its dependencies") from None

    def ready(address: str, got: int) -> None:
        if port not in (0, got):
            click.echo(f"port {port} is not free: using {got}")
        click.echo(f"kvlab lab: {address}")
        click.echo("Ctrl-C ends it", err=True)
        if not no_open:
            # a browser may take its time to come up, and some print what nobody asked for
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    serve(host, port, ready)
    click.echo("ended", err=True)
    return 0

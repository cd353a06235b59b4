"""Several clients at once, impatient ones, slow ones and those that break off."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from kvlab.web.server import Server

LONG = "/api/run?lab=preemption-lab&duration_ns=1000 s&request_rate=10&seed="
"""Seconds of work, within the limits."""
SHORT = "/api/run?lab=preemption-lab&duration_ns=2 s&seed="


def eventually(condition: Callable[[], bool]) -> bool:
    """Whether it comes true within a generous time."""
    deadline = time.monotonic() + 60
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@pytest.mark.parametrize("named_by", ["header", "query"])
def test_a_newer_run_of_the_same_client_stops_the_older(client: httpx.Client, server: Server, named_by: str) -> None:
    headers = {"X-Client": f"me-{named_by}"} if named_by == "header" else {}
    suffix = "" if named_by == "header" else f"&client=me-{named_by}"
    with ThreadPoolExecutor() as threads:
        older = threads.submit(client.get, LONG + str(len(named_by)) + suffix, headers=headers)
        assert eventually(lambda: f"me-{named_by}" in server.waiting_clients)
        newer = client.get(SHORT + "1" + suffix, headers=headers)
        assert newer.status_code == 200
        refused = older.result()
    assert refused.status_code == 409
    assert refused.json()["error"]["field"] == "client"
    assert "newer request" in refused.json()["error"]["message"]


def test_a_run_that_is_known_already_stops_the_older_too(client: httpx.Client, server: Server) -> None:
    headers = {"X-Client": "quick"}
    assert client.get(SHORT + "7", headers=headers).status_code == 200
    with ThreadPoolExecutor() as threads:
        older = threads.submit(client.get, LONG + "7", headers=headers)
        assert eventually(lambda: "quick" in server.waiting_clients)
        assert client.get(SHORT + "7", headers=headers).status_code == 200
        assert older.result().status_code == 409


def test_another_client_and_a_click_stop_nothing(client: httpx.Client) -> None:
    with ThreadPoolExecutor() as threads:
        run = threads.submit(client.get, SHORT + "2", headers={"X-Client": "one"})
        others = [
            threads.submit(client.get, SHORT + "3", headers={"X-Client": "two"}),
            threads.submit(client.get, "/api/request?lab=preemption-lab&duration_ns=2 s&id=0&t=1&client=one"),
            threads.submit(client.get, SHORT + "4"),
        ]
        assert [future.result().status_code for future in (run, *others)] == [200] * 4


def test_ten_pages_at_once_all_get_their_newest_run(client: httpx.Client) -> None:
    def page(number: int) -> list[int]:
        name = {"X-Client": f"page-{number}"}
        return [client.get(f"{SHORT}{100 * number + move}", headers=name).status_code for move in range(5)]

    with ThreadPoolExecutor(10) as threads:
        assert list(threads.map(page, range(10))) == [[200] * 5] * 10


def connect(port: int, text: str) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    connection.sendall(text.encode())
    return connection


def test_a_client_that_goes_away_frees_its_worker(client: httpx.Client, port: int) -> None:
    """More of them than workers, each with seconds of work: one that stays is served all the same."""
    gone = [connect(port, f"GET {LONG.replace(' ', '%20')}{seed} HTTP/1.1\r\nHost: localhost\r\n\r\n")
            for seed in range(20, 26)]  # fmt: skip
    time.sleep(0.2)
    for connection in gone:
        connection.close()
    assert client.get(SHORT + "5").status_code == 200


def test_slow_clients_hold_up_nobody(client: httpx.Client, port: int) -> None:
    """Half a request line, half a header, half a body, and a reader that reads nothing."""
    slow = [
        connect(port, "GET /api/la"),
        connect(port, "GET /api/labs HTTP/1.1\r\nHost: loc"),
        connect(port, "POST /api/trace?name=x.csv HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\narrival"),
        connect(port, "GET /api/run?lab=preemption-lab HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    ]
    assert client.get(SHORT + "6").status_code == 200
    assert client.get("/api/labs").status_code == 200
    for connection in slow:
        connection.close()


def test_a_body_that_does_not_come_is_waited_for_only_so_long(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvlab.web.server.UPLOAD_S", 0.05)
    text = "POST /api/trace?name=x.csv HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\narrival"
    with connect(port, text) as connection:
        answer = connection.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'"field": "body"' in answer


def test_a_broken_upload_leaves_the_server_well(client: httpx.Client, port: int) -> None:
    text = "POST /api/trace?name=x.csv HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\narrival_s,"
    for _ in range(5):
        connect(port, text).close()
    assert client.get("/api/labs").status_code == 200


@pytest.mark.parametrize(
    "text",
    [
        "\x00\x01\x02\r\n\r\n",
        "GET /" + "a" * 100_000 + " HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nX: " + "y" * 200_000 + "\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
        "POST /api/trace HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        "POST /api/trace HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
    ids=["binary", "long-line", "long-header", "no-host", "two-hosts", "negative-length", "bad-chunk"],
)
def test_what_is_no_http_is_refused(client: httpx.Client, port: int, text: str) -> None:
    try:
        with connect(port, text) as connection:
            connection.shutdown(socket.SHUT_WR)
            answer = connection.makefile("rb").read()
    except OSError:  # the server did not read on
        answer = b""
    assert answer == b"" or answer.split(b" ")[1][:1] == b"4"
    assert b"Traceback" not in answer
    assert client.get("/api/labs").status_code == 200


def test_threads_do_not_pile_up(client: httpx.Client) -> None:
    before = threading.active_count()
    for seed in range(20):
        client.get(f"{SHORT}{1000 + seed}")
    assert eventually(lambda: threading.active_count() <= before + 1)

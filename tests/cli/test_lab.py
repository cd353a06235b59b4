"""`kvlab lab` as a user starts and ends it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kvlab.cli import execute
from kvlab.errors import OutputError
from kvlab.web.listen import bind


@contextmanager
def lab(*options: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """The process, once it serves, and the lines that it has printed."""
    command = [sys.executable, "-m", "kvlab", "lab", "--no-open", *options]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    lines = []
    try:
        for line in process.stdout:
            lines.append(line.strip())
            if line.startswith("kvlab lab: "):
                break
        yield process, lines
    finally:
        process.terminate()
        process.communicate()


SLOW = (
    "GET /api/run?lab=preemption-lab&duration_ns=1000%20s&request_rate=10 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "POST /api/trace?name=x.csv HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\narrival",
)


def children_of(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="needs /proc to see the workers")
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_it_is_ended(end: signal.Signals) -> None:
    with lab("--port", "0") as (process, lines):
        address = lines[-1].removeprefix("kvlab lab: ")
        with urllib.request.urlopen(address + "api/labs", timeout=60) as answer:
            assert set(json.load(answer)["labs"]) == {"preemption-lab", "block-table-lab", "vllm-v1"}
        workers = children_of(process.pid)
        assert len(workers) >= 2
        # a run that takes seconds, and a file that never comes whole
        host, port = address.split("/")[2].split(":")
        slow = [socket.create_connection((host, int(port))) for _ in SLOW]
        for connection, text in zip(slow, SLOW, strict=True):
            connection.sendall(text.encode())
        urllib.request.urlopen(address, timeout=60).close()  # they have been read by now
        process.send_signal(end)
        _, errors = process.communicate(timeout=60)
        assert "Traceback" not in errors
        assert process.returncode == (0 if end == signal.SIGINT else -signal.SIGTERM)
        if end == signal.SIGINT:
            assert errors.splitlines()[-1] == "ended"
        assert not any(map(is_alive, workers))
        for connection in slow:
            assert connection.makefile("rb").readline() == b"HTTP/1.1 503 Service Unavailable\r\n"
            connection.close()


def test_a_port_that_is_taken_is_passed_over_aloud() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with lab("--port", str(port)) as (_, lines):
            assert lines[0].startswith(f"port {port} is not free: using ")
            got = int(lines[0].rsplit(" ", 1)[1])
            assert got > port
            assert lines[1] == f"kvlab lab: http://127.0.0.1:{got}/"


def test_no_such_host(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["lab", "--host", "no.such.host.invalid"]) == 2
    assert capsys.readouterr().err.startswith("kvlab: error: can't listen on no.such.host.invalid:8300")
    assert execute(["lab", "--port", "70000"]) == 2
    assert "--port" in capsys.readouterr().err


def test_no_free_port() -> None:
    with bind("127.0.0.1", 65_535), pytest.raises(OutputError, match="no free port from 65535 on"):
        bind("127.0.0.1", 65_535)


def test_ports_after_the_first() -> None:
    with bind("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with bind("127.0.0.1", port) as second:
            assert second.getsockname()[1] > port

"""Traces dropped on the page: read whole on arrival, then run under a token."""

from __future__ import annotations

import gzip
import json
import socket
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import httpx
import pytest
from tests.web.decode import decode

import kvlab
from kvlab.web import uploads as uploads_module
from kvlab.web.errors import RefusedError
from kvlab.web.limits import MAX_UPLOAD_BYTES
from kvlab.web.uploads import Uploads

ROWS = [(0.0, 500, 20), (0.5, 700, 30), (1.25, 90, 4)]
CSV = "arrival_s,prompt_tokens,output_tokens\n" + "".join(f"{t},{p},{o}\n" for t, p, o in ROWS)


def upload(client: httpx.Client, body: bytes | str, query: str = "name=x.csv") -> str:
    response = client.post(f"/api/trace?{query}", content=body)
    assert response.status_code == 200, response.text
    return str(response.json()["trace"])


def test_a_dropped_trace_is_described_and_run(client: httpx.Client, tmp_path: Path) -> None:
    response = client.post("/api/trace?name=my%20traffic.csv", content=CSV)
    found = response.json()
    assert (found["requests"], found["format"], found["name"]) == (3, "csv", "my traffic.csv")
    assert found["describe"]["prompt_tokens"]["max"] == 700
    payload = decode(client.get(f"/api/run?lab=preemption-lab&trace={found['trace']}").content)
    assert payload.header["changes"] == {"trace": found["trace"]}
    assert payload.header["accounting"] == "3 arrived = 3 finished + 0 rejected"
    assert payload.header["command"] == "kvlab run preemption-lab --trace 'my traffic.csv'"
    assert payload.header["window_s"] is None
    file = tmp_path / "trace.csv"
    file.write_text(CSV)
    run = kvlab.simulate(kvlab.scenario("preemption-lab", trace=str(file)))
    assert payload.header["end_s"] == run.record.totals.end_ns / 1e9
    throughput = payload.header["tiles"]["throughput_in_window_tokens_per_s"]["value"]
    assert throughput == pytest.approx(float(run.metrics.throughput_tokens_per_s or 0))


def test_the_path_on_the_server_is_nobodys_business(client: httpx.Client) -> None:
    token = upload(client, CSV)
    for path in ("run?", "scenario?", "request?id=0&t=1&"):
        answer = client.get(f"/api/{path}lab=block-table-lab&trace={token}")
        assert answer.status_code == 200
        assert b"kvlab-traces-" not in answer.content
    long = CSV.replace(",30\n", ",3000\n")
    answer = client.get(f"/api/run?lab=block-table-lab&trace={upload(client, long, 'name=long.csv')}")
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["value"] == 3000
    assert error["message"].startswith("long.csv, line 3: ")


@pytest.mark.parametrize(
    ("body", "query", "words"),
    [
        (CSV.replace("0.5", "x"), "name=x.csv", ["x.csv, line 3", '"x"']),
        (CSV.replace("700", "-1"), "name=x.csv", ["x.csv, line 3", "-1"]),
        (CSV.replace("700", "NaN"), "name=x.csv", ["line 3", "NaN"]),
        (CSV.replace("1.25", "0.25"), "name=x.csv", ["line 4", "before the row above"]),
        ("", "name=empty.csv", ["empty.csv", "empty"]),
        ("\0\1\2" * 100, "name=x.bin", ["no trace of a known format"]),
        (CSV.replace("prompt_tokens", "promt_tokens"), "name=x.csv", ['did you mean "promt_tokens"']),
        (gzip.compress(CSV.encode())[:-12], "name=cut.csv.gz", ["cut.csv.gz", "ends too early"]),
        (b"\x1f\x8b\x08" + b"x" * 50, "name=bad.gz", ["bad.gz", "gzip"]),
        ("{}", "name=x.json&format=vllm-bench", ["x.json"]),
        (CSV, "name=../../x.csv&format=azure", ["x.csv"]),
    ],
)
def test_what_is_no_trace_is_refused_with_its_line(
    client: httpx.Client, body: bytes | str, query: str, words: list[str]
) -> None:
    response = client.post(f"/api/trace?{query}", content=body)
    assert response.status_code == 400
    error = response.json()["error"]
    assert [word for word in words if word not in error["message"]] == []
    assert "kvlab-traces-" not in error["message"]


def test_gzip_is_unpacked_and_the_same_file_has_the_same_token(client: httpx.Client) -> None:
    token = upload(client, gzip.compress(CSV.encode(), mtime=0), "name=x.csv.gz")
    assert token == upload(client, gzip.compress(CSV.encode(), mtime=0), "name=other.csv.gz")
    assert token != upload(client, CSV)
    header = decode(client.get(f"/api/run?lab=preemption-lab&trace={token}").content).header
    assert header["accounting"].startswith("3 arrived")


def test_a_named_format_stays_with_the_trace(client: httpx.Client) -> None:
    names = ("timestamp", "input_length", "output_length", "hash_ids")
    rows = "".join(json.dumps(dict(zip(names, (int(t * 1000), p, o, []), strict=True))) + "\n" for t, p, o in ROWS)
    token = upload(client, rows, "name=m.jsonl&format=mooncake")
    header = decode(client.get(f"/api/run?lab=preemption-lab&trace={token}").content).header
    assert header["changes"] == {"trace": token, "trace_format": "mooncake"}
    assert upload(client, rows, "name=m.jsonl") != token


def test_unknown_fields_and_formats(client: httpx.Client) -> None:
    response = client.post("/api/trace?name=x.csv&fromat=csv", content=CSV)
    assert response.status_code == 400
    assert response.json()["error"]["field"] == "fromat"
    response = client.post("/api/trace?format=xml", content=CSV)
    assert response.status_code == 400
    assert response.json()["error"]["field"] == "format"


def test_a_large_file_is_refused(client: httpx.Client) -> None:
    def body() -> Iterator[bytes]:
        for _ in range(100):
            yield b"x" * 2**20

    response = client.post("/api/trace?name=big.csv", content=body())
    assert response.status_code == 413
    error = response.json()["error"]
    assert (error["field"], error["value"], error["limit"]) == ("body", 100 * 2**20, MAX_UPLOAD_BYTES)


def test_a_huge_file_is_refused_before_it_comes(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        head = f"POST /api/trace?name=huge.csv HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {2**40}\r\n\r\n"
        connection.sendall(head.encode() + b"arrival_s")
        answer = connection.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b'"value": 1099511627776, "limit": 33554432' in answer


def test_a_gzip_bomb_is_refused(client: httpx.Client) -> None:
    bomb = gzip.compress(b"arrival_s,prompt_tokens,output_tokens\n" + b"\n" * (129 * 2**20), 1)
    assert len(bomb) < 2**20
    response = client.post("/api/trace?name=bomb.csv.gz", content=bomb)
    assert response.status_code == 413
    assert response.json()["error"]["limit"] == 128 * 2**20


def test_too_many_rows_and_too_long_runs_say_what_to_do(client: httpx.Client) -> None:
    rows = "arrival_s,prompt_tokens,output_tokens\n" + "".join(f"{n / 1000},1,1\n" for n in range(25_000))
    token = upload(client, rows)
    response = client.get(f"/api/run?lab=preemption-lab&trace={token}")
    assert response.status_code == 413
    error = response.json()["error"]
    assert (error["field"], error["value"], error["limit"]) == ("num_requests", 20_001, 20_000)
    assert "trace_until_ns" in error["message"]
    response = client.get(f"/api/run?lab=preemption-lab&trace={token}&trace_until_ns=1 s")
    assert response.status_code == 200
    assert decode(response.content).header["accounting"].startswith("1,000 arrived")


def test_old_files_make_room(tmp_path: Path) -> None:
    async def body(text: str) -> AsyncIterator[bytes]:
        yield text.encode()

    async def fill(uploads: Uploads) -> list[str]:
        tokens = []
        for number in range(20):
            upload = await uploads.receive(body(str(number)), "x", None)
            uploads.keep(upload)
            tokens.append(upload.token)
        return tokens

    uploads = Uploads()
    tokens = anyio.run(fill, uploads)
    folder = Path(uploads.find(tokens[-1]).path).parent
    assert len(list(folder.iterdir())) == 16
    assert Path(uploads.find(tokens[-1]).path).read_text() == "19"
    with pytest.raises(RefusedError, match="drop the file on the page again"):
        uploads.find(tokens[0])
    uploads.close()
    assert not folder.exists()


def test_a_broken_upload_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body() -> AsyncIterator[bytes]:
        yield b"x" * 1000
        raise ConnectionError

    uploads = Uploads()

    async def receive() -> None:
        with pytest.raises(ConnectionError):
            await uploads.receive(body(), "x", None)

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    anyio.run(receive)
    (folder,) = tmp_path.iterdir()
    assert list(folder.iterdir()) == []
    uploads.close()
    assert not folder.exists()


def test_names_of_files_are_only_shown() -> None:
    assert uploads_module._plain_name("../../etc/passwd") == "passwd"
    assert uploads_module._plain_name("C:\\traces\\a.csv") == "a.csv"
    assert uploads_module._plain_name("a\nb\x1b[31m.csv") == "ab[31m.csv"
    assert uploads_module._plain_name("///") == "trace"

"""Whose requests are answered, and what every answer says of itself."""

from __future__ import annotations

import socket

import anyio
import httpx
import pytest
from starlette.types import Receive, Scope, Send

from kvlab.web.guard import Guard


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:8300", "127.0.0.1", "localhost:8300", "LOCALHOST", "[::1]:8300", "192.168.1.20:8300", "localhost.:1",
     socket.gethostname()],
)  # fmt: skip
def test_own_hosts_are_answered(client: httpx.Client, host: str) -> None:
    assert client.get("/api/labs", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8300", "127.0.0.1.evil.example", "localhost.evil.example", "", "127.0.0.1:8300:1",
     "127.0.0.1@evil.example", "[::1", "1.2.3.4.5", "127.0.0.1/../x"],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/", "/api/labs", "/api/run?lab=preemption-lab"])
def test_other_hosts_are_misdirected(client: httpx.Client, host: str, path: str) -> None:
    response = client.get(path, headers={"Host": host})
    assert response.status_code == 421
    error = response.json()["error"]
    assert (error["field"], error["value"]) == ("Host", host)
    assert "localhost" in error["message"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://127.0.0.1:8300"}, 200),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:9999"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
    ],
)
def test_pages_of_other_sites_get_nothing(client: httpx.Client, headers: dict[str, str], status: int) -> None:
    headers = {"Host": "127.0.0.1:8300", **headers}
    assert client.get("/api/labs", headers=headers).status_code == status
    assert client.post("/api/trace", content=b"", headers=headers).status_code == (400 if status == 200 else 403)


def test_a_link_to_the_page_may_stand_anywhere(client: httpx.Client) -> None:
    assert client.get("/?max_num_seqs=48", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 200


@pytest.mark.parametrize("path", ["/", "/api/labs", "/nothing", "/api/run?lab=x"])
def test_every_answer_has_the_policy(client: httpx.Client, path: str) -> None:
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'self';")
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"


def test_names_given_to_the_server_are_answered() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    guard = Guard(app, ("lab.example", "0.0.0.0"))

    async def status(host: str) -> int:
        transport = httpx.ASGITransport(guard)
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}") as client:
            return (await client.get("/")).status_code

    assert anyio.run(status, "lab.example:80") == 204
    assert anyio.run(status, "other.example") == 421
    assert anyio.run(status, "0.0.0.0") == 204  # an address, as any other

"""What the server answers: runs, details, scenarios, files; and what it refuses, always as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from tests.web.decode import decode

import kvlab
from kvlab.setting_table import PAGE_RULES
from kvlab.web.assets import Assets
from kvlab.web.payload import encode
from kvlab.web.verdicts import verdicts

SHORT = "duration_ns=5 s"


def refused(client: httpx.Client, path: str, status: int) -> dict[str, Any]:
    response = client.get(path)
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    error = response.json()["error"]
    assert set(error) == {"field", "value", "limit", "message"}
    assert error["message"]
    assert "Traceback" not in response.text
    return dict(error)


@pytest.mark.parametrize("lab", PAGE_RULES)
def test_a_run_is_the_payload_of_its_scenario(client: httpx.Client, lab: str) -> None:
    response = client.get(f"/api/run?lab={lab}&{SHORT}&max_num_seqs=8")
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/octet-stream"
    scenario = kvlab.scenario(lab, duration_ns="5 s", max_num_seqs=8)
    run = kvlab.simulate(scenario)
    assert response.content == encode(run, scenario, verdicts(scenario, run.metrics))
    header = decode(response.content).header
    assert header["changes"] == {"duration_ns": "5 s", "max_num_seqs": "8"}
    assert set(header["missions"]) == {card["id"] for card in client.get("/api/labs").json()["labs"][lab]["missions"]}


def test_the_same_setup_written_otherwise_is_the_same_run(client: httpx.Client) -> None:
    one = client.get(f"/api/run?lab=preemption-lab&{SHORT}&gpu_memory_utilization=90 %25&max_num_seqs=16")
    other = client.get("/api/run?max_num_seqs=1_6&gpu_memory_utilization=0.900&duration_ns=5000 ms&lab=preemption-lab")
    assert one.status_code == other.status_code == 200
    assert one.content == other.content
    assert "gpu_memory_utilization" not in decode(one.content).header["changes"]


def test_the_preset_is_sent_compressed_to_who_takes_it(client: httpx.Client) -> None:
    plain = client.get("/api/run?lab=preemption-lab", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    packed = client.get("/api/run?lab=preemption-lab", headers={"Accept-Encoding": "gzip"})
    assert packed.content == plain.content
    assert decode(plain.content).header["story"]


@pytest.mark.parametrize(
    ("accepts", "packed"),
    [
        ("gzip", True),
        ("br, gzip;q=0.5", True),
        ("gzip;q=0", False),
        ("gzip; q=0.0, br", False),
        ("br", False),
        ("", False),
    ],
)
def test_compression_is_up_to_the_client(client: httpx.Client, accepts: str, packed: bool) -> None:
    response = client.get("/api/labs", headers={"Accept-Encoding": accepts})
    assert (response.headers.get("content-encoding") == "gzip") == packed
    assert response.json()["version"] == 1


def test_the_tables_of_the_labs(client: httpx.Client) -> None:
    response = client.get("/api/labs")
    assert response.headers["content-type"] == "application/json"
    assert set(response.json()["labs"]) == set(PAGE_RULES)
    again = client.get("/api/labs", headers={"If-None-Match": response.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_a_scenario_is_a_file_that_kvlab_reads(client: httpx.Client) -> None:
    response = client.get("/api/scenario?lab=block-table-lab&kv_memory_bytes=2 GiB&client=me")
    assert response.headers["content-disposition"] == 'attachment; filename="kvlab-block-table-lab.json"'
    expected = kvlab.scenario("block-table-lab", kv_memory_bytes="2 GiB")
    assert kvlab.Scenario.from_json(response.text) == expected


@pytest.mark.parametrize(
    ("query", "status", "field", "value"),
    [
        ("", 400, "lab", ""),
        ("lab=other-lab", 400, "lab", "other-lab"),
        ("lab=preemption-lab&max_num_seq=3", 400, "setting", "max_num_seq"),
        ("lab=preemption-lab&allocator=paged", 400, "allocator", "paged"),
        ("lab=preemption-lab&name=mine", 400, "setting", "name"),
        ("lab=preemption-lab&max_num_seqs=NaN", 400, "max_num_seqs", "NaN"),
        ("lab=preemption-lab&request_rate=inf", 400, "request_rate", "inf"),
        ("lab=preemption-lab&request_rate=1e999999", 400, "request_rate", "1e999999"),
        ("lab=preemption-lab&request_rate=-1", 400, "request_rate", "-1"),
        ("lab=preemption-lab&max_num_seqs=", 400, "max_num_seqs", ""),
        ("lab=preemption-lab&max_num_seqs=1.5", 400, "max_num_seqs", "1.5"),
        ("lab=preemption-lab&max_num_seqs=48&max_num_seqs=49", 400, "max_num_seqs", "49"),
        ("lab=preemption-lab&preemption_mode=swop", 400, "preemption_mode", "swop"),
        ("lab=preemption-lab&gpu_memory_utilization=0.3", 400, "gpu_memory_utilization", "0.3"),
        ("lab=preemption-lab&prompt_tokens=empirical(/etc/passwd, x)", 400, "prompt_tokens", None),
        ("lab=block-table-lab&output_tokens=empirical(/dev/zero, x)", 400, "output_tokens", None),
        ("lab=preemption-lab&arrivals=closed-loop", 400, "max_concurrency", None),
        ("lab=preemption-lab&slo=ttft", 400, "slo", "ttft"),
        ("lab=preemption-lab&request_rate=%ff", 400, "query", None),
        ("lab=preemption-lab&client=" + "x" * 65, 400, "client", "x" * 65),
        ("lab=preemption-lab&client=<script>", 400, "client", "<script>"),
        ("lab=preemption-lab&request_rate=1000", 413, "request_rate", 120_000),
        ("lab=preemption-lab&num_requests=1000000", 413, "num_requests", 1_000_000),
        ("lab=preemption-lab&duration_ns=87600 h", 400, "request_rate", "3.6"),
        ("lab=preemption-lab&duration_ns=3600 h", 413, "request_rate", 46_656_000),
        ("lab=block-table-lab&num_samples=1024", 413, "num_samples", 491_520),
        ("lab=block-table-lab&kv_memory_bytes=1 TiB", 413, "kv_memory_bytes", 524_288),
        ("lab=preemption-lab&swap_space_bytes=1 TiB&block_size=1", 413, "swap_space_bytes", 2_097_152),
        ("lab=preemption-lab&gpu_memory_bytes=1024 TiB", 400, "gpu_memory_bytes", "1024 TiB"),
        ("lab=preemption-lab&trace=../../etc/passwd", 404, "trace", "../../etc/passwd"),
        ("lab=preemption-lab&trace=/etc/passwd", 404, "trace", "/etc/passwd"),
        ("lab=preemption-lab&trace=0123456789abcdef01234567", 404, "trace", "0123456789abcdef01234567"),
        ("lab=preemption-lab&trace=", 404, "trace", ""),
        ("lab=preemption-lab&output_tokens=10000000", 413, "output_tokens", 10_000_000),
        ("lab=preemption-lab&output_tokens=1500&prompt_tokens=1&max_num_seqs=1", 413, "duration_ns", None),
        ("lab=preemption-lab&prompt_tokens=50000&prefill_budget_tokens=1", 413, "duration_ns", None),
        ("lab=preemption-lab&arrivals=closed-loop&max_concurrency=100&output_tokens=1&prompt_tokens=1"
         "&duration_ns=1000 s", 413, "num_requests", 20_001),
        ("lab=vllm-v1&model=/etc/passwd", 400, "model", "/etc/passwd"),
        ("lab=vllm-v1&model=.", 400, "model", "."),
        ("lab=vllm-v1&step_time=/etc/passwd", 400, "step_time", "/etc/passwd"),
        ("lab=vllm-v1&step_time=here.json", 400, "step_time", "here.json"),
        ("lab=vllm-v1&step_time=quick", 400, None, None),
        ("lab=vllm-v1&gpu=abacus", 400, "gpu", "abacus"),
        ("lab=vllm-v1&model=meta-llama/Llama-3.1-405B", 400, "max_model_len", 16384),
        ("lab=vllm-v1&gpu_memory_utilization=0.8&num_gpu_blocks_override=5000", 400, "gpu_memory_utilization", "0.8"),
        ("lab=vllm-v1&gpu=B300-SXM-288GB&block_size=1", 413, "block_size", None),
        ("lab=vllm-v0", 400, "lab", "vllm-v0"),
    ],
)  # fmt: skip
def test_hostile_runs(client: httpx.Client, query: str, status: int, field: str | None, value: object) -> None:
    for path in ("/api/run?", "/api/request?id=0&t=0&"):
        error = refused(client, path + query, status)
        assert field is None or error["field"] == field
        if value is not None:
            assert error["value"] == value
        if status == 413:
            assert error["limit"] > 0


def test_the_memory_of_a_server_that_would_not_start(client: httpx.Client) -> None:
    answer = client.get("/api/memory?lab=vllm-v1&model=meta-llama/Llama-3.1-70B").json()
    parts = {part["name"]: part["bytes"] for part in answer["parts"]}
    assert parts["weights"] > answer["total_bytes"]
    assert parts["kv"] == parts["free"] == 0
    assert client.get("/api/memory?lab=preemption-lab").json() is None
    assert refused(client, "/api/memory?lab=vllm-v1&model=/etc/passwd", 400)["field"] == "model"


def test_a_pasted_command_is_a_setup(client: httpx.Client) -> None:
    query = {"text": "vllm serve Qwen/Qwen3-8B --max-num-seqs 32 --port 8000", "gpu": "A100-SXM-80GB"}
    answer = client.get("/api/command", params=query).json()
    assert answer["changes"] == {
        "model": "Qwen/Qwen3-8B", "gpu": "A100-SXM-80GB", "max_model_len": "none", "max_num_seqs": "32",
    }  # fmt: skip
    assert [each["from"] for each in answer["ignored"]] == ["--port"]
    assert (
        client.get("/api/run", params={"lab": "vllm-v1", "duration_ns": "5 s", **answer["changes"]}).status_code == 200
    )


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("", "command"),
        ("text=rm -rf /", "command"),
        ("text=vllm serve /etc/passwd&gpu=H100", "model"),
        ("text=vllm serve Qwen/Qwen3-8B&gpu=abacus", "gpu"),
        ("text=vllm serve Qwen/Qwen3-8B --no-such-flag&gpu=H100-SXM-80GB", "command"),
        ("text=vllm serve Qwen/Qwen3-8B&gpu=H100-SXM-80GB&more=1", "more"),
    ],
)
def test_hostile_commands(client: httpx.Client, query: str, field: str) -> None:
    error = refused(client, "/api/command?" + query, 400)
    assert field in (error["field"] or error["message"])


def test_a_refusal_names_the_bounds_and_the_nearest_name(client: httpx.Client) -> None:
    error = refused(client, "/api/run?lab=preemption-lab&max_num_seqs=0", 400)
    assert error["limit"] == "at least 1, at most 1000000"
    error = refused(client, "/api/run?lab=preemption-lab&max_num_seq=3", 400)
    assert 'did you mean "max_num_seqs"' in error["message"]
    error = refused(client, "/api/run?lab=preemption-lab&kv_cache_dtype=fp4", 400)
    assert error["limit"] == "auto, fp8"


def test_long_values_are_cut_in_answers(client: httpx.Client) -> None:
    error = refused(client, "/api/run?lab=preemption-lab&slo=" + "x" * 5_000, 400)
    assert len(error["value"]) <= 120
    assert len(error["message"]) <= 1_000


def test_a_very_long_link_is_refused(client: httpx.Client) -> None:
    error = refused(client, "/api/run?lab=preemption-lab&slo=" + "x" * 9_000, 414)
    assert (error["field"], error["limit"]) == ("query", 8_192)
    error = refused(client, "/api/run?" + "&".join(f"a{number}=1" for number in range(500)), 400)
    assert error["field"] == "query"


def test_one_request_at_a_moment(client: httpx.Client) -> None:
    query = urlencode({"lab": "preemption-lab", "duration_ns": "30 s", "id": 17, "t": 12.5})
    found = client.get(f"/api/request?{query}").json()
    run = kvlab.simulate(kvlab.scenario("preemption-lab", duration_ns="30 s"))
    memory = run.memory_at(t_ns=12_500_000_000)
    (table,) = found["tables"]
    assert sorted(table["blocks"]) == [block for block, owner in enumerate(memory.owner.tolist()) if owner == 17]
    assert table["shared"] == [False] * len(table["blocks"])
    assert found["prompt_tokens"] == run.record.requests[17].prompt_tokens
    assert found["state"] == "decode"
    times = [event["t"] for event in found["events"]]
    assert times[0] == found["arrival_s"] == run.record.requests[17].arrival_ns / 1e9
    assert times == sorted(times)


def tables_after_admission(client: httpx.Client, settings: dict[str, str]) -> list[dict[str, Any]]:
    run = kvlab.simulate(kvlab.scenario("block-table-lab", **settings))
    admitted_ns = run.record.requests[2].admitted_ns
    assert admitted_ns is not None
    query = urlencode({"lab": "block-table-lab", **settings, "id": 2, "t": admitted_ns / 1e9 + 1e-6})
    tables = client.get(f"/api/request?{query}").json()["tables"]
    assert isinstance(tables, list)
    return tables


def test_the_samples_of_a_request_share_its_prompt(client: httpx.Client) -> None:
    tables = tables_after_admission(client, {"duration_ns": "5 s", "num_samples": "3"})
    assert [table["sample"] for table in tables] == [0, 1, 2]
    shared = [[b for b, is_shared in zip(t["blocks"], t["shared"], strict=True) if is_shared] for t in tables]
    assert shared[0] == shared[1] == shared[2] != []
    own = [set(table["blocks"]) - set(shared[0]) for table in tables]
    assert not own[0] & own[1]


def test_a_request_in_contiguous_memory_has_a_segment(client: httpx.Client) -> None:
    (table,) = tables_after_admission(client, {"duration_ns": "5 s", "allocator": "contiguous"})
    assert table["blocks"] == []
    assert 0 < table["segment"]["used"] < table["segment"]["reserved"]


def test_states_of_a_request_over_its_life(client: httpx.Client) -> None:
    setup = {
        "lab": "preemption-lab",
        "duration_ns": "20 s",
        "gpu_memory_utilization": "0.42",
        "preemption_mode": "swap",
    }
    run = kvlab.simulate(kvlab.scenario(setup["lab"], **{k: v for k, v in setup.items() if k != "lab"}))
    request = next(request for request in run.record.requests if request.swap_outs)
    (start_ns, end_ns) = next(
        (run.record.steps[stay.start_step].t_ns, run.record.steps[stay.end_step - 1].t_ns)
        for stay in run.record.stays
        if stay.on_cpu and stay.request_id == request.id
    )

    def at(t_ns: float) -> Any:
        return client.get("/api/request?" + urlencode(setup | {"id": request.id, "t": t_ns / 1e9})).json()

    assert request.finish_ns is not None
    swapped = at((start_ns + end_ns) / 2)
    assert swapped["state"] == "swapped"
    assert swapped["cpu_blocks"]
    assert swapped["tables"] == []
    assert any("copied to the CPU" in event["text"] for event in swapped["events"])
    assert any("copied back" in event["text"] for event in swapped["events"])
    assert at(0)["state"] == "not arrived"
    assert at(request.finish_ns + 10**9)["state"] == "finished"


def test_a_rejected_request_says_so(client: httpx.Client) -> None:
    setup = {"lab": "preemption-lab", "duration_ns": "5 s", "gpu_memory_utilization": "0.33"}
    run = kvlab.simulate(kvlab.scenario("preemption-lab", duration_ns="5 s", gpu_memory_utilization="0.33"))
    query = urlencode(setup | {"id": run.record.rejected[0], "t": 5})
    found = client.get(f"/api/request?{query}").json()
    assert found["state"] == "rejected"
    assert "could never fit" in found["events"][-1]["text"]


@pytest.mark.parametrize(
    ("fields", "status", "field"),
    [
        ("id=0", 400, "t"),
        ("t=1", 400, "id"),
        ("id=-1&t=0", 400, "id"),
        ("id=1.5&t=0", 400, "id"),
        ("id=99999999999&t=0", 400, "id"),
        ("id=0&t=nan", 400, "t"),
        ("id=0&t=-1", 400, "t"),
        ("id=0&t=1e300", 400, "t"),
        ("id=0&t=soon", 400, "t"),
        ("id=1000000&t=0", 404, "id"),
    ],
)
def test_no_such_moment(client: httpx.Client, fields: str, status: int, field: str) -> None:
    error = refused(client, f"/api/request?lab=preemption-lab&{SHORT}&{fields}", status)
    assert error["field"] == field


@pytest.mark.parametrize(
    "path",
    [
        "/nothing.js",
        "/api/nothing",
        "/..%2f..%2fetc/passwd",
        "/static/..%2f..%2fserver.py",
        "/static/%2e%2e/server.py",
        "/static/%2e%2e%2fserver.py",
        "/static//etc/passwd",
        "/static/index.html%00.js",
        "/server.py",
        "/static/../server.py",
        "/static/.hidden.js",
        "/static/",
        "/static/a\\..\\b.js",
    ],
)
def test_only_the_files_of_the_page_are_served(client: httpx.Client, path: str) -> None:
    error = refused(client, path, 404)
    assert error["field"] == "path"


@pytest.mark.parametrize("path", ["/api/run", "/api/labs", "/", "/index.html"])
def test_other_methods_are_refused_as_json(client: httpx.Client, path: str) -> None:
    response = client.post(path)
    assert response.status_code == 405
    assert response.json()["error"]["message"] == "Method Not Allowed"
    assert "GET" in response.headers["allow"]


def test_the_page_and_its_files(client: httpx.Client) -> None:
    page = client.get("/")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    for name in ("style.css", "static/style.css"):
        style = client.get("/" + name)
        assert style.headers["content-type"].startswith("text/css")
        assert style.headers["cache-control"] == "no-cache"
        again = client.get("/" + name, headers={"If-None-Match": style.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "a.js"
    file.write_text("one")
    assets = Assets(tmp_path)
    first = assets.find("a.js")
    assert first is not None
    assert first.data == b"one"
    assert assets.find("a.js") is first
    file.write_text("three")
    second = assets.find("a.js")
    assert second is not None
    assert second.data == b"three"
    assert second.etag != first.etag
    file.unlink()
    assert assets.find("a.js") is None


def test_a_bug_is_no_traceback(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvlab.web.server.fields_of", lambda query: 1 / 0)
    response = client.get("/api/run?lab=preemption-lab")
    assert response.status_code == 500
    assert response.json()["error"]["message"] == "this is a bug in kvlab: the server's terminal shows where"
    assert "default-src 'self'" in response.headers["content-security-policy"]
    assert json.loads(response.text)

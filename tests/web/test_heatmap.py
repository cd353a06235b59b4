"""The grid of two knobs: which setups it has, in which order, and that its figures are those of the page."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from tests.web.decode import decode
from tests.web.test_server import refused

from kvlab.errors import UnknownNameError
from kvlab.missions import MISSIONS, Mission
from kvlab.setting_table import PAGE_RULES
from kvlab.sweeps.outcome import Outcome
from kvlab.sweeps.workers import Task
from kvlab.web.controls import CONTROLS, base
from kvlab.web.heatmap import MOST_CELLS, MOST_COLUMNS, MOST_ROWS, Heatmap, heatmap_of, knobs_of
from kvlab.web.server import Server
from kvlab.web.uploads import Uploads

SHORT = {"duration_ns": "5 s"}
NO_TRACE = Uploads().find
TRACE = b"arrival_s,prompt_tokens,output_tokens\n" + b"".join(b"%g,300,40\n" % (n / 20) for n in range(60))


def lines_of(client: httpx.Client, **fields: str) -> list[dict[str, Any]]:
    response = client.get("/api/heatmap", params=fields)
    assert response.status_code == 200, response.text
    lines = [json.loads(line) for line in response.text.splitlines()]
    return [line for line in lines if "progress" not in line]


def filled(heatmap: Heatmap) -> tuple[list[dict[str, Any]], list[Task]]:
    """What is said of a grid whose runs are none, and what it would have run."""
    said: list[Any] = []
    tasks: list[Task] = []

    def executor(asked: Any) -> Iterator[tuple[int, Outcome]]:
        for task in asked:
            tasks.append(task)
            yield task[0], Outcome(metrics=None, error="not run")

    heatmap.fill(said.append, executor)
    return said, tasks


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ({}, (["0.5", "2.6", "3.3", "3.6", "4", "4.8", "8"], 3)),
        ({"request_rate": "0.5"}, (["0.5", "0.7", "0.9", "1.4", "2.3", "4.2", "8"], 0)),
        ({"request_rate": "3.65"}, (["0.5", "2.7", "3.4", "3.65", "4", "4.8", "8"], 3)),
        ({"request_rate": "20"}, (["0.5", "4.4", "6.3", "7.2", "7.7", "7.9", "20"], 6)),
    ],
)  # fmt: skip
def test_values_are_denser_around_the_present_one(now: dict[str, str], expected: tuple[list[str], int]) -> None:
    fields = {"lab": "preemption-lab", **now, "x": "max_num_seqs", "y": "request_rate"}
    axis = heatmap_of(fields, NO_TRACE).y
    assert (list(axis.values), axis.here) == expected


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ({}, (["512", "1024", "none", "4096", "8192", "16384", "32768"], 2)),
        ({"max_num_batched_tokens": "2048"}, (["512", "1024", "2048", "4096", "8192", "16384", "32768"], 2)),
        ({"max_num_batched_tokens": "3000"}, (["512", "1024", "none", "3000", "8192", "16384", "32768"], 3)),
    ],
)
def test_the_default_of_the_engine_stands_among_the_numbers_once(
    now: dict[str, str], expected: tuple[list[str], int]
) -> None:
    fields = {"lab": "vllm-v1", **now, "x": "request_rate", "y": "max_num_batched_tokens"}
    axis = heatmap_of(fields, NO_TRACE).y
    assert (list(axis.values), axis.here) == expected
    if "none" in axis.values:
        assert axis.shown[axis.values.index("none")] == "2048, default"


@pytest.mark.parametrize("lab", PAGE_RULES)
def test_a_grid_grows_from_the_setup_at_hand_and_has_a_bound(lab: str) -> None:
    names = list(knobs_of(base(lab)))
    largest = 0
    for x, y in zip(names, [*names[1:], names[0]], strict=True):
        heatmap = heatmap_of({"lab": lab, "x": x, "y": y}, NO_TRACE)
        assert len(heatmap.x.values) <= MOST_COLUMNS
        assert len(heatmap.y.values) <= MOST_ROWS
        said, tasks = filled(heatmap)
        assert tasks[0][1] == base(lab), "the setup at hand comes first"
        here = (heatmap.x.here, heatmap.y.here)
        away = [(column - here[0]) ** 2 + (row - here[1]) ** 2 for column, row in heatmap.places()]
        assert away == sorted(away)
        start, *cells, done = said
        assert start["start"]["here"] == {"x": here[0], "y": here[1]}
        places = {(line["cell"]["x"], line["cell"]["y"]) for line in cells}
        assert len(cells) == len(places) == done["done"]["cells"] <= MOST_CELLS
        for number, scenario in tasks:
            column, row = heatmap.places()[number]
            changes = {x: heatmap.x.values[column], y: heatmap.y.values[row]}
            assert scenario == base(lab).replace(**changes)
        largest = max(largest, len(cells))
    assert largest == MOST_CELLS


@pytest.mark.parametrize(
    ("setup", "x", "y"),
    [
        ({"lab": "preemption-lab", "max_num_seqs": "12"}, "kv_cache_dtype", "preemption_mode"),
        ({"lab": "block-table-lab", "kv_memory_bytes": "1 GiB", "seed": "3"}, "num_samples", "allocator"),
        ({"lab": "vllm-v1", "num_gpu_blocks_override": "1500"}, "enable_prefix_caching", "step_time"),
    ],
)
def test_a_cell_has_the_figures_of_its_setup(client: httpx.Client, setup: dict[str, str], x: str, y: str) -> None:
    start, *cells, done = lines_of(client, **setup, **SHORT, x=x, y=y)
    axes = start["start"]
    table = client.get("/api/labs").json()["labs"][setup["lab"]]
    assert axes["metrics"] == table["tiles"]
    assert axes["seeds"] == [int(setup.get("seed", 1))]
    assert len(cells) == len(axes["x"]["values"]) * len(axes["y"]["values"]) >= 4
    assert done == {"done": {"cells": len(cells), "failed": 0}}
    for line in cells:
        cell = line["cell"]
        changes = {x: axes["x"]["values"][cell["x"]]["value"], y: axes["y"]["values"][cell["y"]]["value"]}
        run = client.get("/api/run", params={**setup, **SHORT, **changes})
        tiles = decode(run.content).header["tiles"]
        assert cell["texts"] == {name: tile["text"] for name, tile in tiles.items()}
        assert cell["metrics"] == {
            name: None if tile["value"] is None else pytest.approx(tile["value"], rel=1e-12)
            for name, tile in tiles.items()
        }


def test_a_cell_that_cannot_be_says_why(client: httpx.Client) -> None:
    """The model is too large for half of the GPU, and blocks of one token are too many for the page."""
    setup = {"lab": "vllm-v1", "gpu": "A100-SXM-80GB", "model": "Qwen/Qwen3-32B", "gpu_memory_utilization": "0.98"}
    start, *cells, done = lines_of(client, **setup, **SHORT, x="gpu_memory_utilization", y="burst")
    failed = [line["cell"] for line in cells if "error" in line["cell"]]
    least = min(value["value"] for value in start["start"]["x"]["values"])
    assert least == "0.5"
    assert all("texts" not in cell for cell in failed)
    assert {0} <= {cell["x"] for cell in failed} < {*range(len(start["start"]["x"]["values"]))}
    assert "memory" in failed[0]["error"]
    assert done["done"] == {"cells": len(cells), "failed": len(failed)}
    setup = {"lab": "vllm-v1", "gpu": "B300-SXM-288GB", "duration_ns": "1 s"}
    start, *cells, _ = lines_of(client, **setup, x="block_size", y="burst")
    (error,) = {line["cell"]["error"] for line in cells if "error" in line["cell"]}
    assert "the page shows at most 262,144" in error


@pytest.mark.parametrize(
    ("fields", "field", "value"),
    [
        ({}, "knob x", ""),
        ({"x": "max_num_seqs"}, "knob y", ""),
        ({"x": "max_num_seq", "y": "request_rate"}, "knob x", "max_num_seq"),
        ({"x": "max_num_seqs", "y": "seed"}, "knob y", "seed"),
        ({"x": "max_num_seqs", "y": "allocator"}, "knob y", "allocator"),
        ({"x": "request_rate", "y": "request_rate"}, "y", "request_rate"),
        ({"x": "max_num_seqs", "y": "request_rate", "max_num_seqs": "0"}, "max_num_seqs", "0"),
        ({"x": "max_num_seqs", "y": "request_rate", "z": "seed"}, "setting", "z"),
        ({"x": "max_num_seqs", "y": "request_rate", "mission": "none"}, "mission", "none"),
        ({"lab": "vllm-v1", "x": "max_num_seqs", "y": "max_concurrency"}, "knob y", "max_concurrency"),
        ({"lab": "vllm-v1", "x": "model", "y": "max_num_seqs"}, "knob x", "model"),
        ({"lab": "vllm-v1", "x": "arrivals", "y": "max_num_seqs"}, "knob x", "arrivals"),
        ({"lab": "vllm-v1", "x": "prompt_tokens", "y": "max_num_seqs"}, "knob x", "prompt_tokens"),
    ],
)
def test_what_is_no_grid(client: httpx.Client, fields: dict[str, str], field: str, value: str) -> None:
    error = refused(client, "/api/heatmap?" + urlencode({"lab": "preemption-lab", **fields}), 400)
    assert (error["field"], error["value"]) == (field, value)


def test_no_knob_is_called_like_an_axis() -> None:
    names = {control.name for controls in CONTROLS.values() for control in controls}
    assert not names & {"x", "y", "mission"}


def test_a_trace_is_swept_without_what_it_takes_the_place_of(client: httpx.Client) -> None:
    token = client.post("/api/trace?name=mine.csv", content=TRACE).json()["trace"]
    fields = {"lab": "vllm-v1", "trace": token, "x": "kv_cache_dtype"}
    start, *cells, done = lines_of(client, **fields, y="enable_prefix_caching")
    assert start["start"]["seeds"] == []
    assert done["done"] == {"cells": 4, "failed": 0}
    run = client.get("/api/run", params={"lab": "vllm-v1", "trace": token, "kv_cache_dtype": "fp8"})
    tiles = decode(run.content).header["tiles"]
    place = next(line["cell"] for line in cells if (line["cell"]["x"], line["cell"]["y"]) == (1, 1))
    assert place["texts"] == {name: tile["text"] for name, tile in tiles.items()}
    error = refused(client, "/api/heatmap?" + urlencode({**fields, "y": "request_rate"}), 400)
    assert error["field"] == "knob y"


@pytest.mark.parametrize("played", MISSIONS.values(), ids=lambda mission: mission.id)
def test_a_mission_has_its_levers_and_their_stops(played: Mission) -> None:
    fields = {"lab": played.rules, **played.setup, "mission": played.id}
    x, y = list(played.levers)[:2]
    heatmap = heatmap_of({**fields, "x": x, "y": y}, NO_TRACE)
    assert set(heatmap.x.values) <= set(played.levers[x])
    assert set(heatmap.y.values) <= set(played.levers[y])
    other = next(name for name in knobs_of(played.scenario()) if name not in played.levers)
    with pytest.raises(UnknownNameError, match=other):
        heatmap_of({**fields, "x": x, "y": other}, NO_TRACE)


def test_it_ends_when_nobody_reads_it(client: httpx.Client, server: Server) -> None:
    fields = {"lab": "vllm-v1", "x": "max_num_seqs", "y": "request_rate"}
    with client.stream("GET", "/api/heatmap", params=fields) as response:
        lines = response.iter_lines()
        assert "start" in json.loads(next(lines))
        assert server.num_streams == 1
    until = time.monotonic() + 30
    while server.num_streams and time.monotonic() < until:
        time.sleep(0.01)
    assert not server.num_streams

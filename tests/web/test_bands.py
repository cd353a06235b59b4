"""The stretches of time that the chart marks."""

from __future__ import annotations

import json

import pytest
from tests.web.decode import decode
from tests.web.runs_of_labs import run_of

import kvlab
from kvlab.web.bands import bands
from kvlab.web.payload import encode


@pytest.mark.parametrize("lab", ["preemption-lab", "block-table-lab"])
def test_the_burst_is_marked_while_it_goes_on(lab: str) -> None:
    assert bands(kvlab.scenario(lab)) == []
    burst = {"from_s": 40, "to_s": 70, "label": "burst"}
    assert bands(kvlab.scenario(lab, burst="2.5")) == [burst]
    assert bands(kvlab.scenario(lab, burst="2.5", duration_ns="50 s")) == [{**burst, "to_s": 50}]
    assert bands(kvlab.scenario(lab, burst="2.5", duration_ns="40 s")) == []
    assert bands(kvlab.scenario(lab, burst="2.5", num_requests=9)) == [burst], "nobody knows when arrivals will stop"


def test_other_events_are_marked_in_order_of_time() -> None:
    scenario = kvlab.scenario(
        "preemption-lab", rate_events="burst(90 s, 95 s, 0.5); ramp(5 s, 20500 ms, 1, 3)", burst=2
    )
    assert bands(scenario) == [
        {"from_s": 5, "to_s": 20.5, "label": "ramp"},
        {"from_s": 40, "to_s": 70, "label": "burst"},
        {"from_s": 90, "to_s": 95, "label": "lull"},
    ]


def test_the_header_has_them() -> None:
    scenario = kvlab.scenario("preemption-lab", burst="2.5")
    header = decode(encode(run_of("recompute"), scenario, {})).header
    assert header["bands"] == bands(scenario)
    assert json.loads(json.dumps(header["bands"])) == header["bands"]

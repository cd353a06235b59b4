"""From a link's fields to a scenario."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvlab.web.queries import scenario_of
from kvlab.web.uploads import Upload

MOVED = {
    "request_rate": "5",
    "duration_ns": "60 s",
    "prompt_tokens": "512",
    "output_tokens": "128",
    "burst": "2.5",
    "rate_events": "burst(1 s, 2 s, 3)",
    "arrivals": "gamma",
    "burstiness": "0.5",
}


@pytest.mark.parametrize("lab", ["preemption-lab", "block-table-lab"])
@pytest.mark.parametrize(
    ("more", "kept"),
    [
        ({"seed": "3"}, {"trace"}),
        ({"seed": "3", "long_report_users": "on"}, {"trace", "seed", "long_report_users"}),
        ({"arrivals": "closed-loop", "max_concurrency": "9", "think_time_ns": "1 s"}, {"trace"}),
        ({"max_num_seqs": "9", "trace_speed": "2"}, {"trace", "max_num_seqs", "trace_speed"}),
    ],
    ids=lambda value: " ".join(sorted(value)),
)
def test_a_trace_takes_the_place_of_what_was_drawn(
    lab: str, more: dict[str, str], kept: set[str], tmp_path: Path
) -> None:
    upload = Upload("token", str(tmp_path / "t.csv"), "t.csv", None)
    query = scenario_of({"lab": lab, "trace": "token", **MOVED, **more}, lambda token: upload)
    assert set(query.scenario.changes()) == kept

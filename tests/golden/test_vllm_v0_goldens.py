"""Both engines still do, under the rules of vLLM 0.6, what the reference did when these rules were written down."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from tests.golden.make_vllm_v0 import FOLDER, scenarios

from kvlab.errors import GoldenError
from kvlab.goldens import ENGINES, first_difference, read_golden

GOLDENS = sorted(FOLDER.glob("*.json.gz"))


def test_each_file_holds_a_scenario_of_the_script() -> None:
    made = {f"{scenario['name']}.json.gz": scenario for scenario in scenarios()}
    kept = {path.name: json.loads(gzip.decompress(path.read_bytes()))["scenario"] for path in GOLDENS}
    assert kept == made


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.name.removesuffix(".json.gz"))
def test_an_engine_does_what_the_golden_says(path: Path, engine: str) -> None:
    golden = read_golden(path)
    assert first_difference(golden.result, ENGINES[engine](golden).result) is None


@pytest.mark.parametrize(
    ("part", "changes", "reason"),
    [
        ("engine", {"preemption_mode": "swop"}, 'did you mean "swap"'),
        ("engine", {"max_num_batched_tokens": 4095}, "a prompt is computed in one step"),
        ("engine", {"headroom_blocks": 1}, "headroom_blocks"),
        ("cost_ns", {"per_seq": 1}, "per_seq"),
    ],
)
def test_a_scenario_that_makes_no_sense_says_so(
    part: str, changes: dict[str, object], reason: str, tmp_path: Path
) -> None:
    document = json.loads(gzip.decompress(GOLDENS[0].read_bytes()))
    document["scenario"][part] |= changes
    path = tmp_path / "bad.json.gz"
    path.write_bytes(gzip.compress(json.dumps(document).encode()))
    with pytest.raises(GoldenError, match=reason):
        read_golden(path)

"""Explicit lists of points: what files and mappings mean, and how a mistake in them is told."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from kvlab.errors import ConfigError, InputError, UnknownNameError
from kvlab.scenarios import load
from kvlab.sweeps.points import check_names, points_of, read_points

LAB = "preemption-lab"
WANTED = [
    {"max_num_seqs": 64, "gpu_memory_utilization": Decimal("0.95"), "prompt_tokens": "uniform(1, 9)"},
    {"max_num_seqs": 48, "gpu_memory_utilization": Decimal("0.9"), "prompt_tokens": "512"},
]


@pytest.mark.parametrize(
    "text",
    [
        'max-num-seqs, gpu_memory_utilization,prompt_tokens\n64,95 %,"uniform(1, 9)"\n\n48,0.9,512\n',
        '\ufeffmax_num_seqs,gpu_memory_utilization,prompt_tokens\r\n64,0.95,"uniform(1, 9)"\r\n48,0.9,512',
        '{"max_num_seqs": 64, "gpu_memory_utilization": "95 %", "prompt_tokens": "uniform(1, 9)"}\n'
        '{"gpu_memory_utilization": 0.9, "prompt_tokens": 512, "max-num-seqs": "48"}\n',
        '[{"max_num_seqs": 64, "gpu_memory_utilization": 0.95, "prompt_tokens": "uniform(1, 9)"},\n'
        ' {"max_num_seqs": 48, "gpu_memory_utilization": 0.9, "prompt_tokens": "512"}\n]\n',
    ],
    ids=["csv", "csv of a spreadsheet", "json lines", "json array"],
)
def test_what_a_file_means(text: str, tmp_path: Path) -> None:
    path = tmp_path / "points"
    path.write_text(text, encoding="utf-8")
    found = read_points(path, LAB)
    assert found == WANTED
    assert [list(point) for point in found] == [list(WANTED[0])] * 2, "columns in the order of the first point"


@pytest.mark.parametrize(
    ("text", "line", "field", "problem"),
    [
        ("", None, None, "holds no point"),
        ("max_num_seqs\n", None, None, "holds no point"),
        ("max_num_seqs\n64\nmany\n", 3, "max_num_seqs", "number"),
        ("max_num_seqs,gpu_memory_utilization\n64,0.9\n48,\n", 3, "gpu_memory_utilization", "needs a value"),
        ("max_num_seqs\n64\n0\n", 3, "max_num_seqs", "at least 1"),
        ("max_num_seq\n64\n", 2, "max_num_seq", 'did you mean "max_num_seqs"'),
        ("max_num_seqs\n64,1\n", 2, None, "2 values for 1 columns"),
        ("max_num_seqs,max-num-seqs\n64,1\n", 1, "column", "twice"),
        ('max_num_seqs\n"64\n', 2, None, "not CSV"),
        ("max_num_seqs,seed\n64,1\n", 2, "seed", "give seeds apart"),
        ("max_tokens\n64\n", 2, "max_tokens", "block-table-lab"),
        ('{"max_num_seqs": 64}\n{"gpu_memory_utilization": 0.9}\n', 2, "max_num_seqs", "missing here"),
        (
            '{"max_num_seqs": 64}\n{"max_num_seqs": 64, "gpu_memory_utilization": 0.9}\n',
            2,
            "gpu_memory_utilization",
            "not in the first",
        ),
        ('{"max_num_seqs": 64}\n{"max_num_seqs": \n', 3, None, "not JSON"),
        ('{"max_num_seqs": 64, "max_num_seqs": 32}\n', 1, None, "given twice"),
        ('[{"max_num_seqs": 64},\n\n {"max_num_seqs": true}]\n', 3, "[1].max_num_seqs", "expected"),
        ('[{"max_num_seqs": 64}, {"headroom_blocks": 1}]', 1, "[1].max_num_seqs", "is missing here"),
        ('[{"max_num_seqs": 64},\n 7]\n', 2, "[1]", "an object"),
        ('[{"max_num_seqs": 64}\n', 2, None, "not JSON"),
        ("{}\n", 1, "point", "names no setting"),
        ('{"a": ' * 200_000, 1, None, "an object"),
    ],
)
def test_a_mistake_names_file_line_and_column(
    text: str, line: int | None, field: str | None, problem: str, tmp_path: Path
) -> None:
    path = tmp_path / "points"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=problem) as caught:
        read_points(path, LAB)
    assert (caught.value.path, caught.value.line, caught.value.field) == (str(path), line, field)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_points(tmp_path / "nowhere.csv", LAB)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="can't be read"):
        read_points(tmp_path / "binary", LAB)


def test_points_from_python() -> None:
    given = [
        {"max_num_seqs": 64, "gpu_memory_utilization": "95 %", "prompt_tokens": "uniform(1, 9)"},
        {"max_num_seqs": "48", "prompt_tokens": 512, "gpu_memory_utilization": 0.9},
    ]
    assert points_of(given, LAB) == WANTED


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ([], "points"),
        ([{"max_num_seqs": 64}, 7], "points[1]"),
        ([{"max_num_seqs": 64}, {"max_num_seqs": 0}], "points[1].max_num_seqs"),
        ([{"max_num_seqs": 64}, {"gpu_memory_utilization": 0.9}], "points[1].max_num_seqs"),
    ],
)
def test_a_mistake_from_python_names_the_point(given: list[object], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        points_of(given, LAB)
    assert caught.value.field == field


def test_a_name_that_nothing_has_is_refused_and_what_depends_on_other_settings_is_not() -> None:
    scenario = load("vllm-v1")
    for name, value in (("gpu", "FOO"), ("model", "foo/bar"), ("weight_dtype", "foo"), ("step_time", "foo")):
        with pytest.raises(UnknownNameError) as caught:
            check_names(scenario, [{name: getattr(scenario.server, name)}, {name: value}])
        assert caught.value.value == value
    check_names(scenario, [{"gpu": "T4-16GB"}, {"gpu": "h100-80gb"}])

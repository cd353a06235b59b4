from __future__ import annotations

import pytest

from kvlab.errors import (
    ConfigError,
    GoldenError,
    KvlabError,
    OutputError,
    ScenarioError,
    TraceError,
    UnknownNameError,
)


@pytest.mark.parametrize("kind", [ConfigError, UnknownNameError, ScenarioError, TraceError, GoldenError, OutputError])
def test_every_error_is_a_kvlab_error(kind: type[Exception]) -> None:
    assert issubclass(kind, KvlabError)


def test_a_config_error_names_field_value_and_remedy() -> None:
    error = ConfigError("max_num_seqs", 0, "must be at least 1")
    assert str(error) == "max_num_seqs = 0: must be at least 1"
    assert (error.field, error.value, error.remedy) == ("max_num_seqs", 0, "must be at least 1")


def test_a_long_value_is_cut() -> None:
    message = str(ConfigError("seed", "9" * 5_000, "expected a whole number"))
    assert len(message) < 150
    assert "(5,002 characters)" in message


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("prioirty", "priority"),
        ("latest_admitted", "latest-admitted"),
        ("latest-admited", "latest-admitted"),
        ("x", None),
    ],
)
def test_an_unknown_name_gives_the_nearest(name: str, nearest: str | None) -> None:
    error = UnknownNameError("victim policy", name, ["fcfs", "priority", "latest-admitted"])
    assert error.nearest == nearest
    hint = f'did you mean "{nearest}"? ' if nearest else ""
    assert str(error) == f'unknown victim policy "{name}": {hint}Known: fcfs, priority, latest-admitted'
    assert error.value == name


def test_a_trace_error_names_file_line_field_and_value() -> None:
    error = TraceError("azure.csv", "expected a whole number", line=17, field="ContextTokens", value="12x")
    assert str(error) == 'azure.csv, line 17: ContextTokens = "12x": expected a whole number'
    assert (error.path, error.line, error.field, error.value) == ("azure.csv", 17, "ContextTokens", "12x")


def test_a_trace_error_about_the_whole_file_has_no_line() -> None:
    assert str(TraceError("azure.csv", "is empty")) == "azure.csv: is empty"

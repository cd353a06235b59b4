"""Servers and GPUs for a day."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from kvlab.advice.daily import Stretch, daily, gpus_of, parse_headroom, parse_profile, replicas_for
from kvlab.errors import ConfigError, InputError
from kvlab.scenarios import load


def test_servers_are_the_rate_over_what_one_holds_rounded_up() -> None:
    rates = [Decimal(rate) for rate in ("0", "0.2", "3", "3.1", "5", "9")]
    assert replicas_for(rates, Decimal(3)) == [1, 1, 1, 2, 2, 3]


def test_a_day_of_equal_parts() -> None:
    day = daily(parse_profile("2, 6,12,4"), Decimal(5), gpus_per_server=2)
    assert day.servers == (1, 2, 3, 1)
    assert [part.hours for part in day.stretches] == [6, 6, 6, 6]
    assert day.resized_gpu_hours == 6 * (1 + 2 + 3 + 1) * 2
    assert day.fixed_gpu_hours == 24 * 3 * 2
    assert day.to_dict()["peak_gpus"] == 6
    assert day.table().column("gpus").to_pylist() == [2, 4, 6, 2]
    assert day.__dataframe__().num_rows() == 4


def test_headroom_raises_every_rate_first() -> None:
    assert daily(parse_profile("5,4.1"), Decimal(5), headroom=Decimal("0.2")).servers == (2, 1)
    with pytest.raises(ConfigError, match="headroom"):
        daily(parse_profile("5"), Decimal(5), headroom=Decimal("-0.1"))
    with pytest.raises(ConfigError, match="20 % is written 20%"):
        parse_headroom("20")
    for much in ("1001%", "2000 %"):
        with pytest.raises(ConfigError, match="is over 1,000 %"):
            parse_headroom(much)
    assert parse_headroom("1000%") == 10


@pytest.mark.parametrize(
    "text",
    [
        "time,rate\n06:30,8\n18,2.5\n",
        "6.5,8\n\n18:00,2.5\n",
        "\ufeffRate, note ,TIME\n8,a,6.5\n2.5,b,18:00:00\n",
    ],
)
def test_a_profile_from_a_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "day.csv"
    path.write_text(text)
    first, second = parse_profile(str(path))
    assert first == Stretch(Fraction(13, 2), Fraction(23, 2), Decimal(8))
    assert second == Stretch(Fraction(18), Fraction(25, 2), Decimal("2.5"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("time,rate\n6,8\n6,9\n", "line 3: times must rise"),
        ("6,8\n25,9\n", "line 2: time = \"25\""),
        ("6,8\n7,-1\n", "line 2: rate = \"-1\""),
        ("6,8\n7\n", "expected a time and a rate"),
        ("6,8\n7:99x,1\n", "line 2: time"),
        ("6,8\n7,nan\n", "line 2: rate"),
        ("hour,rps\n6,8\n", "columns time and rate"),
        ("", "needs from 1"),
        ("time,rate\n", "needs from 1"),
    ],
)  # fmt: skip
def test_rows_that_cannot_be_used_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "day.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        parse_profile(str(path))


@pytest.mark.parametrize("text", ["1,,2", "-1,2", "", "1,2,", "1e99"])
def test_rates_that_cannot_be(text: str) -> None:
    with pytest.raises(ConfigError, match="profile"):
        parse_profile(text)
    with pytest.raises(InputError, match=r"no-such-day\.csv"):
        parse_profile("no-such-day.csv")


def test_gpus_of_a_server() -> None:
    server = load("vllm-v1").replace(tensor_parallel_size=2, pipeline_parallel_size=2)
    assert (gpus_of(server), gpus_of(load("block-table-lab"))) == (4, 1)

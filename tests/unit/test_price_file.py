"""A price table of one's own changes rows of the usual one, and every mistake in it is named."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

import kvlab
from kvlab.errors import ConfigError, UnknownNameError
from kvlab.price_file import read_prices
from kvlab.prices import PRICES, price_of
from kvlab.units import GIB


def written(folder: Path, text: str) -> Path:
    path = folder / "prices.json"
    path.write_text(text, encoding="utf-8")
    return path


def test_rows_are_changed_and_settings_taken_out(tmp_path: Path) -> None:
    text = """{"kv_cache_dtype": {"to": ["fp8"], "points": 1, "otherwise": 4, "reason": "Evaluated in October."},
        "max_num_seqs": {"raise": 5, "lower": 6}, "kv_memory_bytes": {"step": "1 GiB", "raise": 7, "lower": 0},
        "headroom_blocks": null}"""
    prices = read_prices(written(tmp_path, text))
    assert set(PRICES) - set(prices) == {"headroom_blocks"}
    assert price_of("kv_cache_dtype", "fp16", "fp8", prices) == 1
    assert prices["kv_cache_dtype"].reason == "Evaluated in October."
    assert price_of("max_num_seqs", 64, 32, prices) == 6
    assert price_of("kv_memory_bytes", GIB, 3 * GIB, prices) == 14
    assert prices["max_num_seqs"].reason == PRICES["max_num_seqs"].reason
    assert price_of("request_rate", Decimal(2), Decimal(1), prices) == 20


def test_advice_asks_that_table(tmp_path: Path) -> None:
    fp8 = '{"to": ["fp8"], "points": 0, "otherwise": 9}'
    path = written(tmp_path, f'{{"headroom_blocks": null, "kv_cache_dtype": {fp8}}}')
    advice = kvlab.advise("preemption-lab", "gap_max<=150ms", seeds=1, workers=1, prices=read_prices(path))
    assert (advice.fixes[0].text, advice.fixes[0].price) == ("kv_cache_dtype=fp8", 0)
    assert "headroom_blocks" not in {name for fix in advice.fixes for name, _ in fix.change}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "object"),
        ("{", "no JSON"),
        ('{"max_num_seqs": null, "max_num_seqs": null}', "twice"),
        ('{"max_num_seqs": 3}', "raise"),
        ('{"max_num_seqs": {"raise": 1}}', "raise"),
        ('{"max_num_seqs": {"raise": 1.5, "lower": 0}}', "whole numbers"),
        ('{"max_num_seqs": {"raise": -1, "lower": 0}}', "whole numbers"),
        ('{"allocator": {"raise": 1, "lower": 0}}', "is no number"),
        ('{"kv_memory_bytes": {"step": "0 B", "raise": 1, "lower": 0}}', "above 0"),
        ('{"max_num_seqs": {"raise": 1, "lower": 0, "reason": ""}}', "sentence"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        read_prices(written(tmp_path, text))


def test_names_are_checked(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="max_num_seqs"):
        read_prices(written(tmp_path, '{"max_num_seq": null}'))
    with pytest.raises(UnknownNameError, match="fp8"):
        read_prices(written(tmp_path, '{"kv_cache_dtype": {"to": ["fp4"], "points": 0, "otherwise": 0}}'))
    with pytest.raises(ConfigError, match="can't be read"):
        read_prices(tmp_path / "none.json")

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from kvlab.errors import ConfigError, TraceError, UnknownNameError
from kvlab.workloads.lengths import Exponential, Fixed, Histogram, LogNormal, Uniform, parse_lengths, sampler
from kvlab.workloads.streams import Ints, Stream

U = (np.arange(100_000) + 0.5) / 100_000


def drawn(text: str, scale: float = 1.0) -> Ints:
    return sampler(parse_lengths(text, "output_tokens"))(U, scale)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("512", Fixed(512)),
        (" fixed( 512 ) ", Fixed(512)),
        ("uniform(200,1500)", Uniform(200, 1500)),
        ("uniform(1, 4_000, max=3,000)", None),
        ("exponential(250, max=1500)", Exponential(Decimal(250), 1500)),
        ("exponential(12.5)", Exponential(Decimal("12.5"))),
        ("lognormal(p95=3000, p50=600)", LogNormal(Decimal(600), Decimal(3000))),
        ("histogram(200:3, 100:5, 200:1, 7:0)", Histogram(((100, 5), (200, 4)))),
    ],
)
def test_texts_are_read(text: str, expected: object) -> None:
    if expected is None:
        with pytest.raises(ConfigError):
            parse_lengths(text, "output_tokens")
    else:
        assert parse_lengths(text, "output_tokens") == expected


def test_uniform_takes_both_ends_and_all_between_equally_often() -> None:
    values, counts = np.unique(drawn("uniform(3, 7)"), return_counts=True)
    assert values.tolist() == [3, 4, 5, 6, 7]
    assert counts.tolist() == [20_000] * 5


def test_exponential_is_rounded_at_least_1_and_capped() -> None:
    lengths = drawn("exponential(250, max=1500)")
    assert lengths.min() == 1
    assert lengths.max() == 1500
    assert drawn("exponential(250)").mean() == pytest.approx(250, rel=0.001)


def test_lognormal_has_its_quantiles() -> None:
    lengths = np.sort(drawn("lognormal(p50=600, p95=3000)"))
    assert lengths[50_000] == pytest.approx(600, abs=1)
    assert lengths[95_000] == pytest.approx(3000, rel=0.001)


def test_histogram_draws_by_weight() -> None:
    values, counts = np.unique(drawn("histogram(100:5, 200:3)"), return_counts=True)
    assert values.tolist() == [100, 200]
    assert counts.tolist() == [62_500, 37_500]


def test_a_scale_multiplies_before_rounding_and_the_cap() -> None:
    assert drawn("exponential(250, max=1500)", 2.0).tolist() == drawn("exponential(500, max=1500)").tolist()
    assert set(drawn("fixed(3)", 2.5)) == {8}  # half to even
    assert set(drawn("fixed(3)", 0.001)) == {1}


def test_empirical_draws_what_a_column_holds(tmp_path: Path) -> None:
    file = tmp_path / "lengths, of 2023.csv"
    file.write_text("row,tokens\n" + "".join(f"{i},{n}\n" for i, n in enumerate([10, 0, 30, 30])))
    text = f'empirical("{file}", tokens)'
    values, counts = np.unique(drawn(text), return_counts=True)
    assert values.tolist() == [1, 10, 30]
    assert counts.tolist() == [25_000, 25_000, 50_000]
    assert str(parse_lengths(text, "x")) == text
    file.write_text("row,tokens\n1,77\n")
    assert set(drawn(text)) == {77}, "a changed file is read again"


def test_empirical_names_what_is_wrong_with_its_file(tmp_path: Path) -> None:
    file = tmp_path / "lengths.csv"
    file.write_text("row,tokens\n1,2\n2,x\n")
    with pytest.raises(TraceError, match=r'line 3: tokens = "x"'):
        drawn(f"empirical({file}, tokens)")
    with pytest.raises(TraceError, match='no column "token": did you mean "tokens"'):
        drawn(f"empirical({file}, token)")
    with pytest.raises(TraceError, match="No such file"):
        drawn(f"empirical({file}x, tokens)")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected the form"),
        ("uniform", "expected the form"),
        ("uniform(1, 2", "expected the form"),
        ("unifrom(1, 2)", 'did you mean "uniform"'),
        ("uniform(2, 1)", "the low end 2 is above the high end 1"),
        ("uniform(1)", "takes 2 values, 1 given"),
        ("uniform(1,, 2)", "a value is missing"),
        ("uniform(0, 2)", "from 1 to 10,000,000"),
        ("0", "from 1 to 10,000,000"),
        ("-5", "from 1 to 10,000,000"),
        ("fixed(1e30)", "from 1 to 10,000,000"),
        ("fixed(2.5)", "whole number"),
        ("exponential(nan)", "finite"),
        ("exponential(inf)", "finite"),
        ("exponential(0.5)", "from 1 to"),
        ("exponential(250, max=0)", "max = 0 must be from 1"),
        ("exponential(250, max=1, max=2)", "given twice"),
        ("exponential(max=1, 250)", "come before"),
        ("exponential(250, min=5)", 'unknown output_tokens argument of exponential(...) "min"'),
        ("lognormal(600, 3000)", "needs p50="),
        ("lognormal(p50=600)", "needs p95="),
        ("lognormal(p50=3000, p95=600)", "p50 = 3000 is above p95 = 600"),
        ("histogram()", "at least one bar"),
        ("histogram(5:0)", "at least one bar"),
        ("histogram(5)", "expected tokens:weight"),
        ("histogram(5:-1)", "a weight is a whole number"),
        ('empirical("a.csv, b)', "quotation mark is not closed"),
        ("empirical(a.csv)", "takes 2 values, 1 given"),
    ],
)
def test_what_cannot_work_is_refused_with_the_field_and_the_remedy(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_lengths(text, "output_tokens")
    assert message in str(caught.value)
    assert "output_tokens" in str(caught.value)


def test_an_unknown_distribution_lists_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="Known: fixed, uniform, exponential, lognormal, histogram, empirical"):
        parse_lengths("zipf(3)", "prompt_tokens")


def test_a_longer_mean_moves_the_same_draws() -> None:
    u = Stream(1, "output/0").take(1000)
    short, long = (sampler(parse_lengths(f"exponential({mean})", "x"))(u, 1.0) for mean in (250, 500))
    assert (long >= short).all()
    assert np.argsort(short, kind="stable")[-1] == np.argsort(long, kind="stable")[-1]

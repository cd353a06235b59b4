"""Options of the whole test suite."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--runs",
        type=int,
        default=None,
        metavar="N",
        help="random runs per lab and time grid of the differential tests: N new ones instead of the fixed 500",
    )

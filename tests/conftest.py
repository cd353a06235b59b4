"""Options of the whole test suite."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--runs",
        type=int,
        default=None,
        metavar="N",
        help="random runs per lab and time grid of the differential tests: N new ones instead of the fixed 500",
    )


# the same examples every time, and no failure because a machine is busy
settings.register_profile("suite", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")


def pytest_make_parametrize_id(val: object) -> str | None:
    """Bytes are named by their kind: packed ones hold the time, and workers must find the same names."""
    return "bytes" if isinstance(val, bytes) else None

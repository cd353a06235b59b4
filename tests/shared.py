"""Where the public data that may not be committed lies, if it is there at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_ROOT = Path(os.environ.get("KVLAB_SHARED", Path(__file__).parents[2] / "shared"))


def shared_file(name: str) -> Path:
    """The path of a file of the public data sets; skips the test, saying so, where it is absent."""
    path = _ROOT / name
    if not path.exists():
        pytest.skip(f"{name} is not here: set KVLAB_SHARED to the folder that holds it")
    return path

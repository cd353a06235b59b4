"""Which version of the package is installed."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("kvlab")
except PackageNotFoundError:  # run from a source tree
    __version__ = "0+source"

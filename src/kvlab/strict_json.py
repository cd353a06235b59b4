"""What JSON leaves open, and files of kvlab do not."""

from __future__ import annotations

from typing import Any


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An `object_pairs_hook`: JSON lets a key stand twice, and the first would be lost.

    Raises:
        ValueError: a key stands twice.
    """
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f'"{key}" is given twice')
        found[key] = value
    return found

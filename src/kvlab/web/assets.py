"""The page's own files, from the package: read once, read again only when one was changed on disk."""

from __future__ import annotations

import gzip
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent / "static"
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+(?:/[A-Za-z0-9_-]+)*\.[a-z0-9]+\Z")
"""No dot but the last, so no way out of the folder."""
_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "ico": "image/x-icon",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "png": "image/png",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
    "webmanifest": "application/manifest+json",
    "woff2": "font/woff2",
}
_PACKED: Final = ("css", "html", "js", "json", "svg", "txt", "webmanifest")


@dataclass(frozen=True, slots=True)
class Asset:
    """A file as it is sent."""

    data: bytes
    packed: bytes | None
    """The same, compressed; None where that saves nothing."""
    type: str
    etag: str


def asset_of(data: bytes, suffix: str) -> Asset:
    """Bytes with all that a response says of them."""
    packed = gzip.compress(data, 9, mtime=0) if suffix in _PACKED else None
    etag = f'"{hashlib.sha256(data).hexdigest()[:20]}"'
    return Asset(data, packed, _TYPES[suffix], etag)


class Assets:
    """Files by their name relative to the folder."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder
        self._kept: dict[str, tuple[tuple[int, int], Asset]] = {}

    def find(self, name: str) -> Asset | None:
        """The file; None when there is none of that name, or it is of a type that the page has no use for."""
        suffix = name.rpartition(".")[2]
        if not _NAME.match(name) or suffix not in _TYPES:
            return None
        path = self._folder / name
        try:
            stat = path.stat()
            version = (stat.st_mtime_ns, stat.st_size)
            kept = self._kept.get(name)
            if kept is None or kept[0] != version:
                kept = (version, asset_of(path.read_bytes(), suffix))
                self._kept[name] = kept
        except OSError:
            return None
        return kept[1]

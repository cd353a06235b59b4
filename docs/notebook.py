"""The notebooks of examples/: run in a fresh kernel, and on request with their present outputs written into them.

python docs/notebook.py examples/cheapest_fix.ipynb
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

_format: Any = nbformat  # has types in part
TIMEOUT_S = 300
KEPT = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
"""Metadata: nothing of the machine that ran it last."""


def read(path: Path) -> Any:
    """A notebook as it is in its file."""
    return _format.read(path, as_version=4)


def executed(path: Path) -> Any:
    """The notebook with the outputs that it has now. An error in a cell is raised."""
    notebook = read(path)
    NotebookClient(
        notebook,
        timeout=TIMEOUT_S,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
        record_timing=False,
    ).execute()
    notebook.metadata = _format.from_dict(KEPT)
    return notebook


def texts(notebook: Any) -> list[str]:
    """What each code cell prints or returns as text; pictures only by that they are there."""
    found = []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            found.append("".join(_text(output) for output in cell.outputs))
    return found


def _text(output: Any) -> str:
    if output.output_type == "stream":
        return str(output.text)
    kinds = sorted(output.get("data", {}))
    return f"[{kinds[0]}]\n" if kinds[:1] == ["image/png"] else str(output["data"]["text/plain"]) + "\n"


def main() -> None:
    """Runs the notebooks that the command names, and writes them."""
    for name in sys.argv[1:]:
        path = Path(name)
        text = json.dumps(executed(path), indent=1, ensure_ascii=False, sort_keys=True)
        path.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Imports point one way, and nothing heavy is loaded before it is needed."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src"
HEAVY = ("numpy", "pyarrow", "plotly", "matplotlib", "starlette", "uvicorn")

# Lower layers first; a module may import its own layer and those below. Longest name wins.
LAYERS = {
    "kvlab.errors": 0,
    "kvlab.units": 0,
    "kvlab.strict_json": 0,
    "kvlab.tabular": 0,
    "kvlab.core": 1,
    "kvlab.version": 1,
    "kvlab.reference": 2,
    "kvlab.workloads": 2,
    "kvlab.metrics": 2,
    "kvlab.step_time": 3,
    "kvlab.hardware": 2,
    "kvlab.settings": 3,
    "kvlab.setting_table": 3,
    "kvlab.slo_text": 3,
    "kvlab.servers": 3,
    "kvlab.sizing": 3,
    "kvlab.traffic_limits": 3,
    "kvlab.scenarios": 3,
    "kvlab.columns": 3,
    "kvlab.memory_map": 3,
    "kvlab.files": 3,
    "kvlab.results": 3,
    "kvlab.export": 3,
    "kvlab.plots": 3,
    "kvlab.timing": 3,
    "kvlab.comparison": 3,
    "kvlab.goldens": 3,
    "kvlab.vllm_goldens": 3,
    "kvlab.vllm_values": 3,
    "kvlab.vllm_words": 3,
    "kvlab.vllm_flag_table": 3,
    "kvlab.vllm_flags": 3,
    "kvlab.vllm_log": 3,
    "kvlab.vllm_print": 3,
    "kvlab.vllm_setup": 3,
    "kvlab.sweeps": 3,
    "kvlab.price_file": 3,
    "kvlab.prices": 3,
    "kvlab.advice": 3,
    "kvlab.api": 4,
    "kvlab.planner": 5,
    "kvlab.cases": 5,
    "kvlab.missions": 5,
    "kvlab.validation": 5,
    "kvlab.cli": 6,
    "kvlab.web": 6,
    "kvlab.__main__": 7,
    "kvlab": 7,  # the front door: lazily loads the API
}
APART = {  # same layer, but strangers to each other
    "kvlab.cli": ("kvlab.web",),
    "kvlab.web": ("kvlab.cli",),
    "kvlab.workloads": ("kvlab.metrics", "kvlab.hardware", "kvlab.reference"),
    "kvlab.metrics": ("kvlab.workloads", "kvlab.hardware", "kvlab.reference"),
    "kvlab.hardware": ("kvlab.workloads", "kvlab.metrics", "kvlab.reference"),
}
FRONT_DOORS = {"kvlab.cli.lab": "kvlab.web.serve"}
"""The one thing that a module may import of a stranger: `kvlab lab` serves the page."""
REFERENCE_MAY = ("request", "records", "config", "memory", "tally", "step_time")


def modules() -> list[tuple[str, Path]]:
    found = []
    for path in sorted(SRC.rglob("*.py")):
        parts = path.relative_to(SRC).with_suffix("").parts
        found.append((".".join(parts[:-1] if parts[-1] == "__init__" else parts), path))
    return found


def package_of(module: str) -> str:
    names = [name for name in LAYERS if module == name or module.startswith(name + ".")]
    return max(names, key=len)


def imports_of(path: Path) -> list[tuple[int, str]]:
    """(line, imported module) anywhere in a file; of `from a import b`, both a and a.b."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports relatively"
            found += [(node.lineno, f"{node.module}.{alias.name}") for alias in node.names]
    return found


def test_every_module_has_a_layer() -> None:
    unknown = [name for name, _ in modules() if package_of(name) == "kvlab" and name != "kvlab"]
    assert unknown == [], "say in LAYERS where these belong"


@pytest.mark.parametrize(("module", "path"), modules(), ids=lambda value: value if isinstance(value, str) else "")
def test_imports_point_down(module: str, path: Path) -> None:
    package = package_of(module)
    wrong = []
    for line, target in imports_of(path):
        if target.split(".")[0] != "kvlab":
            if package == "kvlab.core" and target.split(".")[0] not in sys.stdlib_module_names:
                wrong.append(f"{path}:{line} core imports {target}")
            continue
        other = package_of(target)
        if other == "kvlab" and module != "kvlab":
            other = "kvlab.api"  # `from kvlab import x` means a public name, or kvlab.x, which is listed above
        if target == FRONT_DOORS.get(module):
            continue
        if LAYERS[other] > LAYERS[package] or other in APART.get(package, ()):
            wrong.append(f"{path}:{line} {package} imports {target}")
        if package == "kvlab.reference" and other == "kvlab.core" and target.split(".")[2] not in REFERENCE_MAY:
            wrong.append(f"{path}:{line} the reference borrows {target}")
    assert wrong == []


@pytest.mark.parametrize(
    "statement",
    [
        "import kvlab",
        "import kvlab.cli",
        "import kvlab.scenarios",
        "import kvlab.core.engine",
        "import kvlab.settings",
        "import kvlab; kvlab.capacity",
    ],
)
def test_nothing_heavy_is_loaded(statement: str) -> None:
    code = f"{statement}; import sys; print([m for m in {HEAVY!r} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


def test_help_loads_no_command() -> None:
    code = (
        "import sys; from kvlab.cli import execute; execute(['--help']);"
        f"print([m for m in sys.modules if m in {HEAVY!r} or m.startswith('kvlab.cli.') and m != 'kvlab.cli.program'])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "[]"


def test_the_version_needs_no_simulator() -> None:
    code = (
        "import sys; from kvlab.cli import execute; execute(['--version']);"
        "print([m for m in sys.modules if m.startswith(('kvlab.api', 'kvlab.core', 'kvlab.scenarios'))])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "[]"

"""The list of benchmarks: each module here or in a subpackage that has a function `run`."""

from __future__ import annotations

import ast
from pathlib import Path

_FOLDER = Path(__file__).parent


def benchmarks() -> dict[str, str]:
    """Return a dict: benchmark's name -> first line of its docstring. No benchmark is imported."""
    found = {}
    for path in _modules():
        tree = ast.parse(path.read_text())
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        if "run" in functions and path.stem != "__main__":
            found[path.stem] = (ast.get_docstring(tree) or "").partition("\n")[0]
    return found


def module_of(name: str) -> str:
    """Return the full name of a benchmark's module, such as bench.distributed.rpc for "rpc"."""
    (path,) = [path for path in _modules() if path.stem == name]
    return ".".join(["bench", *path.relative_to(_FOLDER).with_suffix("").parts])


def _modules() -> list[Path]:
    return sorted(_FOLDER.rglob("*.py"), key=lambda path: path.stem)

"""The stubs describe the names that exist."""

from __future__ import annotations

import ast

import fastdist
import fastdist.nn.functional as F
from fastdist.namespace import stubs


def test_the_stubs_are_what_the_generator_writes() -> None:
    stale = [str(path) for path, text in stubs.render().items() if path.read_text() != text]
    assert not stale, "run: python -m fastdist.namespace.stubs"


def names_in(stub: str) -> set[str]:
    """Return the public names that a stub next to fastdist/__init__.py describes."""
    found = set()
    (text,) = (text for path, text in stubs.render().items() if str(path).endswith(stub))
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.AnnAssign):
            found.add(ast.unparse(node.target))
        elif isinstance(node, ast.Assign):
            found.update(ast.unparse(target) for target in node.targets)
        elif isinstance(node, ast.ImportFrom):
            found.update(alias.asname for alias in node.names if alias.asname)
    return found


def test_the_stub_of_fastdist_has_the_names_that_dir_shows() -> None:
    assert names_in("fastdist/__init__.pyi") == set(dir(fastdist))


def test_the_stub_of_functional_has_all_of_its_functions() -> None:
    offered = {name for name, value in vars(F).items() if getattr(value, "__module__", "") != ""}
    offered = {name for name in offered if callable(vars(F)[name]) and not name.startswith("_")}
    offered |= {name for name in vars(F) if name.isupper() and not name.startswith("_")}
    imported = {"Any", "Callable", "FUNCTIONAL_NAMES", "Tensor", "normalize_axis", "warn_caller"}
    assert names_in("functional.pyi") == offered - imported

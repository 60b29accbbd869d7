"""Files stay below their length limits, and functions fit on a screen."""

from __future__ import annotations

import ast
import functools
import gc
import hashlib
import os
import pickle
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("fastdist", "kernels", "tests", "bench")
SUFFIXES = {".py", ".pyi", ".cu", ".cuh", ".h", ".cpp"}
# A file of more than 400 lines may have two topics. If it has one topic, it may grow to this limit.
MAX_FILE_LINES = 550
MAX_FUNCTION_LINES = 60
# The largest number of files in one folder.
MAX_MODULES = 40
GENERATED = {"fastdist/__init__.pyi", "fastdist/nn/functional.pyi", "fastdist/tensor/methods.pyi"}


def files(suffixes: set[str]) -> Iterator[tuple[str, str]]:
    """Yield the name and text of every file of ours."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            name = path.relative_to(ROOT).as_posix()
            if path.suffix in suffixes and name not in GENERATED:
                yield name, path.read_text()


def functions(tree: ast.Module) -> Iterator[tuple[str, int, int]]:
    """Yield name, first line and number of lines of every function, including nested ones."""
    for node in statements(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno, (node.end_lineno or node.lineno) - node.lineno + 1


def statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the module and all its statements, a tenth of its nodes, but no expressions."""
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop()
        yield node
        for part in ("finalbody", "orelse", "handlers", "cases", "body"):
            left += reversed(getattr(node, part, ()))


class Parsed(NamedTuple):
    """The functions, docstrings and imports of one file."""

    functions: list[tuple[str, int, int]]
    docstrings: list[tuple[str, str]]  # by the name of the documented object
    imports: list[ast.Import | ast.ImportFrom | ast.Call]  # a call may also import a module
    annotations: tuple[int, int]  # the numbers of annotated parameters, and of `Any` among them
    is_empty: bool


DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
IMPORTS_BY_CALL = {"import_module", "__import__"}


@functools.cache
def parsed() -> dict[str, Parsed]:
    """Return the parsed parts of all Python files.

    They are cached next to compiled code by the digest of each text: parsing all files takes 5 s,
    and few have changed since the last run.
    """
    kept_at = Path(__file__).parent / "__pycache__" / f"parsed-{_digest(Path(__file__))}.pickle"
    kept: dict[bytes, Parsed] = {}
    if kept_at.exists():
        kept = pickle.loads(kept_at.read_bytes())
    gc.disable()  # syntax trees have no cycles; traversing them repeatedly takes 1.3 of 4.6 s
    try:
        found = {name: (hash_of(text), text) for name, text in files({".py"})}
        now = {key: kept.get(key) or parse(text) for key, text in found.values()}
    finally:
        gc.enable()
    if now.keys() != kept.keys() and not sys.dont_write_bytecode:
        _keep(kept_at, now)
    return {name: now[key] for name, (key, _) in found.items()}


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes() + sys.version.encode()).hexdigest()[:16]


def hash_of(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _keep(path: Path, parts: dict[bytes, Parsed]) -> None:
    """Write the cache file atomically, since another process may read it; delete older files."""
    path.parent.mkdir(exist_ok=True)
    for old in path.parent.glob("parsed-*.pickle"):
        old.unlink(missing_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(pickle.dumps(parts))
    os.replace(file.name, path)


def parse(text: str) -> Parsed:
    tree = ast.parse(text)
    docstrings: list[tuple[str, str]] = []
    imports: list[ast.Import | ast.ImportFrom | ast.Call] = []
    annotated: list[ast.expr] = []
    for node in statements(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            annotated += annotations(node.args)
        if isinstance(node, DOCUMENTED):
            name = getattr(node, "name", "the module")
            docstrings.append((name, ast.get_docstring(node) or ""))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            imports.append(node)
    if any(name in text for name in IMPORTS_BY_CALL):
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        imports += [
            node
            for node in calls
            if getattr(node.func, "attr", getattr(node.func, "id", "")) in IMPORTS_BY_CALL
        ]
    is_any = [isinstance(one, ast.Name) and one.id == "Any" for one in annotated]
    counted = (len(is_any), sum(is_any))
    return Parsed(list(functions(tree)), docstrings, imports, counted, not text)


def annotations(given: ast.arguments) -> Iterator[ast.expr]:
    """Yield the annotations of a function's parameters."""
    for one in (*given.posonlyargs, *given.args, given.vararg, *given.kwonlyargs, given.kwarg):
        if one is not None and one.annotation is not None:
            yield one.annotation


def test_no_file_is_longer_than_550_lines() -> None:
    lengths = {name: text.count("\n") for name, text in files(SUFFIXES)}
    assert {name: lines for name, lines in lengths.items() if lines > MAX_FILE_LINES} == {}


def test_no_function_is_longer_than_60_lines() -> None:
    long = [
        f"{name}:{first} {function}: {lines} lines"
        for name, file in parsed().items()
        for function, first, lines in file.functions
        if lines > MAX_FUNCTION_LINES
    ]
    assert long == []


def test_no_folder_has_more_than_40_modules() -> None:
    counts = Counter(name.rpartition("/")[0] for name, _ in files({".py"}))
    assert {folder for folder, count in counts.items() if count > MAX_MODULES} == set()


def test_every_module_begins_with_a_docstring_of_one_sentence() -> None:
    silent = []
    for name, file in parsed().items():
        doc = "An empty __init__ says nothing." if file.is_empty else file.docstrings[0][1]
        if not doc or doc.splitlines()[0][-1] not in ".:":
            silent.append(name)
    assert silent == []


def test_nested_functions_are_measured_with_the_one_around_them() -> None:
    text = "def outer():\n    def inner():\n        pass\n    return inner\n"
    assert parse(text).functions == [("outer", 1, 4), ("inner", 2, 2)]

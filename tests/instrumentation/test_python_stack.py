"""A thread's Python stack is reported with the innermost function first."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import fastdist
from fastdist.instrumentation.python_stack import python_stack


def inner() -> tuple[str, ...]:
    return python_stack()


def test_the_innermost_function_is_told_first() -> None:
    own, caller, *_ = inner()
    line = inner.__code__.co_firstlineno
    assert own.endswith(f"test_python_stack.py({line + 1}): inner")
    assert caller.endswith(": test_the_innermost_function_is_told_first")


def test_paths_begin_where_python_looks_for_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    path = "/somewhere/lib/package/module.py"
    monkeypatch.syspath_prepend("/somewhere")
    monkeypatch.syspath_prepend("/somewhere/lib")
    code = compile("entries = find()", path, "exec")
    found: dict[str, object] = {"find": python_stack}
    exec(code, found)
    entries = found["entries"]
    assert isinstance(entries, tuple)
    assert Path(entries[0]) == Path("package/module.py(1): <module>")


def test_what_serves_a_call_is_not_told() -> None:
    path = str(Path(fastdist.__file__).with_name("distributed") / "rpc" / "serving.py")
    found: dict[str, object] = {"called": inner}
    exec(compile("entries = called()", path, "exec"), found)
    entries = found["entries"]
    assert isinstance(entries, tuple) and len(entries) == 1 and entries[0].endswith(": inner")


def test_paths_of_the_package_begin_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(fastdist.__file__).parent
    monkeypatch.setattr("sys.path", [one for one in sys.path if Path(one) != root.parent])
    found: dict[str, object] = {"find": python_stack}
    exec(compile("entries = find()", str(root / "nn" / "any.py"), "exec"), found)
    entries = found["entries"]
    assert isinstance(entries, tuple)
    assert Path(entries[0]) == Path("fastdist/nn/any.py(1): <module>")

"""pytest loads the code that one process has rewritten, and does not rewrite it a second time."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from _pytest.assertion import rewrite

from tests.shared_rewriting import SharedRewriting, rewrite_once

TEXT = "def test_it():\n    left, right = [1], [2]\n    assert left == right\n"


def test_rewritten_code_is_what_pytest_loads(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    path = tmp_path / "test_it.py"
    path.write_text(TEXT)
    assert rewrite_once(pytestconfig, path)
    assert not rewrite_once(pytestconfig, path)
    kept = rewrite.get_cache_dir(path) / f"test_it{rewrite.PYC_TAIL}"
    code = rewrite._read_pyc(path, kept)
    assert code is not None
    made: dict[str, Any] = {"__name__": "test_it"}
    exec(code, made)
    with pytest.raises(AssertionError, match=r"At index 0 diff: 1 != 2"):
        made["test_it"]()
    path.write_text(TEXT.replace("[2]", "[1]"))
    assert rewrite._read_pyc(path, kept) is None, "pytest takes code of an older text"


def test_each_process_does_its_part(
    tmp_path: Path, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    for number in range(5):
        (tmp_path / f"test_{number}.py").write_text(TEXT)
    (tmp_path / "cases.py").write_text(TEXT)
    for worker, words, parts in (
        ("gw1", [str(tmp_path)], {1, 3}),
        ("gw0", ["test_4.py::test_it", "cases.toml", "test_gone.py"], {1, 3, 4}),
        ("gw4", ["."], {0, 1, 2, 3, 4}),
    ):
        given = {"workerid": worker, "workercount": 2}
        config = SimpleNamespace(workerinput=given, stash=pytestconfig.stash, args=words)
        config.hook, config.getini = pytestconfig.hook, pytestconfig.getini
        config.invocation_params = SimpleNamespace(dir=tmp_path)
        session: Any = SimpleNamespace(config=config)
        SharedRewriting().pytest_collection(session)
        kept = {one.name for one in rewrite.get_cache_dir(tmp_path / "test_0.py").iterdir()}
        assert kept == {f"test_{number}{rewrite.PYC_TAIL}" for number in parts}


def test_a_file_that_cannot_be_compiled_is_left_to_pytest(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    for name, text in (("test_words.py", "def test_it(:"), ("test_null.py", "x = 1\0")):
        (tmp_path / name).write_text(text)
        assert not rewrite_once(pytestconfig, tmp_path / name)


def test_a_process_that_runs_all_tests_alone_rewrites_what_it_imports(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TEXT)
    session: Any = SimpleNamespace(config=SimpleNamespace())
    SharedRewriting().pytest_collection(session)
    assert [one.name for one in tmp_path.iterdir()] == ["test_it.py"]

"""A module of fastdist is imported once, right after the library it extends, in either order."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastdist.system.import_hooks import after_import


@pytest.fixture
def libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Write two modules, of which the second imports a name from the first."""
    (tmp_path / "their_library_.py").write_text("made = 1\n")
    (tmp_path / "our_module_.py").write_text("from their_library_ import made\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    before = list(sys.meta_path)
    yield
    sys.meta_path[:] = before
    for name in ("their_library_", "our_module_"):
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("libraries")
def test_our_module_follows_the_library() -> None:
    finders = len(sys.meta_path)
    after_import("their_library_", "our_module_")
    assert "our_module_" not in sys.modules
    importlib.import_module("their_library_")
    assert sys.modules["our_module_"].made == 1 and len(sys.meta_path) == finders


@pytest.mark.usefixtures("libraries")
def test_our_module_comes_at_once_where_the_library_is_there() -> None:
    importlib.import_module("their_library_")
    after_import("their_library_", "our_module_")
    assert sys.modules["our_module_"].made == 1

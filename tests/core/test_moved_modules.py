"""Names of earlier versions map to today's names, but only in pickles and files."""

from __future__ import annotations

import ast
import importlib
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from fastdist.core import moved_modules, moved_names
from fastdist.core.moved_modules import current_name, current_path, earlier_names
from fastdist.core.moved_names import MODULES, NAMES
from fastdist.language.scalar import Node, parse
from tests.house.test_sizes import parsed

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def _one_name(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Simulate a removed module whose two names have moved to two other modules."""
    monkeypatch.setattr(
        moved_names,
        "NAMES",
        {
            "fastdist.gone.drawer_.Node": "fastdist.language.scalar.Node",
            "fastdist.gone.drawer_.Errors": "fastdist.core.errors.ShapeError",
        },
    )
    for cached in (moved_modules._table, moved_modules._modules, moved_modules._packages):
        cached.cache_clear()
    yield
    for name in [name for name in sys.modules if name.startswith("fastdist.gone")]:
        del sys.modules[name]
    for cached in (moved_modules._table, moved_modules._modules, moved_modules._packages):
        cached.cache_clear()


def test_a_name_leads_to_where_it_is_today() -> None:
    assert current_name("fastdist.core.scalar", "Node.of") == (
        "fastdist.language.scalar",
        "Node.of",
    )
    assert current_name("fastdist.core.dtypes", "DType") == ("fastdist.core.dtypes", "DType")
    assert current_path("fastdist.core.scalar") == "fastdist.language.scalar"
    assert current_path("fastdist.core.scalar.parse") == "fastdist.language.scalar.parse"
    assert [current_path(path) for path in ("mine", "mine.own")] == ["mine", "mine.own"]


def test_a_pickle_finds_what_moved_with_its_module() -> None:
    assert pickle.loads(b"cfastdist.core.scalar\nparse\n.") is parse
    with pytest.raises(AttributeError, match="get attribute 'no'"):
        pickle.loads(b"cfastdist.core.scalar\nno\n.")


@pytest.mark.usefixtures("_one_name")
def test_a_pickle_finds_a_name_of_a_module_whose_names_went_apart() -> None:
    assert pickle.loads(b"cfastdist.gone.drawer_\nNode\n.") is Node
    by_parts = b"\x80\x04\x8c\x15fastdist.gone.drawer_\x8c\x0dNode.__repr__\x93."
    assert pickle.loads(by_parts) is Node.__repr__
    assert current_path("fastdist.gone.drawer_.Errors") == "fastdist.core.errors.ShapeError"
    with pytest.raises(AttributeError, match="get attribute 'Other'"):
        pickle.loads(b"cfastdist.gone.drawer_\nOther\n.")


@pytest.mark.usefixtures("_one_name")
def test_a_module_that_stays_finds_a_name_that_left_it(monkeypatch: pytest.MonkeyPatch) -> None:
    stays = ModuleType("fastdist.gone.drawer_")
    stays.__getattr__ = earlier_names(stays.__name__)  # type: ignore[method-assign]
    monkeypatch.setitem(sys.modules, stays.__name__, stays)
    assert pickle.loads(b"cfastdist.gone.drawer_\nNode\n.") is Node
    assert not hasattr(stays, "Other")


def test_what_is_in_no_row_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"fastdist\.core\.never_was"):
        importlib.import_module("fastdist.core.never_was")
    with pytest.raises(ModuleNotFoundError, match="never_was_"):
        importlib.import_module("never_was_")


@pytest.mark.one_in(3)
def test_an_earlier_module_imports_nothing_until_a_name_is_taken_from_it() -> None:
    code = (
        "import sys, fastdist, fastdist.core.unavailable_gpus\n"
        "del sys.modules['fastdist.core.unavailable_gpus']\n"
        "import fastdist.core.absent_gpus as earlier\n"
        "assert 'fastdist.core.unavailable_gpus' not in sys.modules\n"
        "assert earlier.device_count() == 0\n"
        "assert 'fastdist.core.unavailable_gpus' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, cwd=ROOT)


def test_rows_lead_from_what_is_gone_to_what_is_there() -> None:
    wrong = [old for old in MODULES if path_of(old) is not None]
    wrong += [new for new in MODULES.values() if path_of(new) is None]
    for old, new in NAMES.items():
        module, _, name = new.rpartition(".")
        if path_of(module) is None or not hasattr(importlib.import_module(module), name):
            wrong.append(new)
        if defines(old):
            wrong.append(old)
    assert not wrong, "a row leads from a name of an earlier version to one that is there today"


def path_of(module: str) -> Path | None:
    """Return the file of a module of fastdist, or None if there is no such module."""
    parts = module.split(".")
    root = ROOT / "kernels" if parts[1] == "kernels" else ROOT / "fastdist" / parts[1]
    place = root.joinpath(*parts[2:])
    found = [place.with_suffix(".py"), place / "__init__.py"]
    return next((path for path in found if path.exists()), None)


def defines(name: str) -> bool:
    """Return whether the module part of a dotted name defines the last part, in its own file."""
    path = path_of(name.rpartition(".")[0])
    names = [getattr(node, "name", "") for node in ast.parse(path.read_text()).body] if path else []
    return name.rpartition(".")[2] in names


@pytest.mark.one_in(3)
def test_no_source_imports_a_module_by_its_earlier_name() -> None:
    found = []
    for folder in ("fastdist", "kernels", "tests", "bench"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path != Path(__file__):
                found += [f"{path}: {name}" for name in imported(path) if name in MODULES]
    assert not found, "an earlier name works for files alone; import the module that is there"


def imported(path: Path) -> list[str]:
    """Return the full names of the modules that a file imports, and of names taken from modules."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    package = [*(["fastdist"] if parts[0] == "kernels" else []), *parts[:-1]]
    names = []
    for node in parsed()[path.relative_to(ROOT).as_posix()].imports:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            names += [stem, *(f"{stem}.{alias.name}" for alias in node.names)]
    return names

"""The key of a stored kernel changes with each source that the kernel may contain code of."""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest

from fastdist.kernels.cpu.jit import source_stamp
from fastdist.kernels.cpu.jit.source_stamp import module_stamp
from fastdist.kernels.cpu.pointwise.numba_pointwise import Source
from fastdist.language.scalar import parse
from tests.kernels.cpu.processes import ROOT, named_modules

KERNELS = "fastdist.kernels.cpu"
COMPUTING = ("fastdist.kernels", "fastdist.language", "fastdist.random_numbers")


def _path(module: str) -> Path:
    inside = module if module.startswith(KERNELS) else f"fastdist.{module}"
    return ROOT / f"{inside.removeprefix('fastdist.').replace('.', '/')}.py"


def _imported(text: str, module: str) -> Iterator[str]:
    """Yield the modules of packages with computations that a source imports."""
    for node in ast.walk(ast.parse(text)):
        names = []
        if isinstance(node, ast.Import):
            names = [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = module.split(".")[: -node.level] if node.level else []
            base = ".".join([*above, node.module or ""]).rstrip(".")
            names = [base, *(f"{base}.{one.name}" for one in node.names)]
        yield from (x for x in names if x.startswith(COMPUTING) and _path(x).is_file())


def _sources(modules: Iterable[str]) -> set[str]:
    found, new = set[str](), set(modules)
    while new:
        found |= new
        new = frozenset().union(*map(_imported_by, new)) - found
    return found


@functools.cache
def _imported_by(module: str) -> frozenset[str]:
    return frozenset(_imported(_path(module).read_text(), module))


def _change(source: str, change: pytest.MonkeyPatch) -> None:
    read = source_stamp._read
    change.setattr(source_stamp, "_read", lambda name: read(name) + b" " * (name == source))
    _forget()


def _forget() -> None:
    module_stamp.cache_clear()
    source_stamp._hashed.cache_clear()


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    _forget()


def test_a_stamp_changes_with_each_source_that_a_module_imports_and_no_other() -> None:
    named = named_modules()
    assert {"kept_block_code", "rows.row_code", "nn.ctc_loops", "jit.compiler"} <= named
    # The generated loops import modules, too, in their text.
    dtype = np.dtype(np.float32)
    text = Source([parse("x + x", ["x"]).tree], ["x"], [dtype], dtype).text()
    generated = _sources(_imported(text, "generated"))
    assert f"{KERNELS}.pointwise.special" in generated
    sources = {name: _sources([f"{KERNELS}.{name}"]) for name in named}
    writer = f"{KERNELS}.pointwise.numba_pointwise"
    assert writer in sources["pointwise.multi_tensor_loops"]
    for found in sources.values():
        found |= generated if writer in found else set()
    before = {name: module_stamp(name) for name in named}
    for source in set().union(*sources.values()):
        with pytest.MonkeyPatch.context() as change:
            _change(source, change)
            changed = {name for name in named if module_stamp(name) != before[name]}
        assert changed == {name for name in named if source in sources[name]}, source


@pytest.mark.parametrize(
    "source", ["kept_blocks", "jit.machine", "jit.compiler", "jit.numba_passes"]
)
def test_the_stamp_in_numbas_cache_changes_as_well(
    source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fastdist.kernels.cpu import kept_block_code
    from fastdist.kernels.cpu.jit.compiler import _Locator

    def stamp() -> str:
        file = inspect.getsourcefile(kept_block_code)
        assert file is not None
        return str(_Locator(kept_block_code.take, file).get_source_stamp())

    before = stamp()
    _change(f"{KERNELS}.{source}", monkeypatch)
    assert stamp() != before

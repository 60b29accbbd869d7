"""Functions that only compiled functions call get no separate machine code."""

from __future__ import annotations

from pathlib import Path

import pytest

from fastdist.kernels.cpu.jit import compiler
from fastdist.kernels.cpu.jit.compiler import compiled, entry_point
from tests.kernels.cpu.processes import run_script


@compiled(alone=False)
def _twice(x: int) -> int:
    return x + x


def test_part_is_called_by_compiled_code_and_not_by_python(monkeypatch: pytest.MonkeyPatch) -> None:
    # Compile without a cache: a cached kernel is loaded without its parts.
    monkeypatch.setattr(compiler, "_has_places", lambda: False)

    @compiled("a sample")
    def four_times(x: int) -> int:
        doubled: int = _twice(_twice(x))
        return doubled

    import numba

    assert entry_point(four_times, (numba.int64,))(5) == 20
    [made] = _twice.overloads.values()
    assert made.library._compiled_object is None
    with pytest.raises(ValueError, match="not in list"):
        _twice(5)


# Count the functions that LLVM compiles before the first call can run. These are the loop, its
# runner, and functions that Numba needs to start. If parts had separate code, there would be 25.
FIRST_CALL = """
import sys
import numpy as np
from numba.core.codegen import JITCodeLibrary
from fastdist.kernels.cpu.pointwise.pointwise import kernel_for
from fastdist.language.scalar import parse
finalize, made = JITCodeLibrary._finalize_specific, []
def count(self):
    made.append(self.name)
    finalize(self)
JITCodeLibrary._finalize_specific = count
x = np.ones(100_000, np.float32)
kernel_for(parse("x + y", ("x", "y"))).run([x, x], x)
print(len(made) <= 4, "scipy.linalg" in sys.modules)
"""


def test_first_kernel_is_few_pieces_of_code_and_imports_no_scipy(
    tmp_path: Path,
) -> None:
    told = run_script(FIRST_CALL, FASTDIST_CACHE_DIR=str(tmp_path))
    assert told == "True False"

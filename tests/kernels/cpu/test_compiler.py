"""Compiled kernels are found again by the next process; where none can be kept nothing fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kernels.cpu.processes import ROOT, run_script

SCRIPT = """
import numpy as np
from fastdist.core.cache_directory import cache_directory
from fastdist.core.scalar import parse
from fastdist.kernels.cpu.numba_pointwise import compile_loop
body, dtype = parse("x * T(5)", ("x",)), np.dtype(np.float32)
loop = compile_loop(body.tree, body.names, [dtype], dtype)
print(loop.address != 0, loop.was_cached, cache_directory() is not None)
"""


def compile_in_a_process(cache: Path) -> str:
    return run_script(SCRIPT, FASTDIST_CACHE_DIR=str(cache))


def test_second_process_finds_the_kernel_and_a_torn_file_is_compiled_anew(tmp_path: Path) -> None:
    assert compile_in_a_process(tmp_path) == "True False True"
    assert compile_in_a_process(tmp_path) == "True True True"
    for compiled in (tmp_path / "numba").glob("*.nbc"):
        compiled.write_bytes(compiled.read_bytes()[:100])
    assert compile_in_a_process(tmp_path) == "True False True"


def test_kernel_is_compiled_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert compile_in_a_process(tmp_path / "file" / "cache") == "True False False"


def test_nothing_is_written_beside_the_sources(tmp_path: Path) -> None:
    compile_in_a_process(tmp_path)
    assert list((tmp_path / "numba").glob("*.nbi"))
    assert not list((ROOT / "kernels").rglob("*.nb[ic]"))


@pytest.mark.parametrize("text", ["x * T(5)", "x * T(0.1)"])
def test_generated_source_names_its_body(text: str) -> None:
    import numpy as np

    from fastdist.core.scalar import parse
    from fastdist.kernels.cpu.numba_pointwise import _Source

    body, dtype = parse(text, ("x",)), np.dtype(np.float32)
    source = _Source(body.tree, body.names, [dtype], dtype).text()
    assert source.startswith(f"# {body.tree!r}\n# x float32 -> float32\n")

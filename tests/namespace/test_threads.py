"""set_num_threads and get_num_threads."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import fastdist as fd
from fastdist.system.blas import blas_threads


def test_kernels_and_matrix_products_take_the_number() -> None:
    before = fd.get_num_threads()
    try:
        fd.set_num_threads(1)
        assert fd.get_num_threads() == 1 and blas_threads() in (None, 1)
    finally:
        fd.set_num_threads(before)


@pytest.mark.parametrize(
    ("count", "kind"), [(0, RuntimeError), (True, TypeError), ("2", TypeError)]
)
def test_what_is_no_number_of_threads_is_refused(count: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="set_num_threads expects"):
        fd.set_num_threads(count)


def test_asking_does_not_import_numba() -> None:
    code = (
        "import sys, fastdist; assert fastdist.get_num_threads() > 0; print('numba' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "False"

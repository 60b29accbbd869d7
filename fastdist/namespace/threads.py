"""The number of threads of CPU kernels and matrix products."""

from __future__ import annotations

import os
import sys

from ..core.short_repr import short_repr
from ..system import blas

_LAUNCH = "fastdist.kernels.cpu.jit.launch"


def set_num_threads(int: int) -> None:
    """Set how many threads compiled kernels and matrix products may use, in the whole process.

    Raises  RuntimeError for a number below 1, TypeError for a value that is not an int

    Args:
        int: The number of threads.

    Example:
        >>> torch.set_num_threads(torch.get_num_threads())
    """
    if isinstance(int, bool) or not hasattr(int, "__index__"):
        raise TypeError(
            f"set_num_threads expects an int, but got {type(int).__name__} {short_repr(int)}"
        )
    if int < 1:
        raise RuntimeError(f"set_num_threads expects a positive integer, got {int}")
    from ..kernels.cpu.jit import launch

    launch.set_num_threads(int)
    blas.set_blas_threads(int)


def get_num_threads() -> int:
    """Return how many threads compiled kernels may use.

    Before a kernel has been compiled, return the number of threads of matrix products.
    """
    # Numba is not imported for this query, because its import is slow.
    launch = sys.modules.get(_LAUNCH)
    found: int = (blas.blas_threads() or 1) if launch is None else launch.get_num_threads()
    return found


def end_idle_threads() -> None:
    """End the idle threads of kernels and matrix products; later work starts new threads."""
    launch = sys.modules.get(_LAUNCH)
    if launch is not None:
        launch.end_idle_threads()
    blas.end_blas_threads()


def use_one_thread() -> None:
    """Limit all computations in this process to one thread, without importing NumPy or Numba."""
    os.environ["OMP_NUM_THREADS"] = "1"
    launch = sys.modules.get(_LAUNCH)
    if launch is not None:
        launch.set_num_threads(1)
    blas.set_blas_threads(1)

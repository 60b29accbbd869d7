"""How many threads the CPU's kernels and matrix products may use."""

from __future__ import annotations

import os
import sys

from ..core.short_repr import short_repr
from ..system import blas

_LAUNCH = "fastdist.kernels.cpu.jit.launch"


def set_num_threads(int: int) -> None:
    """Let compiled kernels and matrix products use up to so many threads, in the whole process.

    Raises  RuntimeError for a number below 1, TypeError for no integer

    Args:
        int: How many threads.

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
    """Return how many threads compiled kernels, or before one was compiled matrix products, may
    use.
    """
    # Not imported for the question alone: Numba takes its time.
    launch = sys.modules.get(_LAUNCH)
    found: int = (blas.blas_threads() or 1) if launch is None else launch.get_num_threads()
    return found


def end_idle_threads() -> None:
    """End the threads that wait for kernels and matrix products; the next ones start others."""
    launch = sys.modules.get(_LAUNCH)
    if launch is not None:
        launch.end_idle_threads()
    blas.end_blas_threads()


def use_one_thread() -> None:
    """Let all that this process computes run on one thread, without importing what computes."""
    os.environ["OMP_NUM_THREADS"] = "1"
    launch = sys.modules.get(_LAUNCH)
    if launch is not None:
        launch.set_num_threads(1)
    blas.set_blas_threads(1)

"""The way to CuPy, and from its errors to ours."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from fastdist.core.errors import KernelError
from fastdist.core.own_folder import ForeignFolderError, make_own_folder

_logger = logging.getLogger(__name__)


@functools.cache
def cupy() -> Any:
    """Return CuPy, loaded at the first call."""
    _keep_kernels_from_others()
    return import_module("cupy")


def _keep_kernels_from_others() -> None:
    """Let CuPy take compiled kernels from no folder that others could fill, but from memory."""
    if os.environ.get("CUPY_CACHE_IN_MEMORY") == "1":
        return
    path = os.environ.get("CUPY_CACHE_DIR") or os.path.expanduser("~/.cupy/kernel_cache")
    try:
        make_own_folder(path)
    except ForeignFolderError as error:
        os.environ["CUPY_CACHE_IN_MEMORY"] = "1"
        _logger.warning(
            "kernels for CUDA are not kept at %r, and compile anew in each process, since others "
            "could put code of theirs there: %s; name a folder of your own by CUPY_CACHE_DIR, or "
            "remove what others could write to",
            *(path, error),
        )
    except OSError as error:
        # CuPy finds that as well, when it has something to keep.
        _logger.info("no folder for CuPy's kernels at %r: %s", path, error)


@contextlib.contextmanager
def device_errors() -> Iterator[None]:
    """Turn what CUDA reports inside into KernelError."""
    cuda = cupy().cuda
    try:
        yield
    except (cuda.runtime.CUDARuntimeError, cuda.driver.CUDADriverError) as error:
        raise KernelError(f"cuda: {error}") from error

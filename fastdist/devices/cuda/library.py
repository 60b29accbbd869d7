"""Access to CuPy, and the translation of its errors."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final, NoReturn

from fastdist.core.errors import KernelError
from fastdist.system.own_folder import ForeignFolderError, make_own_folder

_logger = logging.getLogger(__name__)

# Codes of cudaError_t: the two results of a query, and errors after which every later call fails.
_SUCCESS, _NOT_READY = 0, 600
_STICKY: Final = frozenset({700, 702, *range(714, 720)})
_CAPTURE: Final = frozenset(range(900, 909))
_MOST_TEXT: Final = 2000


@functools.cache
def cupy() -> Any:
    """Return CuPy; the first call imports it."""
    _keep_kernels_from_others()
    return import_module("cupy")


def _keep_kernels_from_others() -> None:
    """Make CuPy cache compiled kernels in memory if other users can write to its cache folder."""
    if os.environ.get("CUPY_CACHE_IN_MEMORY") == "1":
        return
    path = os.environ.get("CUPY_CACHE_DIR") or os.path.expanduser("~/.cupy/kernel_cache")
    try:
        make_own_folder(path)
    except ForeignFolderError as error:
        os.environ["CUPY_CACHE_IN_MEMORY"] = "1"
        _logger.warning(
            "kernels for CUDA are not cached at %r, and compile again in each process, because "
            "others could put their code there: %s; set CUPY_CACHE_DIR to a folder of your own, "
            "or remove what others could write to",
            *(path, error),
        )
    except OSError as error:
        # This function only logs: CuPy itself reports the problem when it stores a kernel.
        _logger.info("no folder for CuPy's kernels at %r: %s", path, error)


@contextlib.contextmanager
def device_errors() -> Iterator[None]:
    """Raise errors of CUDA inside a with block as KernelError."""
    try:
        yield
    except Exception as error:
        raise_as_ours(error)


def raise_as_ours(error: Exception) -> NoReturn:
    """Raise KernelError for an error of CUDA's driver, libraries or compiler.

    Any other error is raised unchanged.
    """
    kind = type(error)
    if not f"{kind.__module__}.".startswith(("cupy.", "cupy_backends.", f"{cupy().__name__}.")):
        raise error
    text = (str(error).strip() or kind.__name__)[:_MOST_TEXT]
    status = getattr(error, "status", None)
    more = ""
    if status in _STICKY:
        more = (
            ": a kernel before this call failed, and this process cannot use the GPU any more; "
            "CUDA_LAUNCH_BLOCKING=1 shows which call it was, in a new process"
        )
    elif status in _CAPTURE:
        more = (
            ": not possible while a graph is captured: what waits for the GPU, such as item(), "
            "cpu() and print, and the default stream's work belong before or after the block"
        )
    elif kind.__name__ == "CompileException":
        more = (
            "\nfastdist's own text did not compile for this GPU: `fastdist info` has what to report"
        )
    raise KernelError(f"cuda: {text}{more}") from error


def is_done(status: int) -> bool:
    """Return whether a query's status means that all work is done.

    Raises  KernelError for an error of the device
    """
    if status in (_SUCCESS, _NOT_READY):
        return status == _SUCCESS
    with device_errors():
        raise cupy().cuda.runtime.CUDARuntimeError(status)

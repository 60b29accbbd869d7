"""Memory-mapped files: `from_file` of tensors and of storages."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ..core.errors import ShapeError


def map_file(path: str, num_bytes: int, *, shared: bool) -> np.ndarray[Any, Any]:
    """Return the first bytes of a file as a writable array of uint8.

    Raises  RuntimeError if the file cannot be opened; ShapeError if num_bytes is negative, or the
            file is too short and `shared` is False

    Args:
        path: The file.
        num_bytes: The number of bytes; 0 maps nothing.
        shared: If True, writes to the array change the file, and a file that is too short is
            extended. If False, writes change only the array.
    """
    if num_bytes < 0:
        raise ShapeError(f"unable to mmap {num_bytes} bytes from file <{path}>")
    try:
        with open(path, "ab" if shared else "rb") as file:
            found = os.fstat(file.fileno()).st_size
            if shared and found < num_bytes:
                file.truncate(num_bytes)
    except OSError as error:
        mode = "read-write" if shared else "read-only"
        raise RuntimeError(
            f"unable to open file <{path}> in {mode} mode: {error.strerror} ({error.errno})"
        ) from error
    if not shared and found < num_bytes:
        raise ShapeError(
            f"file <{path}> size <{found}> is smaller than the required mapping size <{num_bytes}>"
        )
    if not num_bytes:
        return np.empty(0, np.uint8)
    mapped: Any = np.memmap(path, np.uint8, "r+" if shared else "c", shape=(num_bytes,))
    return np.asarray(mapped)

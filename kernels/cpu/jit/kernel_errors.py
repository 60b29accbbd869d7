"""Raises the exceptions of compiled kernels."""

from __future__ import annotations

import io
import pickle
from typing import Any, NoReturn


class _Reader(pickle.Unpickler):
    """Unpickles Python's built-in exceptions, and no other names."""

    def find_class(self, module: str, name: str) -> Any:
        found = getattr(__import__("builtins"), name, None) if module == "builtins" else None
        if not (isinstance(found, type) and issubclass(found, Exception)):
            raise pickle.UnpicklingError(f"a kernel raised {module}.{name}")
        return found


def raise_pickled(data: bytes) -> NoReturn:
    """Raise an exception that Numba pickled when it compiled a kernel: its class, arguments and
    source location.
    """
    kind, given, _ = _Reader(io.BytesIO(data)).load()
    raise kind(*given)

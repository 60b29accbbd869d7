"""Raising what a compiled kernel raised."""

from __future__ import annotations

import io
import pickle
from typing import Any, NoReturn


class _Reader(pickle.Unpickler):
    """Finds exceptions of Python, and no other name."""

    def find_class(self, module: str, name: str) -> Any:
        found = getattr(__import__("builtins"), name, None) if module == "builtins" else None
        if not (isinstance(found, type) and issubclass(found, Exception)):
            raise pickle.UnpicklingError(f"a kernel raised {module}.{name}")
        return found


def raise_pickled(data: bytes) -> NoReturn:
    """Raise an exception that Numba pickled when it compiled a kernel: its class, its arguments
    and the place in the source.
    """
    kind, given, _ = _Reader(io.BytesIO(data)).load()
    raise kind(*given)

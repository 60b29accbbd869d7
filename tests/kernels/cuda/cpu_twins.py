"""CPU kernels as tensor calls reach them; half types are computed in float32."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import Any

from fastdist.kernels.cpu.halves import in_float32


def cpu_twins(file: str) -> Any:
    """Return the functions of one file of kernels/cpu as attributes, for arrays of any dtype."""
    module = import_module(f"fastdist.kernels.cpu.{file}")
    # No argument counts as only read, so inputs, which are unchanged, are copied back too.
    return SimpleNamespace(
        **{
            name: in_float32(f"{file}.{name}", kernel, 0)
            for name, kernel in vars(module).items()
            if callable(kernel) and not name.startswith("_")
        }
    )

"""The compiled loops of rows by name: loaded without Numba where the cache has them."""

from __future__ import annotations

from collections.abc import Callable

from ..jit.kernel_cache import find_loop
from ..jit.launch import row_launcher
from ..jit.waiting import compiling
from .row_steps import KERNELS

_found: dict[tuple[str, str], Callable[..., None]] = {}


def row_loop(name: str, dtype: str) -> Callable[..., None]:
    """Return the function that runs the kernel of a name in row_steps for float32 or float64; see
    row_launcher.

    Thread  any
    """
    found = _found.get((name, dtype))
    if found is None:
        with compiling(f"{name} of {dtype} along rows"):
            found = _found.get((name, dtype))
            if found is None:
                # The kernel decides on the code, whatever its name.
                loop = find_loop("rows.row_code", "compile_loop", name, dtype, KERNELS[name])
                found = _found[name, dtype] = row_launcher(loop)
    return found

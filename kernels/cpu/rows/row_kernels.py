"""The compiled loops over rows by name, loaded without Numba if they are stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..jit.kernel_cache import find_loop, stored_loop
from ..jit.launch import are_row_runners_stored, row_launcher
from ..jit.waiting import compiling
from .row_steps import KERNELS
from .small_row_steps import SMALL

_MAKER: Final = ("rows.row_code", "compile_loop")
_found: dict[tuple[str, str], Callable[..., None]] = {}


def row_loop(name: str, dtype: str) -> Callable[..., None]:
    """Return the function that runs the kernel with this name in row_steps or small_row_steps, for
    float32 or float64; see row_launcher.

    Thread  any
    """
    found = _found.get((name, dtype))
    if found is None:
        with compiling(f"{name} of {dtype} along rows"):
            found = _found.get((name, dtype))
            if found is None:
                loop = find_loop(*_MAKER, *_given(name, dtype))
                found = _found[name, dtype] = row_launcher(loop)
    return found


def stored_row_loop(name: str, dtype: str) -> Callable[..., None] | None:
    """Return the function that row_loop returns, or None if a compiler would be needed for the loop
    or for what runs it.

    Thread  any; two threads may load the same code, and one copy is kept
    """
    found = _found.get((name, dtype))
    if found is None:
        loop = stored_loop(*_MAKER, *_given(name, dtype))
        if loop is not None and are_row_runners_stored():
            found = _found.setdefault((name, dtype), row_launcher(loop))
    return found


def _given(name: str, dtype: str) -> tuple[str, str, object]:
    # The code depends on the kernel's steps, not only on its name.
    return name, dtype, SMALL[name] if name in SMALL else KERNELS[name]

"""Copies that change dtype, order or place, on CUDA arrays."""

from __future__ import annotations

from typing import Any, Final

from fastdist.core.scalar import parse

from .launch import launch
from .pointwise import plan

_ZERO: Final = parse("T(0)", ())
_SAME: Final = parse("x", ("x",))


def cast(x: Any, out: Any) -> None:
    """Write x into out, as C casts its dtype to out's. Same shape."""
    launch(plan(_SAME, [x], out))


def place(x: Any, out: Any, index: Any) -> None:
    """Write x into out[index] and zero everywhere else. index holds integers, slices, None and
    Ellipsis.
    """
    # What index names is written twice; that costs less than finding out what it leaves.
    launch([*plan(_ZERO, [], out), *plan(_SAME, [x], out[index])])

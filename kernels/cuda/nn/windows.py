"""Max pooling on CUDA arrays: the maximum of each window, and gather and scatter by its position.

`windows` has the same form as in the CPU module.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..launch import (
    C_TYPES,
    THREADS,
    Launch,
    computing_type,
    headers_for,
    int64_fields,
    is_real,
    is_whole,
    launch,
    text_of,
)
from ..planes import planes_of
from ..prepared import only_launches

Windows = tuple[tuple[int, int, int, int], ...]


@only_launches
def largest(x: Any, out: Any, places: Any, windows: Windows) -> None:
    """Write the largest element of each window into out, and its position into places.

    NaN counts as larger than all numbers. A window that is entirely in the padding gives the lowest
    number. float16 is compared in float32.
    """
    launch(plan_windows("largest", x, out, places, out.size, windows))


@only_launches
def pick(x: Any, places: Any, out: Any, windows: Windows) -> None:
    """Write into out, for each plane, the elements of x at the positions `places`. A position that
    is out of bounds gives NaN, or the largest or smallest integer.
    """
    launch(plan_windows("pick", x, out, places, out.size, windows))


@only_launches
def spread(x: Any, places: Any, out: Any, windows: Windows) -> None:
    """Write zeros into out, and add x at the positions `places` of each plane: the adjoint of pick.
    The position of each element must be within the window that has the element's index.
    """
    launch(plan_windows("spread", x, out, places, out.size, windows))


def plan_windows(
    name: str, x: Any, out: Any, places: Any, size: int, windows: Windows
) -> list[Launch]:
    """Return the launch of `largest`, `pick` or `spread`; no launch if the output is empty."""
    if not size:
        return []
    planes = planes_of((x, out, places), len(windows))
    counts = planes.lengths[2]
    lengths = planes.lengths[1 if name == "spread" else 0]
    three = ((1, 1, 0, 1),) * (3 - len(windows)) + windows
    fields = (
        *(size, *lengths, *counts),
        *[number for window in three for number in window],
        *[step for steps in planes.steps for step in steps],
        *planes.walk.shape,
        *[step for steps in planes.walk.strides for step in steps],
    )
    source = source_of_windows(x.dtype, len(planes.walk.shape), wide=size >= 2**32)
    arrays = (x, out, places) if name == "largest" else (x, places, out)
    return [Launch(source, name, (-(-size // THREADS), 1), (*arrays, int64_fields(*fields)))]


@functools.lru_cache(maxsize=256)
def source_of_windows(dtype: np.dtype[Any], kept: int = 1, *, wide: bool = False) -> str:
    """Return the CUDA source for the dtype of x and out, and a number of merged plane axes."""
    real = computing_type(dtype)
    lowest = "-__longlong_as_double(0x7ff0000000000000LL)"
    if not is_real(dtype):
        lowest = f"({np.iinfo(dtype).min + 1}LL - 1)" if dtype.kind == "i" else "0"
    return f"""{headers_for([dtype])}
typedef {C_TYPES[dtype]} Stored;
typedef {real} Real;
typedef {"unsigned long long" if wide else "unsigned int"} Index;
#define LOWEST {lowest}
constexpr int KEPT = {kept};
constexpr bool IS_WHOLE = {str(is_whole(dtype)).lower()};
{text_of("headers/poison.cuh", "nn/windows.cu")}"""

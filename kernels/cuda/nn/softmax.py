"""Softmax and its logarithm along one axis, on CUDA arrays."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..launch import C_TYPES, Launch, computing_type, launch, text_of
from ..prepared import only_launches
from ..rows import rows_along, rows_header, shared


@only_launches
def log_softmax(x: Any, out: Any, axis: int) -> None:
    """Write x - log(sum(exp(x))) along axis into out, shifted by the maximum to avoid overflow.

    A row with NaN or +inf gives NaN, as in PyTorch; an element -inf gives -inf. float16 is computed
    in float32.
    """
    launch(plan_softmax(x, out, axis, logarithm=True))


@only_launches
def softmax(x: Any, out: Any, axis: int) -> None:
    """Write exp(x) / sum(exp(x)) along axis into out, shifted by the maximum to avoid overflow.

    A row with NaN or +inf, or with only -inf, gives NaN, as in PyTorch. float16 is computed in
    float32.
    """
    launch(plan_softmax(x, out, axis, logarithm=False))


def plan_softmax(x: Any, out: Any, axis: int, *, logarithm: bool) -> list[Launch]:
    """Return the launch of softmax or log_softmax; no launch if x is empty. A 0-d x is treated as a
    row of one element.
    """
    rows = rows_along((x,), out, axis)
    if rows is None:
        return []
    pack = rows.pack
    lanes, held = shared(rows.length, pack, apart=rows.apart)
    source = source_of_softmax(
        *(x.dtype, rows.kept, held, pack),
        logarithm=logarithm,
        wide=rows.wide,
        apart=rows.apart,
    )
    return [rows.launch(source, "softmax", lanes)]


@functools.lru_cache(maxsize=256)
def source_of_softmax(
    dtype: np.dtype[Any],
    kept: int = 1,
    held: int = 0,
    pack: int = 1,
    *,
    logarithm: bool,
    wide: bool = False,
    apart: bool = False,
) -> str:
    """Return the CUDA source for x and out of a floating dtype. `kept` is the number of merged axes
    of rows. A thread holds `held` elements in registers, and loads `pack` adjacent elements at a
    time.
    """
    return f"""{rows_header([dtype], computing_type(dtype), held, pack, apart=apart)}
typedef {C_TYPES[dtype]} Stored;
typedef {"unsigned long long" if wide else "unsigned int"} Index;
constexpr int KEPT = {kept};
constexpr bool LOGARITHM = {str(logarithm).lower()};
{text_of("nn/softmax.cu")}"""

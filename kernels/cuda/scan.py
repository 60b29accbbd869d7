"""Running sums and products along one axis, on CUDA arrays."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .launch import C_TYPES, THREADS, Launch, headers_for, int64_fields, launch, text_of
from .layout import element_strides, walk


def cumsum(x: Any, out: Any, axis: int) -> None:
    """Write the sums of x[..., :k + 1, ...] along axis into out; float16 adds in float32."""
    launch(plan_scan(x, out, axis, product=False))


def cumprod(x: Any, out: Any, axis: int) -> None:
    """Write the products of x[..., :k + 1, ...] along axis into out; float16 computes in
    float32.
    """
    launch(plan_scan(x, out, axis, product=True))


def plan_scan(x: Any, out: Any, axis: int, *, product: bool) -> list[Launch]:
    """Return the launch of cumsum or cumprod; none if x is empty. A 0-d x is a row of one."""
    steps, out_steps = element_strides(x), element_strides(out)
    axis = axis % x.ndim if x.ndim else 0
    kept = [other for other in range(x.ndim) if other != axis]
    rows = walk(
        [x.shape[a] for a in kept], [[out_steps[a] for a in kept], [steps[a] for a in kept]]
    )
    length = x.shape[axis] if x.ndim else 1
    if not length or not rows.size:
        return []
    step_in, step_out = (steps[axis], out_steps[axis]) if x.ndim else (1, 1)
    lanes = min(32, 1 << (length - 1).bit_length())
    fields = (*rows.shape, *rows.strides[0], *rows.strides[1])
    task = int64_fields(rows.size, length, lanes, step_in, step_out, *fields)
    wide = rows.size >= 2**32
    source = source_of_scan(x.dtype, len(rows.shape), product=product, wide=wide)
    return [Launch(source, "scan", (-(-rows.size * lanes // THREADS), 1), (x, out, task))]


@functools.lru_cache(maxsize=256)
def source_of_scan(
    dtype: np.dtype[Any], kept: int = 1, *, product: bool, wide: bool = False
) -> str:
    """Return the text for x and out of one dtype and a number of merged axes that stay."""
    real = {"f": "double" if dtype.itemsize == 8 else "float"}.get(dtype.kind, "long long")
    return f"""{headers_for([dtype])}
typedef {C_TYPES[dtype]} Stored;
typedef {real} Real;
typedef {"unsigned long long" if wide else "unsigned int"} Index;
constexpr int KEPT = {kept};
constexpr bool PRODUCT = {str(product).lower()};
{text_of("scan.cu")}"""

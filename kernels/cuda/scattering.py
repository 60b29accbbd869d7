"""What meets at a place reduced, on CUDA arrays: in the order in which it lies."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .launch import C_TYPES, THREADS, Launch, headers_for, int64_fields, launch, text_of
from .layout import element_strides
from .prepared import only_launches


@only_launches
def reduce(x: Any, index: Any, src: Any, out: Any, axis: int, way: str, include_self: bool) -> None:
    """Write x into out, and there what of src meets at a place of index along axis, reduced by sum,
    mean, prod, amax or amin, with what stood there if include_self.

    float16 is computed in float32, and the mean of integers is rounded down.
    """
    launch(plan_reduce(x, index, src, out, axis, way, include_self))


def plan_reduce(
    x: Any, index: Any, src: Any, out: Any, axis: int, way: str, include_self: bool
) -> list[Launch]:
    """Return the launch; none if out is empty.

    Note    out lies without gaps; all have axes, as many. Places that axis has not are passed over
    """
    if not out.size:
        return []
    steps = [step for array in (x, index, src) for step in element_strides(array)]
    task = int64_fields(out.size, axis % out.ndim, include_self, *out.shape, *index.shape, *steps)
    source = source_of_reduce(out.dtype, out.ndim, way=way)
    grid = (-(-out.size // THREADS), 1)
    return [Launch(source, "reduce", grid, (x, index, src, out, task))]


@functools.lru_cache(maxsize=256)
def source_of_reduce(dtype: np.dtype[Any], dims: int = 1, *, way: str) -> str:
    """Return the text for elements of a dtype, a number of axes and a way."""
    if dtype == np.bool_ and way == "sum":
        way = "amax"
    real = {"e": "float", "?": "unsigned char"}.get(dtype.char, C_TYPES[dtype])
    return f"""{headers_for([dtype])}
{text_of("primitives.cuh")}
typedef {C_TYPES[dtype]} Stored;
typedef {real} Real;
enum Meeting {{ SUM, MEAN, PROD, AMAX, AMIN }};
constexpr Meeting MET = {way.upper()};
constexpr int DIMS = {dims};
{text_of("scattering.cu")}"""

"""Reduction of elements that share an index, on CUDA arrays, in the order of memory."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from fastdist.core.dtypes import WIDE

from ..launch import C_TYPES, THREADS, Launch, Scratch, headers_for, int64_fields, launch, text_of
from ..layout import element_strides
from ..prepared import only_launches
from ..shape.copying import cast
from .indexing import CHUNK, plan_sorted_elements


@only_launches
def reduce(x: Any, index: Any, src: Any, out: Any, axis: int, way: str, include_self: bool) -> None:
    """Copy x to out. Then reduce, by sum, mean, prod, amax or amin along axis, the elements of src
    that have the same index, and write the result at that index of out. With include_self, the
    element of x at that index takes part too.

    Half types are computed in float32, and the mean of integers is rounded down. An index that is
    out of bounds is skipped.
    """
    cast(x, out)
    if not out.size or not index.size:
        return
    ordered, sorted_, order = plan_sorted_elements(index, out, axis)
    launch([*ordered, *plan_reduce(index, src, sorted_, order, out, way, include_self)])


def plan_reduce(
    index: Any, src: Any, sorted_: Any, order: Any, out: Any, way: str, include_self: bool
) -> list[Launch]:
    """Return the launch that reduces the elements of src into out, by the sorted numbers of out's
    elements, and, if there are several chunks, the launch that combines the chunks' results. index,
    src and out have the same number of axes, at least one.
    """
    entries = index.size
    steps = (element_strides(out), index.shape, element_strides(src))
    fields = [n for one in (out.shape, *steps) for n in one]
    task = int64_fields(entries, out.size, include_self, *fields)
    source = source_of_reduce(out.dtype, out.ndim, way=way, wide=max(entries, out.size) >= 2**32)
    chunks = -(-entries // CHUNK)
    tails, heads = [Scratch((chunks,), _computed(out.dtype)) for _ in range(2)]
    args = (src, sorted_, order, out, tails, heads, task)
    met = [Launch(source, "meet", (-(-entries // THREADS), 1), args)]
    if chunks > 1:
        joined = (sorted_, tails, heads, out, task)
        met.append(Launch(source, "meet_chunks", (-(-chunks // THREADS), 1), joined))
    return met


def _computed(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which elements of a dtype are reduced."""
    return np.dtype(np.uint8) if dtype == np.bool_ else WIDE.get(dtype, dtype)


@functools.lru_cache(maxsize=256)
def source_of_reduce(dtype: np.dtype[Any], dims: int = 1, *, way: str, wide: bool = False) -> str:
    """Return the CUDA source of the reduction `way`, for a dtype and a number of axes."""
    if dtype == np.bool_ and way == "sum":
        way = "amax"
    return f"""{headers_for([dtype])}
{text_of("headers/primitives.cuh")}
typedef {C_TYPES[dtype]} Stored;
typedef {C_TYPES[_computed(dtype)]} Real;
typedef {"unsigned long long" if wide else "unsigned int"} Index;
enum Meeting {{ SUM, MEAN, PROD, AMAX, AMIN }};
constexpr Meeting MET = {way.upper()};
constexpr int DIMS = {dims};
constexpr long long CHUNK = {CHUNK};
{text_of("index/scattering.cu")}"""

"""Running sums, products, log-sums, extremes and linear recurrences, on CUDA arrays."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .launch import C_TYPES, Launch, adding_type, headers_for, is_real, launch, text_of
from .prepared import only_launches
from .rows import rows_along


@only_launches
def cumsum(x: Any, out: Any, axis: int) -> None:
    """Write the sums of x[..., :k + 1, ...] along axis into out; groups of floating numbers add in
    float32, or in float64 what is that long, and the groups' sums in float64.
    """
    launch(plan_scan(x, out, axis, joined="SUM"))


@only_launches
def cumprod(x: Any, out: Any, axis: int) -> None:
    """Write the products of x[..., :k + 1, ...] along axis into out; floating numbers are computed
    as in cumsum.
    """
    launch(plan_scan(x, out, axis, joined="PRODUCT"))


@only_launches
def logcumsumexp(x: Any, out: Any, axis: int) -> None:
    """Write log(sum(exp(x[..., :k + 1, ...]))) along axis into out; computed as in cumsum."""
    launch(plan_scan(x, out, axis, joined="LOG_SUM"))


def plan_scan(x: Any, out: Any, axis: int, *, joined: str) -> list[Launch]:
    """Return the launch of cumsum, cumprod or logcumsumexp; none if x is empty. A 0-d x is a
    row of one.
    """
    rows = rows_along((x,), out, axis)
    if rows is None:
        return []
    lanes = min(32, 1 << (rows.length - 1).bit_length())
    source = source_of_scan(x.dtype, rows.kept, joined=joined, wide=rows.wide)
    return [rows.launch(source, "scan", lanes)]


@functools.lru_cache(maxsize=256)
def source_of_scan(dtype: np.dtype[Any], kept: int = 1, *, joined: str, wide: bool = False) -> str:
    """Return the text for x and out of one dtype and a number of merged axes that stay."""
    real = adding_type(dtype)
    return f"""{headers_for([dtype])}
typedef {C_TYPES[dtype]} Stored;
typedef {real} Real;
typedef {"double" if is_real(dtype) else real} Carry;
typedef {"unsigned long long" if wide else "unsigned int"} Index;
constexpr int KEPT = {kept};
enum Joining {{ SUM, PRODUCT, LOG_SUM }};
constexpr Joining JOINED = {joined};
{text_of("scan.cu")}"""


@only_launches
def cummax(x: Any, out: Any, indices: Any, axis: int) -> None:
    """Write the largest of x[..., :k + 1, ...] along axis into out, and where it stands into
    indices: the last of equals; NaN from the first one on.
    """
    launch(plan_extremes(x, out, indices, axis, largest=True))


@only_launches
def cummin(x: Any, out: Any, indices: Any, axis: int) -> None:
    """Write the smallest of x[..., :k + 1, ...] along axis into out, and where it stands into
    indices: the last of equals; NaN from the first one on.
    """
    launch(plan_extremes(x, out, indices, axis, largest=False))


def plan_extremes(x: Any, out: Any, indices: Any, axis: int, *, largest: bool) -> list[Launch]:
    """Return the launch of cummax or cummin; none if x is empty. A 0-d x is a row of one."""
    rows = rows_along((x, indices), out, axis)
    if rows is None:
        return []
    lanes = min(32, 1 << (rows.length - 1).bit_length())
    source = source_of_extremes(x.dtype, rows.kept, largest=largest, wide=rows.wide)
    return [rows.launch(source, "extremes", lanes)]


@functools.lru_cache(maxsize=256)
def source_of_extremes(
    dtype: np.dtype[Any], kept: int = 1, *, largest: bool, wide: bool = False
) -> str:
    """Return the text for x and out of one dtype and a number of merged axes that stay."""
    real = adding_type(dtype)
    return f"""{headers_for([dtype])}
typedef {C_TYPES[dtype]} Stored;
typedef {real} Real;
typedef {"unsigned long long" if wide else "unsigned int"} Index;
constexpr int KEPT = {kept};
constexpr bool LARGEST = {str(largest).lower()};
{text_of("extremes.cu")}"""


@only_launches
def recurrence(factor: Any, x: Any, out: Any, axis: int, backwards: bool) -> None:
    """Write y of y[k] = factor[k] * y[k - 1] + x[k] along axis into out, beginning with x[0];
    backwards of y[k] = factor[k + 1] * y[k + 1] + x[k], beginning at the end.

    All of one shape. Computes in float64 and rounds once.
    """
    launch(plan_recurrence(factor, x, out, axis, backwards=backwards))


def plan_recurrence(factor: Any, x: Any, out: Any, axis: int, *, backwards: bool) -> list[Launch]:
    """Return the launch of recurrence; none if x is empty. A 0-d x is a row of one."""
    rows = rows_along((factor, x), out, axis)
    if rows is None:
        return []
    lanes = min(32, 1 << (rows.length - 1).bit_length())
    source = source_of_recurrence(x.dtype, rows.kept, backwards=backwards, wide=rows.wide)
    return [rows.launch(source, "recurrence", lanes)]


@functools.lru_cache(maxsize=256)
def source_of_recurrence(
    dtype: np.dtype[Any], kept: int = 1, *, backwards: bool, wide: bool = False
) -> str:
    """Return the text for arrays of one floating dtype and a number of merged axes that stay."""
    return f"""{headers_for([dtype])}
typedef {C_TYPES[dtype]} Stored;
typedef {"unsigned long long" if wide else "unsigned int"} Index;
constexpr int KEPT = {kept};
constexpr bool BACKWARDS = {str(backwards).lower()};
{text_of("recurrence.cu")}"""

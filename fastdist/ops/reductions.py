"""Sums and other values over axes."""

from __future__ import annotations

from typing import Any

from ..core.dtypes import DType, int64
from ..dispatch.rules import normalize_axes, reduced_shape
from ..dispatch.structured import Plan, structured
from ..tensor.layout import Layout
from ..tensor.tensor import Tensor


@structured("reduce.sum", linear=True)
def sum(
    input: Tensor,
    dim: int | tuple[int, ...] | None = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """Return the sum over dim, or over all axes.

    Shape   (..., n, ...) -> (..., ...), or (..., 1, ...) with keepdim
    Dtype   integers and bool add in int64; floating -> the same
    """


@sum.plan
def _(input: Tensor, dim: Any, keepdim: bool, dtype: DType | None) -> Plan:
    axes = normalize_axes("sum", dim, input.layout.shape)
    given = input.layout.dtype
    dtype = dtype or (given if given.is_floating_point else int64)
    shape = reduced_shape(input.layout.shape, axes, False)
    seen_as = reduced_shape(input.layout.shape, axes, True) if keepdim else None
    return Plan(shape, dtype, (axes,), compute=dtype, seen_as=seen_as)


@sum.vjp("input")
def _(g: Tensor, input_layout: Layout, dim: Any, keepdim: bool) -> Tensor:
    shape = input_layout.shape
    if not keepdim and len(g.layout.shape) != 0:
        g = g.reshape(reduced_shape(shape, normalize_axes("sum", dim, shape), True))  # type: ignore[attr-defined]
    return g.expand(shape)  # type: ignore[attr-defined, no-any-return]

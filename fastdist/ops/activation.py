"""Activations, element by element, and softmax."""

from __future__ import annotations

from typing import Any

from ..core.dtypes import DType
from ..dispatch.pointwise import pointwise
from ..dispatch.rules import normalize_axis
from ..dispatch.structured import Plan, structured
from ..tensor.tensor import Tensor


@pointwise("maximum(input, T(0))", ["where(out > T(0), g, T(0))"], dtype="number")
def relu(input: Tensor) -> Tensor:
    """Return max(input, 0); the gradient at 0 is 0."""


@structured("softmax.log_softmax", has_out=False, fresh=True)
def log_softmax(input: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """Return log(softmax(input)) along dim, without overflow.

    Shape   (..., n, ...) -> (..., n, ...)
    """


@log_softmax.plan
def _(input: Tensor, dim: int, dtype: DType | None) -> Plan:
    layout = input.layout
    axis = normalize_axis("log_softmax", dim, len(layout.shape))
    return Plan(layout.shape, dtype or layout.dtype, (axis,), compute=dtype or layout.dtype)


@log_softmax.vjp("input")
def _(g: Any, out: Any, dim: int) -> Tensor:
    return g - out.exp() * g.sum(dim, keepdim=True)  # type: ignore[no-any-return]


@log_softmax.jvp
def _(input_t: Any, out: Any, dim: int) -> Tensor:
    return input_t - (out.exp() * input_t).sum(dim, keepdim=True)  # type: ignore[no-any-return]

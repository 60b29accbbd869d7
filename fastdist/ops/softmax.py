"""Softmax and its logarithm."""

from __future__ import annotations

from typing import Any

from ..core.dtypes import WORDS, DType
from ..core.errors import NoKernelError
from ..dispatch.structured import Plan, structured
from ..tensor.axes import normalize_axis
from ..tensor.tensor import Tensor


@structured("softmax.log_softmax", fresh=True, homes="function method functional")
def log_softmax(input: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """Return log(softmax(input)) along dim, without overflow.

    Shape   (..., n, ...) -> (..., n, ...)
    """


@log_softmax.plan
def _(input: Tensor, dim: int, dtype: DType | None) -> Plan:
    layout = input.facts
    axis = normalize_axis("log_softmax", dim, len(layout.shape))
    compute = _floating("log_softmax", dtype or layout.dtype)
    return Plan(layout.shape, compute, (axis,), compute=compute)


def _floating(name: str, dtype: DType) -> DType:
    if not dtype.is_floating_point:
        raise NoKernelError(
            f'"{name}_lastdim_kernel_impl" not implemented for {WORDS[dtype]!r}: give dtype=, '
            "such as fastdist.float32"
        )
    return dtype


def _cast_first(op: Any) -> Any:
    """Return what op does with complex numbers: none, unless dtype has it take their real parts."""

    def of_complex(input: Any, dim: int, dtype: DType | None) -> Any:
        if dtype is None or dtype.is_complex:
            raise NoKernelError(
                f'"{op.name}_lastdim_kernel_impl" not implemented for '
                f"{WORDS[dtype or input.facts.dtype]!r}: give dtype=, such as fastdist.float32"
            )
        return op.public(input.to(dtype), dim)

    return of_complex


log_softmax.of_complex = _cast_first(log_softmax)


@log_softmax.vjp("input")
def _(g: Any, out: Any, dim: int) -> Tensor:
    return g - out.exp() * g.sum(dim, keepdim=True)  # type: ignore[no-any-return]


@log_softmax.jvp
def _(input_t: Any, out: Any, dim: int) -> Tensor:
    return input_t - (out.exp() * input_t).sum(dim, keepdim=True)  # type: ignore[no-any-return]


@structured("softmax.softmax", fresh=True, homes="function method functional")
def softmax(input: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """Return exp(input) divided by its sum along dim, without overflow.

    Shape   (..., n, ...) -> (..., n, ...)
    """


@softmax.plan
def _(input: Tensor, dim: int, dtype: DType | None) -> Plan:
    layout = input.facts
    axis = normalize_axis("softmax", dim, len(layout.shape))
    compute = _floating("softmax", dtype or layout.dtype)
    return Plan(layout.shape, compute, (axis,), compute=compute)


softmax.of_complex = _cast_first(softmax)


@softmax.vjp("input")
def _(g: Any, out: Any, dim: int) -> Tensor:
    return out * (g - (g * out).sum(dim, keepdim=True))  # type: ignore[no-any-return]


@softmax.jvp
def _(input_t: Any, out: Any, dim: int) -> Tensor:
    return out * (input_t - (input_t * out).sum(dim, keepdim=True))  # type: ignore[no-any-return]

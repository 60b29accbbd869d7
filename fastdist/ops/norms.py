"""Standard deviations and norms."""

from __future__ import annotations

import math
from typing import Any

from ..core.dtypes import DType
from ..core.errors import ShapeError
from ..dispatch.composite import COMPOSITES, composite
from ..dispatch.op import OPS
from ..dispatch.output import given_out
from ..dispatch.structured import Plan, structured
from ..tensor.axes import normalize_axes
from ..tensor.layout import Layout
from ..tensor.tensor import Tensor
from .reductions import kept, reducing_plan, require_floating

UNSET: Any = object()


def _correction(unbiased: bool, correction: Any) -> float:
    if correction is UNSET:
        return 1.0 if unbiased else 0
    # Of an attribute that is 0.0, which might be -0.0, no Way is kept.
    return 1.0 if correction is None else float(correction) or 0


@composite(known_as="")
def var(
    input: Tensor,
    dim: int | tuple[int, ...] | bool | None = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: Any = UNSET,
    out: Any = None,
) -> Tensor:
    """Return the variance over dim: squared deviations over their number - correction (1)."""
    if isinstance(dim, bool):
        unbiased, dim = dim, None
    number = _correction(unbiased, correction)
    if input.facts.dtype.is_complex:
        found = sum(OPS["variance"].public(part, dim, number, keepdim) for part in _parts(input))
        return given_out("var", out, found, (input,), "cast")
    return OPS["variance"].public(input, dim, number, keepdim, out=out)  # type: ignore[no-any-return]


@structured("reduce.std", fresh=True, homes="nowhere", known_as="std", has_out=True, out="cast")
def deviation(input: Tensor, dim: Any, correction: float, keepdim: bool) -> Tensor:
    """Return the square root of the variance over dim."""


@deviation.plan
def _(input: Tensor, dim: Any, correction: float, keepdim: bool) -> Plan:
    dtype = require_floating("std and var", input)
    return reducing_plan("std", input, dim, keepdim, dtype, (float(correction),))


def _slope(input: Any, out: Any, dim: Any, correction: float, keepdim: bool) -> Any:
    """Return d out / d input; 0 where nothing deviates, as in PyTorch."""
    layout = input.facts
    dims = normalize_axes("std", dim, layout.shape)
    n = math.prod(layout.shape[axis] for axis in dims)
    left = max(n - correction, 0.0)
    whole = kept(out, layout, dim, keepdim)
    # Filled before the division: filled after it, the slope of the slope would be 0 times infinity.
    inverse = 1.0 / whole.masked_fill(whole == 0, math.inf)
    return (input - input.mean(dims, True)) * inverse * (1.0 / left if left else math.inf)


@deviation.vjp("input")
def _(g: Any, input: Any, out: Any, dim: Any, correction: float, keepdim: bool) -> Any:
    return kept(g, input.facts, dim, keepdim) * _slope(input, out, dim, correction, keepdim)


@deviation.jvp
def _(input: Any, input_t: Any, out: Any, dim: Any, correction: float, keepdim: bool) -> Any:
    dims = normalize_axes("std", dim, input.facts.shape)
    return (input_t * _slope(input, out, dim, correction, keepdim)).sum(dims, keepdim)


@composite(known_as="")
def std(
    input: Tensor,
    dim: int | tuple[int, ...] | bool | None = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: Any = UNSET,
    out: Any = None,
) -> Tensor:
    """Return the standard deviation over dim; see var."""
    if isinstance(dim, bool):
        unbiased, dim = dim, None
    number = _correction(unbiased, correction)
    if input.facts.dtype.is_complex:
        parts = [OPS["deviation"].public(part, dim, number, keepdim) for part in _parts(input)]
        # As a norm, which has a slope of 0 where nothing deviates.
        found = OPS["vector_norm"].public(COMPOSITES["stack"].call(parts), 2.0, 0)
        return given_out("std", out, found, (input,), "cast")
    return OPS["deviation"].public(input, dim, number, keepdim, out=out)  # type: ignore[no-any-return]


def _parts(input: Any) -> tuple[Any, Any]:
    return input.real, input.imag


def sized(input: Any, dtype: Any = None) -> Any:
    """Return what has the norms of input and is real: of complex numbers, cast to dtype if that is
    given, their sizes.
    """
    if not input.facts.dtype.is_complex:
        return input if dtype is None else input.to(dtype)
    return (input if dtype is None else input.to(dtype)).abs()


@structured("reduce.norm", fresh=True, homes="nowhere", known_as="linalg_vector_norm", has_out=True)
def vector_norm(
    input: Tensor, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """Return (sum of |x|**ord)**(1/ord) over dim; ord inf: the largest, -inf: the smallest |x|."""


@vector_norm.plan
def _(input: Tensor, ord: float, dim: Any, keepdim: bool, dtype: DType | None) -> Plan:
    given = dtype or require_floating("linalg.vector_norm: Expected a floating point; norms", input)
    if not input.facts.numel and (ord < 0 or ord == math.inf):
        _require_elements(input.facts.shape, ord, dim)
    return reducing_plan("norm", input, dim, keepdim, given, (float(ord),), compute=given)


def _require_elements(shape: tuple[int, ...], ord: float, dim: Any) -> None:
    """Raise if something would be the largest, or the smallest, of no elements."""
    for axis in normalize_axes("norm", dim, shape):
        if shape[axis] == 0:
            where = "an empty tensor" if dim in (None, ()) else f"the dimension {axis}"
            raise ShapeError(
                f"linalg.vector_norm cannot compute the {ord} norm on {where} because the "
                f"operation does not have an identity, and of {shape} nothing is there"
            )


def _direction(input: Any, out: Any, ord: float) -> Any:
    """Return d norm / d input, with out kept as input's shape with axes of 1."""
    if ord == 0:
        return input.sign() * 0.0  # the sign of NaN is 0
    if ord == 1:
        return input.sign()
    if ord == 2:
        return input / out.masked_fill(out == 0, math.inf)
    size = input.abs()
    if math.isinf(ord):
        # Where several are the largest, or NaN is, they share.
        mask = (size == out).logical_or(size.isnan()).to(input.dtype)
        shared = mask.sum(_ones_of(input, out), True) if out.facts.shape else mask.sum()
        return input.sign() * (mask / shared)
    if ord < 2:
        part = (input.sign() * size.pow(ord - 1)).masked_fill(input == 0, 0.0)
    else:
        part = input * size.pow(ord - 2)
    slope = out.masked_fill(out == 0, math.inf).pow(1 - ord) if ord > 1 else out.pow(1 - ord)
    return part * slope.masked_fill(out == 0, 0.0)


def _ones_of(input: Any, out: Any) -> tuple[int, ...]:
    pairs = zip(input.facts.shape, out.facts.shape, strict=True)
    return tuple(i for i, (n, m) in enumerate(pairs) if m == 1 or n != m)


@vector_norm.vjp("input")
def _(
    g: Any, input: Any, out: Any, ord: float, dim: Any, keepdim: bool, input_layout: Layout
) -> Any:
    whole = kept(out, input_layout, dim, keepdim)
    return kept(g, input_layout, dim, keepdim) * _direction(input, whole, float(ord))


@vector_norm.jvp
def _(input: Any, input_t: Any, out: Any, ord: float, dim: Any, keepdim: bool) -> Any:
    whole = kept(out, input.facts, dim, keepdim)
    dims = normalize_axes("norm", dim, input.facts.shape)
    return (input_t * _direction(input, whole, float(ord))).sum(dims, keepdim)


@composite()
def norm(
    input: Tensor,
    p: float | str | None = "fro",
    dim: Any = None,
    keepdim: bool = False,
    out: Any = None,
    dtype: Any = None,
) -> Tensor:
    """Return the vector norm of order p over dim; "fro" is 2, "nuc" the sum of a matrix's singular
    values.
    """
    if p == "nuc":
        axes = range(len(input.facts.shape)) if dim is None else dim
        return COMPOSITES["linalg.matrix_norm"].call(  # type: ignore[no-any-return]
            input, "nuc", axes, keepdim, dtype=dtype, out=out
        )
    if isinstance(p, str) and p != "fro":
        raise RuntimeError(f'norm: p is a number, "fro" or "nuc", got {p!r}')
    order = 2 if p is None or isinstance(p, str) else p
    if input.facts.dtype.is_complex:
        input, dtype = sized(input, dtype), None
    result = OPS["vector_norm"].public(input, order, dim, keepdim, dtype=dtype)
    return given_out("norm", out, result, (input,))

"""Matrix products of CUDA arrays: by cuBLASLt, or by CuPy if cuBLASLt has no kernel."""

from __future__ import annotations

import functools
from typing import Any, Final

import numpy as np

from fastdist.core.dtypes import WIDE
from fastdist.core.precision import Choice, products
from fastdist.language.scalar import parse

from ..launch import Call, Scratch, Slot
from ..pointwise.pointwise import pointwise
from ..prepared import only_launches
from .library_product import Product, laid_out, multiply

_SUM: Final = parse("x + y", ("x", "y"))
_SAME: Final = parse("x", ("x",))


@only_launches
def matmul(x: Any, y: Any, out: Any) -> None:
    """Write x @ y into out; batch axes broadcast.

    Shapes (..., n, k), (..., k, m) -> (..., n, m), one dtype, any strides. float16 products are
    added in float32.

    Thread  any; queued on the current stream of out's device
    """
    if isinstance(out, Slot):
        out.launches.append(product_step(x, y, out))
        return
    with out.device:
        if not multiply(x, y, out):
            _multiply_otherwise(x, y, out)


@only_launches
def by_first(g: Any, y: Any, out: Any) -> None:
    """Write g @ y.T, the gradient of x @ y by x, into out. Shapes (n, m), (k, m) -> (n, k), one
    dtype, any strides.
    """
    _multiply_turned((g, y), (g, _turned(y)), out)


@only_launches
def by_second(g: Any, x: Any, out: Any) -> None:
    """Write x.T @ g, the gradient of x @ y by y, into out. Shapes (n, m), (n, k) -> (k, m)."""
    _multiply_turned((x, g), (_turned(x), g), out)


@only_launches
def by_weight(g: Any, x: Any, out: Any) -> None:
    """Write g.T @ x, the gradient of linear by the weight, into out. Shapes (n, m), (n, k) -> (m,
    k).
    """
    _multiply_turned((g, x), (_turned(g), x), out)


def _multiply_turned(given: tuple[Any, Any], seen: tuple[Any, Any], out: Any) -> None:
    """Write the product of `seen`, which are views of the given matrices, into out. For slots,
    record the product.
    """
    if isinstance(out, Slot):
        out.launches.append(Call(Product((*seen, out), _multiply_otherwise), (*given, out)))
    else:
        matmul(*seen, out)


def _turned(x: Any) -> Any:
    """Return a view of the transposed matrix, or a slot for it."""
    if isinstance(x, Slot):
        return x.seen_as(x.shape[::-1], x.strides[::-1])
    return x.transpose((1, 0))


def product_step(
    x: Slot | Scratch, y: Slot | Scratch, out: Slot | Scratch, choice: Choice = products
) -> Call:
    """Return the step of prepared launches that computes x @ y, with the result of matmul. The
    strides of x, y and out may differ from those of the arrays in later calls. `choice` decides at
    each call whether TF32 may be used.
    """
    otherwise = functools.partial(_multiply_otherwise, choice=choice)
    return Call(Product((x, y, out), otherwise, choice=choice), (x, y, out))


def _multiply_otherwise(x: Any, y: Any, out: Any, choice: Choice = products) -> None:
    """Multiply arrays whose strides or dtypes cuBLASLt does not support."""
    import cupy

    made = out if out.flags.c_contiguous else cupy.empty(out.shape, out.dtype)
    batch = out.shape[:-2]
    if not multiply(laid_out(x, batch), laid_out(y, batch), made, choice=choice):
        if x.dtype in WIDE and x.ndim == y.ndim == 2 and out.size == 1:
            # If the result has one element, CuPy does not use cuBLAS, and rounds each product.
            made[...] = cupy.matmul(x.astype(np.float32), y.astype(np.float32))
        elif (wider := _WIDER.get(x.dtype)) and products.tf32 and not choice.tf32:
            # CuPy's TF32 setting affects all products of the process, so it is not changed here.
            made[...] = cupy.matmul(x.astype(wider), y.astype(wider))
        else:
            cupy.matmul(x, y, out=made)
    if made is not out:
        pointwise(_SAME, [made], out)


# Dtypes for which CuPy may use TF32 -> wider dtypes, for which it does not.
_WIDER: Final[dict[np.dtype[Any], Any]] = {
    np.dtype(np.float32): np.float64,
    np.dtype(np.complex64): np.complex128,
}


def multiply_wide(x: Any, y: Any, factor: float = 1.0) -> Any:
    """Return x @ y * factor in C order. For half types the result is float32, in which large sums
    do not overflow.

    Shape   (..., n, k), (..., k, m), with one dtype and the same batch axes -> (..., n, m)

    Thread  any; queued on the current stream of the current device, which must be x's
    """
    import cupy

    made = cupy.empty((*x.shape[:-1], y.shape[-1]), WIDE.get(x.dtype, x.dtype))
    if not multiply(laid_out(x), laid_out(y), made, None, factor):
        wide = [one.astype(made.dtype) if one.dtype in WIDE else one for one in (x, y)]
        cupy.matmul(*wide, out=made)
        if factor != 1.0:
            pointwise(_SCALED, [made, np.asarray(factor, made.dtype)], made)
    return made


_SCALED: Final = parse("x * factor", ("x", "factor"))


@only_launches
def linear(x: Any, weight: Any, bias: Any, out: Any) -> None:
    """Write x @ weight.T + bias into out. Shapes (n, k), (m, k), (m,) -> (n, m), one dtype."""
    if isinstance(out, Slot):
        slots = (x, weight, out) if bias is None else (x, weight, bias, out)
        out.launches.append(Call(Product(slots, _linear_otherwise, is_turned=True), slots))
        return
    with out.device:
        if not multiply(x, weight, out, bias, is_turned=True):
            _linear_otherwise(*((x, weight, out) if bias is None else (x, weight, bias, out)))


def _linear_otherwise(x: Any, weight: Any, *bias_and_out: Any) -> None:
    *bias, out = bias_and_out
    matmul(x, weight.transpose((1, 0)), out)
    if bias:
        pointwise(_SUM, [out, *bias], out)

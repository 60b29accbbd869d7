"""Checks of the arguments of matrix functions."""

from __future__ import annotations

import numpy as np

from ...core.dtypes import WORDS, float32, float64
from ...core.errors import DTypeError, LinAlgError, NoKernelError, ShapeError
from ...interpreters.batched_tensor import unbatched
from ...tensor.broadcast import broadcast_shapes
from ...tensor.layout import Shape
from ...tensor.tensor import Tensor


def require_matrix(name: str, input: Tensor, what: str = "A") -> Shape:
    """Return the shape of input.

    Raises  RuntimeError if input has fewer than two axes
    """
    shape = input._layout.shape
    if len(shape) < 2:
        raise ShapeError(
            f"{name}: The input tensor {what} must have at least 2 dimensions, got {shape}"
        )
    return shape


def require_square(name: str, input: Tensor) -> Shape:
    """Return the shape of input.

    Raises  RuntimeError if input does not consist of square matrices
    """
    shape = require_matrix(name, input)
    if shape[-2] != shape[-1]:
        raise ShapeError(
            f"{name}: A must be batches of square matrices, but they are {shape[-2]} by "
            f"{shape[-1]} matrices"
        )
    return shape


def require_computable(
    name: str, kernel: str, input: Tensor, *, takes_complex: bool = False
) -> None:
    """Raise NotImplementedError for a dtype that LAPACK does not support. Complex dtypes are
    accepted if `takes_complex` is true.
    """
    dtype = input._layout.dtype
    if dtype is float32 or dtype is float64 or (takes_complex and dtype.is_complex):
        return
    require_real(name, input)
    word = WORDS[dtype]
    raise NoKernelError(
        f"\"{kernel}\" not implemented for '{word}': {name} computes in float32 or float64"
    )


def require_real(name: str, input: Tensor) -> None:
    """Raise NoKernelError, which is a RuntimeError and a NotImplementedError, for dtypes that are
    not real floating-point dtypes.
    """
    dtype = input._layout.dtype
    if dtype.is_complex:
        raise NoKernelError(f"{name} does not take complex numbers yet, got {dtype.name}")
    if not dtype.is_floating_point:
        raise NoKernelError(
            f"{name}: Expected a floating point or complex tensor as input. Got "
            f"{WORDS[dtype]}; cast with .to(fastdist.float32)"
        )


def require_same_dtype(name: str, a: Tensor, b: Tensor) -> None:
    """Raise RuntimeError for matrices of different dtypes."""
    if a._layout.dtype is not b._layout.dtype:
        kinds = [WORDS[one._layout.dtype] for one in (a, b)]
        raise DTypeError(
            f"{name}: Expected A and B to have the same dtype, but found A of type {kinds[0]} and "
            f"B of type {kinds[1]} instead"
        )


def require_fitting(name: str, a: Shape, b: Shape, left: bool = True) -> None:
    """Raise RuntimeError unless b has as many rows as a (as many columns, if `left` is false)."""
    if a[-2] != b[-2 if left else -1]:
        raise ShapeError(
            f"{name}: Incompatible shapes of A and B for the equation {'AX' if left else 'XA'} = B "
            f"({a[-2]}x{a[-1]} and {b[-2]}x{b[-1]})"
        )


def batch_of(name: str, *shapes: Shape) -> Shape:
    """Return the batch axes to which matrices of these shapes broadcast."""
    return broadcast_shapes(name, [shape[:-2] for shape in shapes])


def require_computed(name: str, info: Tensor, words: str) -> None:
    """Raise LinAlgError if info is nonzero for any matrix; in `words`, `{}` is replaced by info.

    Note    waits for the device
    """
    info = unbatched(info)
    told = info._array
    if not isinstance(told, np.ndarray):
        if info.is_meta:
            return  # a meta tensor has no values to check
        told = info.cpu()._array
    if not told.any():
        return
    first = int(told.reshape(-1).nonzero()[0][0])
    where = f"(Batch element {first}): " if told.ndim else ""
    raise LinAlgError(f"{name}: {where}{words.format(int(told.reshape(-1)[first]))}")


SINGULAR = (
    "The diagonal element {} is zero, the inversion could not be completed because the input "
    "matrix is singular."
)

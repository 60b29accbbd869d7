"""What PyTorch asks of complex numbers, for tensors of real ones: their parts and signs.

A real number is its own conjugate and its own real part, so these return the tensor itself.
"""

from __future__ import annotations

from ..core.dtypes import bool_
from ..core.errors import DTypeError, ShapeError
from ..dispatch.composite import composite
from ..dispatch.pointwise import ZERO, pointwise
from ..tensor.tensor import Tensor
from .creation import ones_like


@composite()
def conj(input: Tensor) -> Tensor:
    """Return input itself: its numbers are real."""
    return input


@composite(takes_out=True)
def conj_physical(input: Tensor) -> Tensor:
    """Return input itself: its numbers are real."""
    return input


@composite()
def conj_physical_(input: Tensor) -> Tensor:
    """Return input itself: its numbers are real."""
    return input


@composite()
def resolve_conj(input: Tensor) -> Tensor:
    """Return input itself: no conjugate is waiting to be taken."""
    return input


@composite()
def resolve_neg(input: Tensor) -> Tensor:
    """Return input itself: no sign is waiting to be changed."""
    return input


@composite(method=False)
def real(input: Tensor) -> Tensor:
    """Return input itself: its numbers are real."""
    return input


@composite(method=False)
def imag(input: Tensor) -> Tensor:
    """Raise RuntimeError: real numbers have no imaginary part, here as in PyTorch."""
    raise DTypeError(
        "imag is not implemented for tensors with non-complex dtypes. It would be 0: take "
        "zeros_like()"
    )


@composite()
def is_conj(input: Tensor) -> bool:
    """Return False: no conjugate is waiting to be taken."""
    return False


@composite()
def is_neg(input: Tensor) -> bool:
    """Return False: no sign is waiting to be changed."""
    return False


@composite()
def isreal(input: Tensor) -> Tensor:
    """Return True for every element."""
    return ones_like(input, dtype=bool_)


@pointwise(
    "where(input < T(0), T(3.141592653589793), where(input == input, T(0), input))",
    [ZERO],
    dtype="floating",
)
def angle(input: Tensor) -> Tensor:
    """Return 0 for numbers from 0 on, pi for those below, NaN for NaN; its gradient is 0."""


@composite()
def adjoint(input: Tensor) -> Tensor:
    """Return a view with the last two axes swapped.

    Raises  RuntimeError for a vector
    """
    shape = input.facts.shape
    if len(shape) == 1:
        raise ShapeError(
            "tensor.adjoint() is only supported on matrices or batches of matrices. Got 1-D tensor."
        )
    return input.transpose(-2, -1) if shape else input

"""What is asked of real and of complex numbers alike: their conjugates and parts.

A real number is its own conjugate and its own real part: of these the tensor itself is returned. No
conjugate waits to be taken: conj() makes it at once.
"""

from __future__ import annotations

from ..core.dtypes import bool_
from ..core.errors import ShapeError
from ..dispatch.composite import composite
from ..tensor.tensor import Tensor
from .complex_numbers import conjugate, imaginary_part, real_part
from .creation import ones_like


@composite()
def conj(input: Tensor) -> Tensor:
    """Return the conjugates of complex numbers; real numbers themselves."""
    return conjugate(input)


@composite(takes_out=True)
def conj_physical(input: Tensor) -> Tensor:
    """Return the conjugates of complex numbers; real numbers themselves."""
    return conjugate(input)


@composite()
def conj_physical_(input: Tensor) -> Tensor:
    """Conjugate complex numbers in place."""
    # A real number is its own conjugate, and written all the same: who saved it learns of it.
    return input.copy_(conjugate(input))


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
    """Return the view of the real parts of complex numbers; real numbers themselves."""
    return real_part(input)


@composite(method=False)
def imag(input: Tensor) -> Tensor:
    """Return the view of the imaginary parts of complex numbers.

    Raises  RuntimeError for real numbers
    """
    return imaginary_part(input)


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
    """Return where the imaginary part is 0: for real numbers everywhere."""
    if input.facts.dtype.is_complex:
        return imaginary_part(input) == 0
    return ones_like(input, dtype=bool_)


@composite()
def adjoint(input: Tensor) -> Tensor:
    """Return a view with the last two axes swapped; of complex numbers the conjugates.

    Raises  RuntimeError for a vector
    """
    shape = input.facts.shape
    if len(shape) == 1:
        raise ShapeError(
            "tensor.adjoint() is only supported on matrices or batches of matrices. Got 1-D tensor."
        )
    return conjugate(input.transpose(-2, -1) if shape else input)

"""Functions of real and complex numbers: conjugates and parts.

A real tensor is its own conjugate and its own real part, and is returned unchanged. The conjugate
of a complex tensor is a view, whose values are computed when they are read: see Note [Lazily
conjugated views] in graph/lazy_conj_neg.py.
"""

from __future__ import annotations

from typing import Any

from ...core.dtypes import bool_
from ...core.errors import ShapeError
from ...dispatch.composite import composite
from ...tensor.tensor import Tensor
from ..create.creation import ones_like
from ..shape.copying import clone
from .complex_numbers import conjugate, conjugate_view, imaginary_part, is_seen_as, real_part


@composite()
def conj(input: Tensor) -> Tensor:
    """Return a view of the conjugates of complex numbers; real tensors are returned unchanged.

    Note    the view shares the memory of input, so writes into the view change input. is_conj() of
            the view is True, and resolve_conj() returns a copy. Each op computes the conjugates
            again, so resolve a view that is read often. The view is an instance of a subclass of
            Tensor: use isinstance(), not type(). If input is an instance of a user's subclass, the
            view is not an instance of that subclass. A sparse tensor is copied

    Args:
        input: A tensor of any shape and dtype.

    Example:
        >>> torch.conj(torch.tensor([1 + 2j])).resolve_conj()
        tensor([1.-2.j])
    """
    return conjugate_view(input)


@composite(out="same")
def conj_physical(input: Tensor) -> Tensor:
    """Return the conjugates of complex numbers; real tensors are returned unchanged."""
    return conjugate(input)


@composite()
def conj_physical_(input: Tensor) -> Tensor:
    """Conjugate complex numbers in place."""
    # Real numbers are written, too, so that the version of the tensor changes as in PyTorch.
    return input.copy_(conjugate(input))


@composite()
def resolve_conj(input: Tensor) -> Tensor:
    """Return a copy of a conjugated view; any other tensor is returned unchanged."""
    return _resolved(input) if is_seen_as(input, "conj") else input


@composite()
def resolve_neg(input: Tensor) -> Tensor:
    """Return a copy of a negated view; any other tensor is returned unchanged."""
    return _resolved(input) if is_seen_as(input, "neg") else input


def _resolved(input: Tensor) -> Tensor:
    made: Any = clone(input)
    return made  # type: ignore[no-any-return]


@composite(homes="function")
def real(input: Tensor) -> Tensor:
    """Return a view of the real parts of complex numbers; real tensors are returned unchanged."""
    return real_part(input)


@composite(homes="function")
def imag(input: Tensor) -> Tensor:
    """Return a view of the imaginary parts of complex numbers.

    Raises  RuntimeError for real numbers
    """
    return imaginary_part(input)


@composite()
def is_conj(input: Tensor) -> bool:
    """Return whether the tensor is a lazily conjugated view."""
    return is_seen_as(input, "conj")


@composite()
def is_neg(input: Tensor) -> bool:
    """Return whether the tensor is a lazily negated view, such as `imag` of a conjugated view."""
    return is_seen_as(input, "neg")


@composite()
def isreal(input: Tensor) -> Tensor:
    """Return True where the imaginary part is 0, which includes all real numbers."""
    if input._layout.dtype.is_complex:
        return imaginary_part(input) == 0
    return ones_like(input, dtype=bool_)


@composite()
def adjoint(input: Tensor) -> Tensor:
    """Return a view with the last two axes swapped; complex numbers are conjugated.

    Raises  RuntimeError for a vector
    """
    shape = input._layout.shape
    if len(shape) == 1:
        raise ShapeError(
            "tensor.adjoint() is only supported on matrices or batches of matrices. Got 1-D tensor."
        )
    return conjugate_view(input.transpose(-2, -1) if shape else input)

"""Complex numbers and their parts."""

from __future__ import annotations

from typing import Any

from ...core.dtypes import WORDS, complex32, float16, float32, float64
from ...core.errors import DTypeError, ShapeError
from ...devices.backend import Backend
from ...dispatch.composite import composite
from ...dispatch.op import OPS
from ...dispatch.pointwise import pointwise
from ...dispatch.tangents import is_differentiated
from ...dispatch.target import GivenOut, store_in_out
from ...dispatch.view import view as view_op
from ...graph.lazy_conj_neg import LazyConjNeg, changed_edge, lazy_view
from ...graph.modes import tls
from ...graph.views import see
from ...interpreters.batched_tensor import Batched, batched, unbatched
from ...tensor.tensor import Tensor
from ...tensor.view_steps import ViewSteps
from ..create.creation import ones_like, zeros_like
from ..shape.basic_index import basic_index
from ..shape.joining import stack
from ..shape.rearranging import broadcast_tensors
from .arithmetic import sign


@view_op(batch="last axes")
def view_as_real(input: Tensor) -> Tensor:
    """Return a view of complex numbers as pairs of real numbers along a new last axis.

    Raises  RuntimeError for real numbers

    Args:
        input: A complex tensor of shape (...); the result has the shape (..., 2).

    Example:
        >>> torch.view_as_real(torch.tensor([1 + 2j]))
        tensor([[1., 2.]])
    """


@view_as_real.prepare
def _(input: Tensor) -> tuple[Any, ...]:
    if not input._layout.dtype.is_complex:
        raise DTypeError("view_as_real is only supported for complex tensors")
    return ()


@view_as_real.array
def _(backend: Backend, array: Any) -> Any:
    return backend.reinterpret(array[..., None], real_of_array(array))


@view_as_real.vjp("input")
def _(g: Tensor) -> Any:
    return view_as_complex(g.contiguous())


def real_of_array(array: Any) -> Any:
    """Return the NumPy dtype of the real and imaginary parts of the elements of a complex array."""
    return f"f{array.dtype.itemsize // 2}"


@view_op(batch="last axes")
def view_as_complex(input: Tensor) -> Tensor:
    """Return a complex view, in which each pair of real numbers along the last axis is one number.

    Raises  RuntimeError for a dtype other than float16, float32 and float64, or for strides that
            do not allow the view
    """


@view_as_complex.prepare
def _(input: Tensor) -> tuple[Any, ...]:
    layout = input._layout
    if layout.dtype not in (float16, float32, float64):
        raise DTypeError(
            "view_as_complex is only supported for half, float and double tensors, but got a "
            f"tensor of scalar type: {WORDS[layout.dtype]}"
        )
    if not layout.shape or layout.shape[-1] != 2:
        raise ShapeError("Tensor must have a last dimension of size 2")
    if layout.strides[-1] != 1 or any(stride % 2 for stride in layout.strides[:-1]):
        raise ShapeError(
            "Tensor must have a last dimension with stride 1, and others divisible by 2: call "
            "contiguous()"
        )
    return ()


@view_as_complex.array
def _(backend: Backend, array: Any) -> Any:
    size = array.dtype.itemsize
    pairs = complex32.numpy if size == 2 else "c8" if size == 4 else "c16"
    return backend.reinterpret(array, pairs)[..., 0]


@view_as_complex.vjp("input")
def _(g: Tensor) -> Any:
    return view_as_real(g)


@pointwise("conj(input)", ["conj(g)"], takes_complex=True, homes="function method")
def conj(input: Tensor) -> Tensor:
    """Return the conjugates of complex numbers: only the signs of the imaginary parts change."""


def conjugate(input: Tensor) -> Tensor:
    """Return the conjugates of complex numbers; real tensors are returned unchanged."""
    made: Any = conj(input) if input._layout.dtype.is_complex else input
    return made  # type: ignore[no-any-return]


def conjugate_view(input: Tensor) -> Tensor:
    """Return a view of the conjugates of complex numbers; real tensors are returned unchanged."""
    layout = input._layout
    if not layout.dtype.is_complex:
        return input
    if isinstance(input, Batched):
        return batched(conjugate_view(input.value), input.level)
    if layout.is_sparse:
        return conjugate(input)
    of = input.value if isinstance(input, LazyConjNeg) else input
    seen = see(of._array, layout, _WHOLE, of)
    if isinstance(input, LazyConjNeg):
        if tls.grad and input.requires_grad:
            seen._edge = changed_edge(conj, of, input._edge)
        return seen
    # `seen` keeps the edge of input, because the lazy view adds the Node of conj.
    seen._edge = input._edge if tls.grad else None
    return lazy_view(seen, conj)


_WHOLE = ViewSteps(None, (basic_index, ((Ellipsis,),)))


def is_seen_as(input: Tensor, change: str) -> bool:
    """Return whether a tensor is a lazy view of the op named `change`, such as "conj"."""
    one = unbatched(input)
    return isinstance(one, LazyConjNeg) and one.change.name == change


def real_part(input: Tensor) -> Tensor:
    """Return a view of the real parts of complex numbers; real tensors are returned unchanged."""
    if isinstance(input, Batched):
        return batched(real_part(input.value), input.level)
    if isinstance(input, LazyConjNeg) and input._layout.dtype.is_complex:
        input = conjugate_view(input)
    parts: Any = view_as_real(input) if input._layout.dtype.is_complex else None
    return input if parts is None else parts.select(-1, 0)


def imaginary_part(input: Tensor) -> Tensor:
    """Return a view of the imaginary parts of complex numbers.

    Raises  RuntimeError for real numbers
    """
    if not input._layout.dtype.is_complex:
        raise DTypeError(
            "imag is not implemented for tensors with non-complex dtypes. It would be 0: take "
            "zeros_like()"
        )
    if isinstance(input, Batched):
        return batched(imaginary_part(input.value), input.level)
    if isinstance(input, LazyConjNeg):
        return lazy_view(imaginary_part(conjugate_view(input)), OPS["neg"])
    parts: Any = view_as_real(input)
    return parts.select(-1, 1)  # type: ignore[no-any-return]


@composite(homes="function", name="complex", out="same", node="complex", memory="apart")
def complex_of(real: Tensor, imag: Tensor) -> Tensor:
    """Return complex numbers made from real and imaginary parts of one dtype, which broadcast.

    Raises  RuntimeError if the parts have different dtypes, or a dtype that is neither float32 nor
            float64
    """
    _require_parts(real, imag)
    made: Any = view_as_complex(_paired(real, imag))
    return made  # type: ignore[no-any-return]


def _require_parts(one: Tensor, other: Tensor) -> None:
    first, second = one._layout.dtype, other._layout.dtype
    for dtype in (first, second):
        if not dtype.is_floating_point or dtype.is_half:
            raise DTypeError(
                "Expected both inputs to be Half, Float or Double tensors but got "
                f"{WORDS[first]} and {WORDS[second]}"
            )
    if first is not second:
        raise DTypeError(
            f"Expected object of scalar type {WORDS[first]} but got scalar type {WORDS[second]} "
            "for second argument"
        )


def _paired(real: Tensor, imag: Tensor) -> Tensor:
    return stack(broadcast_tensors(real, imag), -1)


@composite(homes="function", out="same", node="polar", memory="apart")
def polar(abs: Tensor, angle: Tensor) -> Tensor:
    """Return complex numbers with the given absolute values, and the given angles in radians.

    Raises  RuntimeError in the same cases as `complex`
    """
    _require_parts(abs, angle)
    return complex_of(abs * angle.cos(), abs * angle.sin())


# The masks in complex_size and complex_sign make gradients at 0 equal to 0, as in PyTorch.


def complex_size(input: Tensor) -> Any:
    """Return the absolute values of complex numbers."""
    real, imag = real_part(input), imaginary_part(input)
    nothing = input == 0
    size = real.where(~nothing, ones_like(real)).hypot(imag).masked_fill(nothing, 0.0)
    if not is_differentiated(input) or not bool(unbatched(nothing).any()):
        return size
    # Zeros get their absolute values from vector_norm, whose second derivatives at 0 are defined.
    norm = OPS["vector_norm"](stack((real, imag), -1), 2.0, -1)
    return norm.where(nothing, size)


def complex_sign(input: Tensor) -> Any:
    """Return complex numbers divided by their absolute values. The result for 0 is 0."""
    nothing = input == 0
    size = complex_size(input).masked_fill(nothing, 1.0)
    return (input / size).where(~nothing, zeros_like(input))


@composite(homes="function method inplace")
def sgn(input: Tensor, *, out: GivenOut = None) -> Tensor:
    """Return the signs of real numbers (-1, 0 or 1), or complex numbers divided by their absolute
    values.
    """
    if input._layout.dtype.is_complex:
        return store_in_out("sgn", out, complex_sign(input), (input,), "same", "apart")
    return sign.public(input, out=out)

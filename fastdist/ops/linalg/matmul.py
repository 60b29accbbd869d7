"""Matrix products."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from ...core.dtypes import bool_
from ...core.errors import DTypeError, NoKernelError, ShapeError
from ...core.interpreter import resumed
from ...devices.backend import Backend
from ...dispatch.declaration import node_named, recorded_as
from ...dispatch.node_writer import OpNode
from ...dispatch.op import PLAIN, Op, P, R, declarator
from ...dispatch.structured import Plan, StructuredOp
from ...dispatch.target import GivenOut
from ...dispatch.view import view as view_op
from ...interpreters.batching import aligned
from ...interpreters.sparse_rules import meet_sparse
from ...interpreters.timing import run_timed, should_time
from ...tensor.broadcast import broadcast_shapes
from ...tensor.layout import Layout
from ...tensor.promotion import result_dtype
from ...tensor.tensor import Tensor
from ..pointwise.complex_numbers import conjugate
from .product_gradients import gradients_of_matmul

# Stands for the op in a profile's event around a product with a vector, which is computed as a
# matrix product.
_of_vectors = object()
# PyTorch's names for products with a vector, and for products in which an operand is a batch.
_ROW_BY_MATRIX, _FOLDED = node_named("squeeze.4"), node_named("_unsafe_view")
_EVENTS: Final[dict[tuple[int, ...], str]] = {
    (2, 2): "mm",
    (2, 1): "mv",
    (1, 1): "dot",
    (1, 2): "matmul",
}
# Indices that drop one or two axes of length 1. With the Ellipsis, NumPy returns a 0-d view, never
# a scalar.
_FIRST: Final = {1: (slice(None), 0, ...), 2: (0, 0, ...)}


class MatmulOp(StructuredOp[P, R]):
    """The op for products of matrices, and of batches of matrices. A vector gets an axis of length
    1, and this axis is removed from the result.
    """

    def computes(self, operands: tuple[Any, ...], attributes: tuple[Any, ...]) -> bool:
        """Return False if an operand is a vector, except for small operands."""
        return all(len(one._layout.shape) > 1 for one in operands) or _are_few(*operands)

    def general(
        self, operands: tuple[Any, ...], attributes: tuple[Any, ...], out: GivenOut = None
    ) -> Any:
        input, other = operands
        if not (isinstance(input, Tensor) and isinstance(other, Tensor)):
            return NotImplemented
        if input._layout.is_sparse or other._layout.is_sparse:
            return meet_sparse(self.name, operands, attributes, out)
        if input._layout.shape and other._layout.shape:
            row, column = len(input._layout.shape) == 1, len(other._layout.shape) == 1
            if row or column:
                if out is None and _are_few(input, other):
                    return super().general(operands, attributes)
                if should_time(_of_vectors):
                    event = f"aten::{_EVENTS.get((2 - row, 2 - column), 'matmul')}"
                    given = (operands, attributes, out)
                    return run_timed(event, partial(resumed, _of_vectors, (), self.general), given)
                _require_match(input, other)
                a: Any = input.unsqueeze(0) if row else input
                b: Any = other.unsqueeze(1) if column else other
                result = super().general((a, b), ())
                if column and len(a._layout.shape) == 2 == len(b._layout.shape):
                    result = without_axes(result, 2 if row else 1)
                else:
                    word = (
                        _ROW_BY_MATRIX if len(a._layout.shape) == len(b._layout.shape) else _FOLDED
                    )
                    result = recorded_as(word, result.squeeze(-1 if column else -2), ())
                return self.target_of(operands, out).take(result, operands)
        return super().general(operands, attributes, out)


@declarator(MatmulOp)(
    "linalg.product.matmul", kernel_gradients=True, fresh=True, takes_complex=True
)
def matmul(input: Tensor, other: Tensor) -> Tensor:
    """Return the matrix product.

    Shape   (n), (n) -> (); (..., n, k), (..., k, m) -> (..., n, m), batch axes broadcast; a vector
            counts as a row on the left and as a column on the right, and its axis is dropped
    Raises  RuntimeError if the inner axes have different lengths, the batch axes do not broadcast,
            an operand has no axis (use mul), or the dtypes differ; NotImplementedError if the dtype
            is bool

    Args:
        input: The left operand, with at least one axis, of any dtype but bool.
        other: The right operand, of the same dtype, with at least one axis.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.matmul(torch.ones(2, 3), torch.ones(3)).shape
        fastdist.Size([2])
        >>> (torch.ones(5, 2, 3) @ torch.ones(3, 4)).shape
        fastdist.Size([5, 2, 4])
    """


def _are_few(input: Tensor, other: Tensor) -> bool:
    """Return whether a kernel multiplies a vector and a matrix, or two vectors, directly. The
    kernel does so if both operands are small and on the CPU. The result is bitwise equal to the
    result with vectors converted to matrices.
    """
    a, b = input._layout, other._layout
    if input.__class__ not in PLAIN or other.__class__ not in PLAIN or a.dtype is not b.dtype:
        return False
    return a.tiny and b.tiny and a.numel > 0 < b.numel and max(len(a.shape), len(b.shape)) < 3


def _require_match(input: Tensor, other: Tensor) -> None:
    a, b = input._layout.shape, other._layout.shape
    if not a or not b:
        raise ShapeError(
            "both arguments to matmul need to be at least 1D, but they are "
            f"{len(a)}D and {len(b)}D; use mul for numbers"
        )
    inner = b[-2] if len(b) > 1 else b[0]
    if a[-1] != inner:
        which = "first" if len(b) < 3 else "second last"
        text = (
            f"matmul: x is {a} and y is {b}; the last axis of x must equal the {which} of y, "
            f"{a[-1]} != {inner}"
        )
        if len(a) == 2 and len(b) == 2:
            sizes = f"{a[0]}x{a[1]} and {b[0]}x{b[1]}"
            text = f"mat1 and mat2 shapes cannot be multiplied ({sizes}): {text}"
        raise ShapeError(text)


@matmul.plan
def _(input: Tensor, other: Tensor) -> Plan:
    _require_match(input, other)
    a, b = input._layout, other._layout
    if a.dtype is not b.dtype:
        raise DTypeError(
            f"expected m1 and m2 to have the same dtype, but got: {a.dtype.name} != "
            f"{b.dtype.name}; cast one with .to()"
        )
    dtype = result_dtype((input, other))
    if dtype is bool_:
        raise NoKernelError("\"dot\" not implemented for 'Bool'; cast with .to(fastdist.int64)")
    if len(a.shape) == 1 or len(b.shape) == 1:
        return Plan((*a.shape[:-1], *b.shape[1:]), dtype)
    batch = broadcast_shapes("matmul", [a.shape[:-2], b.shape[:-2]])
    return Plan((*batch, a.shape[-2], b.shape[-1]), dtype)


matmul.gradients_on_device(gradients_of_matmul)


@matmul.names_event
def _(operands: tuple[Any, ...], attributes: tuple[Any, ...]) -> str:
    """Return PyTorch's name for the product, which depends on the operands' numbers of axes."""
    return _EVENTS.get(tuple([len(operand.shape) for operand in operands]), "bmm")


@matmul.names_node
def _(node: Any) -> str:
    """Return PyTorch's name for the Node. For batches, PyTorch's last Node is `_unsafe_view`, which
    restores the batch axes that PyTorch folds before the product.
    """
    first, second = [len(one.shape) for one in node.naming_route.layouts]
    if first == 1 < second:
        return "squeeze.4"
    return _EVENTS.get((first, second), "_unsafe_view")


@view_op("nowhere", known_as="squeeze")
def without_axes(input: Tensor, count: int) -> Tensor:
    """Remove the axes of length 1 from a product in which vectors were converted to matrices.
    `count` is the number of these axes: 1 if the result is a vector, and 2 if it is a number.
    """


@without_axes.array
def _(backend: Backend, array: Any, count: int) -> Any:
    return array[_FIRST[count]]


@without_axes.looking
def _(layout: Layout, count: int) -> Any:
    index = _FIRST[count]
    return lambda array: array[index]


@without_axes.raw_gradient
def _(g: Tensor, layout: Layout, count: int) -> Any:
    return g.reshape(layout.shape)


@without_axes.vjp("input")
def _(g: Tensor, input_layout: Layout) -> Tensor:
    return g.reshape(input_layout.shape)


@without_axes.names_node
def _(node: OpNode) -> str:
    """Return PyTorch's name for the whole product; this Node is the last of several."""
    return "mv" if node.output_layout.shape else "dot"


@without_axes.batches
def _(op: Op, operands: tuple[Any, ...], attributes: tuple[Any, ...], level: int) -> Any:
    (input,), (count,) = operands, attributes
    return input.value.squeeze((1, 2)[-count:])


@matmul.batches
def _(op: Op, operands: tuple[Any, ...], attributes: tuple[Any, ...], level: int) -> Any:
    # Checked before the batch axis is added, because the batch axis could match by chance.
    _require_match(*operands)
    return op.general(tuple(aligned(operands, level)), attributes)


@matmul.vjp("input")
def _(g: Tensor, other: Tensor, input_layout: Layout) -> Tensor:
    axes = len(input_layout.shape), len(other._layout.shape)
    if axes[1] == 1:  # `other` is a vector: each row of `input` has one element of g
        return (g.unsqueeze(1) if axes[0] == 2 else g) * conjugate(other)
    return matmul(g, conjugate(other).transpose(-2, -1))


@matmul.vjp("other")
def _(g: Tensor, input: Tensor, other_layout: Layout) -> Tensor:
    axes = len(input._layout.shape), len(other_layout.shape)
    if axes[0] == 1:  # `input` is a vector: each column of `other` has one element of g
        found: Tensor = (conjugate(input).unsqueeze(1) if axes[1] == 2 else conjugate(input)) * g
        return found
    return matmul(conjugate(input).transpose(-2, -1), g)


@matmul.jvp
def _(
    input: Tensor, other: Tensor, input_t: Tensor | None, other_t: Tensor | None
) -> Tensor | None:
    left = None if input_t is None else matmul(input_t, other)
    right = None if other_t is None else matmul(input, other_t)
    if left is None or right is None:
        return left if right is None else right
    return left + right

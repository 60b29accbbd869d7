"""Products of matrices and vectors (mm, bmm, mv ...), and sums with such products (addmm ...)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...core.dtypes import bool_
from ...core.errors import DTypeError, NoKernelError, ShapeError
from ...core.folded_frames import fold
from ...core.short_repr import short_repr
from ...core.torch_function import NOT_TAKEN, offer
from ...dispatch.composite import before, composite
from ...dispatch.declaration import node_named
from ...dispatch.node_writer import OpNode
from ...dispatch.op import PLAIN, Op
from ...dispatch.structured import Plan, structured
from ...dispatch.target import GivenOut, store_in_out
from ...graph.modes import modes
from ...interpreters.batched_tensor import level_of, levels, value_at
from ...tensor.broadcast import broadcast_shapes
from ...tensor.constants import require_held
from ...tensor.layout import Layout
from ...tensor.methods import Number
from ...tensor.tensor import Tensor
from ..create.creation import full
from ..pointwise.arithmetic import mul
from ..pointwise.complex_numbers import conjugate
from ..pointwise.masked import where
from ..unrecorded_rows import may_reshape, reshape_result, reshaped_operand
from .matmul import matmul
from .product_gradients import gradients_of_linear

matmul_public: Any = matmul.public


def _product(a: Tensor, b: Tensor) -> Any:
    return matmul(a, b)


def _again_by_matmul(node: str = "") -> Callable[[Any], Any]:
    """Return a decorator, used with `before`, of a product that calls matmul after its checks.
    These only read layouts, so plain tensors of layouts that passed them once go to matmul. `node`
    is the name of the product's Node if matmul gives it another name.
    """

    def decorate(general: Any) -> Any:
        def multiply(*args: Any, **named: Any) -> Any:
            try:
                plain = modes.plain
                if named or len(args) != 2 or args[0].__class__ not in plain:
                    return general(*args, **named)
                a, b = args
                if b.__class__ not in plain:
                    return general(a, b)
                routes, key = a._layout.routes, (general, b._layout)
                if key not in routes:
                    result = general(a, b)
                    routes.remember(key, None)
                    return result
                result = matmul_public(a, b)
                if node and (edge := result._edge) is not None:
                    edge._called = node
                return result
            except Exception as error:
                fold(error)
                raise

        return multiply

    return decorate


def _require_axes(name: str, tensors: dict[str, Tensor], *axes: int) -> None:
    for (which, tensor), wanted in zip(tensors.items(), axes, strict=True):
        found = len(tensor._layout.shape)
        if found != wanted:
            raise ShapeError(
                f"{name}: {which} must be {wanted}D, got a tensor of shape {tensor._layout.shape}"
            )


@before(_again_by_matmul())
@composite(known_as="")
def mm(input: Tensor, mat2: Tensor, *, out: GivenOut = None) -> Tensor:
    """Return the product of two matrices.

    Raises  RuntimeError if an argument is not a matrix, the inner axes differ, or the dtypes differ

    Args:
        input: The left matrix, of shape (n, k), of any dtype but bool. If k is 0, the product is 0.
        mat2: The right matrix, of shape (k, m).
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A matrix of shape (n, m), for an input of shape (n, k).

    Example:
        >>> torch.mm(torch.ones(2, 3), torch.ones(3, 1))
        tensor([[3.],
                [3.]])
    """
    if len(input._layout.shape) != 2:
        raise ShapeError(
            f"self must be a matrix: its shape is {input._layout.shape}; matmul takes more axes"
        )
    if len(mat2._layout.shape) != 2:
        raise ShapeError("mat2 must be a matrix")
    return store_in_out("mm", out, _product(input, mat2), (input, mat2))


@before(_again_by_matmul(node_named("bmm")))
@composite(known_as="", node="bmm")
def bmm(input: Tensor, mat2: Tensor, *, out: GivenOut = None) -> Tensor:
    """Return the products of two batches of matrices.

    Raises  RuntimeError if an argument does not have three axes, or the sizes do not fit

    Args:
        input: The left matrices, of shape (b, n, k), of any dtype but bool.
        mat2: The right matrices, of shape (b, k, m).
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of shape (b, n, m), for an input of shape (b, n, k).

    Example:
        >>> torch.bmm(torch.ones(4, 2, 3), torch.ones(4, 3, 5)).shape
        fastdist.Size([4, 2, 5])
    """
    for name, tensor in (("batch1", input), ("batch2", mat2)):
        if len(tensor._layout.shape) != 3:
            raise ShapeError(f"{name} must be a 3D tensor")
    if input._layout.shape[0] != mat2._layout.shape[0]:
        raise ShapeError(
            f"bmm: batches differ: input is {input._layout.shape}, mat2 {mat2._layout.shape}"
        )
    return store_in_out("bmm", out, _product(input, mat2), (input, mat2))


@before(_again_by_matmul())
@composite(known_as="")
def mv(input: Tensor, vec: Tensor, *, out: GivenOut = None) -> Tensor:
    """Return the product of a matrix and a vector."""
    _require_axes("mv", {"input": input, "vec": vec}, 2, 1)
    return store_in_out("mv", out, _product(input, vec), (input, vec))


@before(_again_by_matmul())
@composite(known_as="")
def dot(input: Tensor, tensor: Tensor, *, out: GivenOut = None) -> Tensor:
    """Return the inner product of two vectors.

    Raises  RuntimeError if an argument does not have one axis, the lengths differ, or the dtypes
            differ

    Args:
        input: The first vector, of any dtype but bool. Complex numbers are not conjugated: see
            vdot.
        tensor: The second vector, of the same length and dtype. The product of empty vectors is 0.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.dot(torch.tensor([1, 2]), torch.tensor([3, 4]))
        tensor(11)
    """
    if len(input._layout.shape) != 1 or len(tensor._layout.shape) != 1:
        raise ShapeError(
            f"1D tensors expected, but got {len(input._layout.shape)}D and "
            f"{len(tensor._layout.shape)}D tensors"
        )
    if input._layout.shape != tensor._layout.shape:
        raise ShapeError(
            f"inconsistent tensor size, expected tensor [{input._layout.numel}] and src "
            f"[{tensor._layout.numel}] to have the same number of elements"
        )
    if input._layout.dtype is tensor._layout.dtype is bool_:
        raise NoKernelError("\"dot\" not implemented for 'Bool'; cast with .to(fastdist.int64)")
    return store_in_out("dot", out, _product(input, tensor), (input, tensor))


def _outer_at_once(input: Tensor, vec2: Tensor) -> Any:
    """Return the product of plain vectors, for calls that are not recorded, otherwise NOT_TAKEN."""
    if not (may_reshape(input) and may_reshape(vec2)):
        return NOT_TAKEN
    shape = input._layout.shape
    if len(shape) != 1 or len(vec2._layout.shape) != 1:
        return NOT_TAKEN
    return mul(reshaped_operand(input, (shape[0], 1)), vec2)


@composite(quick=_outer_at_once)
def outer(input: Tensor, vec2: Tensor, *, out: GivenOut = None) -> Tensor:
    """Return the outer product: each element of one vector times each element of another.

    Raises  RuntimeError if an argument does not have one axis

    Args:
        input: The first vector, of any dtype.
        vec2: The second vector, of any length; the dtypes are promoted.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A matrix of shape (n, m), for vectors of n and m elements.

    Example:
        >>> torch.outer(torch.tensor([1, 2]), torch.tensor([3, 4]))
        tensor([[3, 4],
                [6, 8]])
    """
    _require_axes("outer", {"input": input, "vec2": vec2}, 1, 1)
    product = input.unsqueeze(1) * vec2
    return store_in_out("outer", out, product, (input, vec2), "cast", "apart")


@composite()
def inner(input: Tensor, other: Tensor, *, out: GivenOut = None) -> Tensor:
    """Return the sums of products along the last axes of both tensors."""
    if not input._layout.shape or not other._layout.shape:
        return mul.public(input, other, out=out)
    if len(input._layout.shape) == 1 and len(other._layout.shape) == 1:
        return dot(input, other, out=out)
    columns = _matrix(other).t()
    product = _product(input, columns)
    shape = (*input._layout.shape[:-1], *other._layout.shape[:-1])
    return store_in_out("inner", out, product.reshape(shape), (input, other))


def _matrix(tensor: Tensor) -> Any:
    """Return `tensor` as a matrix, with all axes except the last merged. This also works if the
    last axis has length 0, for which reshape(-1, 0) would fail.
    """
    *outer_sizes, last = tensor._layout.shape
    return tensor.reshape(math.prod(outer_sizes), last)


def scaled(number: Any, tensor: Tensor) -> Any:
    """Return `tensor * number` in the dtype of `tensor`; an integer dtype truncates `number`."""
    dtype = tensor._layout.dtype
    if isinstance(number, complex) and not dtype.is_complex:
        raise DTypeError(
            f"value cannot be converted to type {dtype.name} without overflow: "
            f"{short_repr(number)}; make a "
            "factor complex"
        )
    if not dtype.may_have_gradient:
        require_held(number, dtype)
        number = bool(number) if dtype is bool_ else int(number)
    # Smaller numbers need no check: dtype.computes_in holds them for every dtype.
    elif abs(number.real) > 1e38 or abs(number.imag) > 1e38:
        require_held(number, dtype.computes_in)
    return tensor if number == 1 else tensor * number


def summed(name: str, beta: complex, input: Tensor, alpha: complex, product: Tensor) -> Any:
    """Return beta * input + alpha * product, in the shape of product. As in BLAS, a term whose
    factor (beta or alpha) is 0 counts as 0 even if it contains NaN, and its gradient is 0.

    Raises  ShapeError if input does not broadcast to the shape of product
    """
    given, shape = input._layout.shape, product._layout.shape
    if given != shape and broadcast_shapes(name, [given, shape]) != shape:
        raise ShapeError(
            f"The expanded size of the tensor {shape} must match the existing size {given}: {name} "
            "broadcasts input to the product's shape; expand the factors"
        )
    added = _or(product, 0) if alpha == 0 else scaled(alpha, product)
    if beta != 0:
        return scaled(beta, input) + added
    unread = not input.requires_grad and input._layout.dtype is added._layout.dtype
    return added if unread else _or(input, added)


def _or(unread: Any, tensor: Any) -> Any:
    """Return `tensor`, recorded with a second input `unread`, whose values are not used."""
    never = full((), False, device=unread._layout.device)
    return where(never, unread, tensor)


def require_one_dtype(input: Tensor, mat2: Tensor) -> None:
    if input._layout.dtype is not mat2._layout.dtype:
        raise DTypeError(
            f"self and mat2 must have the same dtype, but got {input._layout.dtype.name} and "
            f"{mat2._layout.dtype.name}: cast one, such as input.to(mat2.dtype)"
        )


@composite(homes="function method inplace", node="addmm")
def addmm(
    input: Tensor,
    mat1: Tensor,
    mat2: Tensor,
    *,
    beta: Number = 1,
    alpha: Number = 1,
    out: GivenOut = None,
) -> Tensor:
    """Return beta * input + alpha * (mat1 @ mat2); input broadcasts."""
    require_one_dtype(input, mat2)
    total = summed("addmm", beta, input, alpha, mm(mat1, mat2))
    return store_in_out("addmm", out, total, (input, mat1, mat2), "same", "apart from first")


@composite(homes="function method inplace", node="addmv")
def addmv(
    input: Tensor,
    mat: Tensor,
    vec: Tensor,
    *,
    beta: Number = 1,
    alpha: Number = 1,
    out: GivenOut = None,
) -> Tensor:
    """Return beta * input + alpha * (mat @ vec)."""
    require_one_dtype(input, vec)
    total = summed("addmv", beta, input, alpha, mv(mat, vec))
    return store_in_out("addmv", out, total, (input, mat, vec), "same", "apart from first")


@composite(homes="function method inplace", node="addr")
def addr(
    input: Tensor,
    vec1: Tensor,
    vec2: Tensor,
    *,
    beta: Number = 1,
    alpha: Number = 1,
    out: GivenOut = None,
) -> Tensor:
    """Return beta * input + alpha * outer(vec1, vec2)."""
    for name, number in {"beta": beta, "alpha": alpha}.items():
        if isinstance(number, float) and not input._layout.dtype.may_have_gradient:
            raise DTypeError(
                f"For integral input tensors, argument {name} must not be a floating point number: "
                f"addr got {name}={short_repr(number)} for {input._layout.dtype.name}"
            )
    # As in PyTorch, NaN in the outer product gives NaN even if alpha is 0. Products that BLAS
    # computes would give 0.
    total = summed("addr", beta, input, 1, scaled(alpha, outer(vec1, vec2)))
    return store_in_out("addr", out, total, (input, vec1, vec2), "cast", "apart")


@composite(homes="function method inplace", node="baddbmm")
def baddbmm(
    input: Tensor,
    batch1: Tensor,
    batch2: Tensor,
    *,
    beta: Number = 1,
    alpha: Number = 1,
    out: GivenOut = None,
) -> Tensor:
    """Return beta * input + alpha * bmm(batch1, batch2)."""
    require_one_dtype(input, batch2)
    total = summed("baddbmm", beta, input, alpha, bmm(batch1, batch2))
    return store_in_out("baddbmm", out, total, (input, batch1, batch2), "same", "apart from first")


@structured(
    "linalg.product.linear", kernel_gradients=True, fresh=True, homes="nowhere", known_as="linear"
)
def linear_kernel(input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return input @ weight.T + bias, where input is a matrix."""


@linear_kernel.plan
def _(input: Tensor, weight: Tensor, bias: Tensor | None) -> Plan:
    a, b = input._layout, weight._layout
    if a.dtype is not b.dtype or (bias is not None and bias._layout.dtype is not a.dtype):
        raise DTypeError(
            f"mat1 and mat2 must have the same dtype, but got {a.dtype.name} and {b.dtype.name}: "
            f"cast one, such as input.to(fastdist.{b.dtype.name})"
        )
    if a.shape[1] != b.shape[1]:
        raise ShapeError(
            f"mat1 and mat2 shapes cannot be multiplied ({a.shape[0]}x{a.shape[1]} and "
            f"{b.shape[1]}x{b.shape[0]}): linear needs inputs of {b.shape[1]} features"
        )
    if bias is not None and bias._layout.shape not in ((b.shape[0],), ()):
        raise ShapeError(f"linear: bias is {bias._layout.shape} for {b.shape[0]} outputs")
    return Plan((a.shape[0], b.shape[0]), a.dtype)


@linear_kernel.names_event
def _(operands: tuple[Any, ...], attributes: tuple[Any, ...]) -> str:
    return "mm" if len(operands) < 3 or operands[2] is None else "addmm"


@linear_kernel.names_node
def _(node: OpNode) -> str:
    has_none = node.edges[2] is None and node.naming_route.layouts[2] is None
    return "mm" if has_none else "addmm"


@linear_kernel.batches
def _(op: Op, operands: tuple[Any, ...], attributes: tuple[Any, ...], level: int) -> Any:
    input, weight, bias = operands
    if level_of((weight, bias)) < level:
        value = input.value
        size, rows, width = value._layout.shape
        found = op.general((value.reshape(size * rows, width), weight, bias), attributes)
        return found.reshape(size, rows, found._layout.shape[-1])
    found = input @ weight.transpose(0, 1)
    found = found if bias is None else found + bias
    return value_at(found, level, size=levels.sizes[level - 1])


@linear_kernel.vjp("input")
def _(g: Tensor, weight: Tensor) -> Any:
    return _product(g, weight)


@linear_kernel.vjp("weight")
def _(g: Tensor, input: Tensor) -> Any:
    return _product(g.t(), input)


@linear_kernel.vjp("bias")
def _(g: Tensor, bias_layout: Layout) -> Any:
    return g.sum(0) if bias_layout.shape else g.sum()


linear_kernel.gradients_on_device(gradients_of_linear)


@linear_kernel.jvp
def _(
    input: Tensor,
    input_t: Tensor | None,
    weight: Tensor,
    weight_t: Tensor | None,
    bias_t: Tensor | None,
) -> Any:
    parts = []
    if input_t is not None:
        parts.append(_product(input_t, weight.t()))
    if weight_t is not None:
        parts.append(_product(input, weight_t.t()))
    if bias_t is not None:
        parts.append(bias_t.expand(input._layout.shape[0], weight._layout.shape[0]))
    total = parts[0] if parts else None
    for part in parts[1:]:
        total = total + part
    return total


_kernel = linear_kernel.public


@composite(homes="functional", early=False)
def linear(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, *, out: GivenOut = None
) -> Tensor:
    """Return input @ weight.T + bias.

    Shape   (..., n), (m, n), (m) -> (..., m)
    Raises  RuntimeError if the last axes of input and weight have different lengths, or the dtypes
            differ

    Args:
        input: A tensor of shape (..., in_features), in the dtype of weight.
        weight: A matrix of shape (out_features, in_features).
        bias: A vector of out_features elements, or None.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> F.linear(torch.ones(2, 3), torch.ones(4, 3)).shape
        fastdist.Size([2, 4])
    """
    if out is not None:
        return store_in_out("linear", out, linear(input, weight, bias), (input, weight, bias))
    is_plain = input.__class__ in PLAIN and weight.__class__ in PLAIN
    if not is_plain or (bias is not None and bias.__class__ not in PLAIN):
        found = offer(linear, (input, weight, bias) if bias is not None else (input, weight), {})
        if found is not NOT_TAKEN:
            return found  # type: ignore[no-any-return]
    shape = input._layout.shape
    if len(weight._layout.shape) != 2 or not shape or weight._layout.dtype.is_complex:
        product = _product(input, weight.t())
        return product if bias is None else product + bias  # type: ignore[no-any-return]
    if len(shape) == 2:
        return _kernel(input, weight, bias)
    if may_reshape(input, (weight, bias)):
        matrix = reshaped_operand(input, (math.prod(shape[:-1]), shape[-1]))
        found = linear_kernel(matrix, weight, bias)
        return reshape_result(found, (*shape[:-1], weight._layout.shape[0]))
    matrix = _matrix(input)
    found = linear_kernel(matrix, weight, bias)
    found = found.reshape((*shape[:-1], weight._layout.shape[0]))
    if bias is None and (edge := found._edge) is not None:  # inlined: a call costs measurable time
        edge._called = "UnsafeViewBackward0" if len(shape) > 1 else "SqueezeBackward4"
    return found


linear_kernel.offered_as = linear


@composite(out="same", node="vdot")
def vdot(input: Tensor, other: Tensor) -> Tensor:
    """Return the inner product of two vectors. If the first vector is complex, it is conjugated."""
    return conjugate(input).dot(other)


@composite(homes="function method inplace", out="same", node="addbmm", memory="apart from first")
def addbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number = 1, alpha: Number = 1
) -> Tensor:
    """Return beta * input + alpha * (the sum of the products of two batches of matrices)."""
    require_one_dtype(input, batch2)
    product: Any = batch1.bmm(batch2)
    return summed("addbmm", beta, input, alpha, product.sum(0, dtype=product.dtype))  # type: ignore[no-any-return]

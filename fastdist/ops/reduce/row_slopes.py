"""The gradients of reductions along rows, as ops that can be differentiated again.

Each op makes one Node, whereas an expression of other ops would make several. One kernel computes
the gradients of the op. ops/nn/norm_slopes.py has such ops for normalization layers. All these ops
are used for small plain tensors on the CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ...core.device import CPU
from ...core.dtypes import float32, float64
from ...dispatch.structured import Plan, structured
from ...graph.modes import modes
from ...tensor.axes import Dims, normalize_axes
from ...tensor.tensor import Tensor

# A gradient with at most this many elements is computed by one Node. For more elements, expressions
# of several ops are used, because they need less memory.
MOST: Final = 1 << 16


def may_fuse(*tensors: Tensor | None) -> bool:
    """Return whether the tensors are small plain CPU tensors of the same floating dtype, and no
    interpreter is open. All tensors except the first may be None.
    """
    plain, layout = modes.plain, tensors[0]._layout  # type: ignore[union-attr]
    dtype = layout.dtype
    if not (dtype is float32 or dtype is float64) or not 0 < layout.numel <= MOST:
        return False
    for one in tensors:
        if one is None:
            continue
        found = one._layout
        if one.__class__ not in plain or found.dtype is not dtype or found.device is not CPU:
            return False
        if found.is_sparse:
            return False
    return True


def length_of_rows(name: str, input: Tensor, dim: Dims, *others: Any) -> int | None:
    """Return the length of the rows that a reduction over dim reduces. Return None if an op of this
    file does not apply: dim must be the last axes, and the tensors must be small plain CPU tensors.
    """
    shape = input._layout.shape
    if not may_fuse(input, *others):
        return None
    dims = normalize_axes(name, dim, shape)
    first = len(shape) - len(dims)
    if not dims or sorted(dims) != [*range(first, len(shape))]:
        return None
    n = 1
    for size in shape[first:]:
        n *= size
    return n


@structured("reduce.row_slopes.var", kernel_gradients=True, fresh=True, homes="nowhere",
            known_as="var")  # fmt: skip
def variance_slope(grad: Tensor, input: Tensor, length: int, scale: float) -> Tensor:
    """Return grad * (input - mean) * scale for rows of `length`; grad has one number per row."""


@variance_slope.plan
def _(grad: Tensor, input: Tensor, length: int, scale: float) -> Plan:
    return Plan(input._layout.shape, input._layout.dtype, (length, scale))


@variance_slope.vjp("grad", "input")
def _(g: Tensor, grad: Tensor, input: Tensor, length: int, scale: float) -> Any:
    x, q = input.reshape(-1, length), g.reshape(-1, length)
    by_grad = (q * (x - x.mean(1, True))).sum(1) * scale
    by_input = (q - q.mean(1, True)) * (grad.reshape(-1, 1) * scale)
    return by_grad.reshape(grad._layout.shape), by_input.reshape(input._layout.shape)


@structured("reduce.row_slopes.logsumexp", kernel_gradients=True, fresh=True, homes="nowhere",
            known_as="logsumexp")  # fmt: skip
def logsumexp_slope(grad: Tensor, input: Tensor, length: int) -> Tensor:
    """Return grad * softmax(input) for rows of `length`; grad has one number per row."""


@logsumexp_slope.plan
def _(grad: Tensor, input: Tensor, length: int) -> Plan:
    return Plan(input._layout.shape, input._layout.dtype, (length,))


@logsumexp_slope.vjp("grad", "input")
def _(g: Tensor, grad: Tensor, input: Tensor, length: int) -> Any:
    q, shares = g.reshape(-1, length), input.reshape(-1, length).softmax(1)
    # `along` is detached, because by_input does not change if a constant is subtracted from q.
    along = (q.detach() * shares.detach()).sum(1, True)
    rest = ((q - along) * shares).sum(1, True)
    by_input = ((q - along) - rest) * shares * grad.reshape(-1, 1)
    by_grad = (q * shares).sum(1).reshape(grad._layout.shape)
    return by_grad, by_input.reshape(input._layout.shape)


@structured("reduce.row_slopes.norm", kernel_gradients=True, fresh=True, homes="nowhere",
            known_as="linalg_vector_norm")  # fmt: skip
def euclidean_slope(grad: Tensor, size: Tensor, input: Tensor, length: int) -> Tensor:
    """Return grad * input / size for rows of `length`. grad has one number per row, and size has
    the norms of the rows. No norm may be 0.
    """


@euclidean_slope.plan
def _(grad: Tensor, size: Tensor, input: Tensor, length: int) -> Plan:
    return Plan(input._layout.shape, input._layout.dtype, (length,))


@euclidean_slope.vjp("grad", "input")
def _(g: Tensor, grad: Tensor, size: int | Sequence[int], input: Tensor, length: int) -> Any:
    x, q = input.reshape(-1, length), g.reshape(-1, length)
    own = x.norm(dim=1, keepdim=True)  # `size`, computed again as a function of x
    unit = x / own
    along = (q * unit).sum(1, True)
    by_input = (q - unit * along) * (grad.reshape(-1, 1) / own)
    return along.reshape(grad._layout.shape), by_input.reshape(input._layout.shape)

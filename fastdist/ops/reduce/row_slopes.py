"""The gradients of reductions along rows as ops, where they are differentiated again.

Each is one Node in place of several of its expression, and one kernel makes its second gradients.
ops/nn/norm_slopes.py has those of norms. They serve plain tensors of few numbers on the CPU.
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

# A gradient of at most this many numbers is one Node; expressions take less memory for more.
MOST: Final = 1 << 16


def may_fuse(*tensors: Tensor | None) -> bool:
    """Return whether tensors, of which the first is given, are plain ones of one floating dtype and
    a few numbers on the CPU, and nothing observes the call.
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
    """Return the length of the rows that a reduction over dim is of, where dim are the last axes of
    few numbers on the CPU, others are plain as well, and an op here is for them; else None.
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
            known_as="var_backward")  # fmt: skip
def variance_slope(grad: Tensor, input: Tensor, length: int, scale: float) -> Tensor:
    """Return grad * (input - mean) * scale of rows of a length, with one number of grad each."""


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
            known_as="logsumexp_backward")  # fmt: skip
def logsumexp_slope(grad: Tensor, input: Tensor, length: int) -> Tensor:
    """Return grad * softmax(input) of rows of a length, with one number of grad each."""


@logsumexp_slope.plan
def _(grad: Tensor, input: Tensor, length: int) -> Plan:
    return Plan(input._layout.shape, input._layout.dtype, (length,))


@logsumexp_slope.vjp("grad", "input")
def _(g: Tensor, grad: Tensor, input: Tensor, length: int) -> Any:
    q, shares = g.reshape(-1, length), input.reshape(-1, length).softmax(1)
    # A constant: the result is the same for any.
    along = (q.detach() * shares.detach()).sum(1, True)
    rest = ((q - along) * shares).sum(1, True)
    by_input = ((q - along) - rest) * shares * grad.reshape(-1, 1)
    by_grad = (q * shares).sum(1).reshape(grad._layout.shape)
    return by_grad, by_input.reshape(input._layout.shape)


@structured("reduce.row_slopes.norm", kernel_gradients=True, fresh=True, homes="nowhere",
            known_as="linalg_vector_norm_backward")  # fmt: skip
def euclidean_slope(grad: Tensor, size: Tensor, input: Tensor, length: int) -> Tensor:
    """Return grad * input / size of rows of a length, with one number of grad each, and their
    norms, of which none is 0, as sizes.
    """


@euclidean_slope.plan
def _(grad: Tensor, size: Tensor, input: Tensor, length: int) -> Plan:
    return Plan(input._layout.shape, input._layout.dtype, (length,))


@euclidean_slope.vjp("grad", "input")
def _(g: Tensor, grad: Tensor, size: int | Sequence[int], input: Tensor, length: int) -> Any:
    x, q = input.reshape(-1, length), g.reshape(-1, length)
    own = x.norm(dim=1, keepdim=True)  # size, as a function of x
    unit = x / own
    along = (q * unit).sum(1, True)
    by_input = (q - unit * along) * (grad.reshape(-1, 1) / own)
    return along.reshape(grad._layout.shape), by_input.reshape(input._layout.shape)

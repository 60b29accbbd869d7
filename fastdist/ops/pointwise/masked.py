"""The choice between two values by a condition."""

from __future__ import annotations

from typing import Any

from ...core.device import CPU
from ...core.dtypes import DType
from ...dispatch.node_writer import OpNode
from ...dispatch.op import Op
from ...dispatch.pointwise import pointwise
from ...interpreters.batched_tensor import level_of, value_at
from ...interpreters.batching import pointwise as in_one_shape
from ...tensor.constants import held, require_held
from ...tensor.promotion import result_dtype
from ...tensor.tensor import Tensor


@pointwise(
    "where(condition, input, other)",
    [None, "where(condition, g, T(0))", "where(condition, T(0), g)"],
    takes_complex=True,
    homes="function",
    out="same",
)
def where(condition: Tensor, input: Tensor | complex, other: Tensor | complex) -> Tensor:
    """Return input where condition is true, and other elsewhere."""


@where.refusal
def _(dtypes: list[DType], operands: Any) -> None:
    given = operands[1:]
    numbers = [one for one in given if not isinstance(one, Tensor)]
    if not numbers:
        return
    met = result_dtype(given)
    if not met.is_half:  # in half types, numbers out of range become inf, as in PyTorch
        for number in numbers:
            require_held(number, met)


@pointwise(
    "where(mask, value, input)",
    ["where(mask, T(0), g)", None, "where(mask, g, T(0))"],
    dtype="first",
    takes_complex=True,
)
def masked_fill(input: Tensor, mask: Tensor, value: Tensor) -> Tensor:
    """Return input with the elements replaced by `value` where mask is true.

    Raises  RuntimeError if mask is not bool, the shapes do not broadcast, or value is not one
            number

    Args:
        input: A tensor of any shape and dtype. The result has the broadcast shape of input and
            mask.
        mask: A tensor of bool that broadcasts with input.
        value: A number or a 0-d tensor. It is converted to the dtype of input: 1.5 becomes 1 in
            int64.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.tensor([1.0, 2.0]).masked_fill(torch.tensor([True, False]), 0.0)
        tensor([0., 2.])
    """


@masked_fill.names_node
def _(node: OpNode) -> str:
    return "masked_fill" if node.edges[2] is None else "masked_fill.1"


@masked_fill.refusal
def _(dtypes: list[DType], operands: Any) -> None:
    # Only a value on the CPU is checked. A check of a value on another device would wait for that
    # device.
    value = operands[2]
    if not isinstance(value, Tensor) or dtypes[2] is dtypes[0] or value._layout.shape:
        return
    if value._layout.device is CPU and not level_of((value,)):
        number = value._array.item()
        held(number if number.imag else number.real, dtypes[0])


@masked_fill.batches
def _(op: Op, operands: tuple[Any, ...], attributes: tuple[Any, ...], level: int) -> Any:
    input, mask, value = operands
    if level_of((value,)) < level:
        return in_one_shape(op, operands, attributes, level)
    found = where(mask, value.to(input._layout.dtype), input)  # value is 0-d
    return value_at(found, level)

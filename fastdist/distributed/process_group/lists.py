"""Checks of the tensor lists of a ProcessGroup's methods, and calls with several tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fastdist.core.errors import CollectiveArgumentError

from ...tensor.tensor import Tensor
from .arrays import (
    agreed_text,
    require_alike,
    require_readable,
    require_target,
    require_tensors,
)
from .memory import memory_of
from .reductions import Reduction, reduction_of
from .transport import Call, Transport
from .work import Work

# Each tensor in a message of several tensors begins at a multiple of 16 bytes, as GPU arrays must.
_ALIGNMENT: Final = 16
_COMBINE: Final[dict[str, Callable[..., Any]]] = {
    "sum": np.add,
    "product": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "band": np.bitwise_and,
    "bor": np.bitwise_or,
    "bxor": np.bitwise_xor,
}


def only(what: str, name: str, given: Sequence[Any]) -> Any:
    """Return the only entry of a list.

    Raises  CollectiveArgumentError if the list does not have exactly one entry
    """
    if len(given) != 1:
        raise CollectiveArgumentError(
            f"{what}: requires a single-element {name}, got one of {len(given)}"
        )
    return given[0]


def require_list(name: str, given: Any) -> None:
    """Raise TypeError unless an argument is a list or a tuple."""
    if not isinstance(given, list | tuple):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor] "
            f"but got {type(given)} instead."
        )


def require_root_tensor(what: str, index: int, tensors: Sequence[Any]) -> None:
    """Raise CollectiveArgumentError unless the index of the root's tensor is within the list."""
    if not 0 <= index < len(tensors):
        raise CollectiveArgumentError(
            f"{what}: invalid root tensor: {index}; the list has {len(tensors)}"
        )


def require_coalescible(what: str, tensors: Any) -> None:
    """Raise unless the argument is a list of dense tensors of one dtype.

    Raises  TypeError if the argument is not a list of tensors; CollectiveArgumentError if the list
            is empty, or dtypes or layouts differ
    """
    require_tensors(what, "tensors", tensors, lambda *_: None)
    if not tensors:
        raise CollectiveArgumentError(f"{what}: requires non-empty tensor list")
    for index, one in enumerate(tensors):
        if one._layout.is_sparse != tensors[0]._layout.is_sparse:
            raise CollectiveArgumentError(f"{what}: invalid tensor layout at index {index}")
        if one._layout.dtype is not tensors[0]._layout.dtype:
            raise CollectiveArgumentError(
                f"{what}: tensors must all have the same type: `tensors[{index}]` has "
                f"{one._layout.dtype}, `tensors[0]` {tensors[0]._layout.dtype}"
            )
    if tensors[0]._layout.is_sparse:
        raise CollectiveArgumentError(
            f"{what}: unsupported layout: No support for sparse tensors. Call all_reduce for each"
        )
    require_tensors(what, "tensors", tensors, require_target)


def require_gather_lists(
    given: Any, lists: Sequence[Any], inputs: Sequence[Any], size: int
) -> None:
    """Raise CollectiveArgumentError unless there is one list per input, and each list has one
    output per input of each member.
    """
    if not inputs:
        raise CollectiveArgumentError("all_gather: requires non-empty input tensor list")
    if len(lists) != len(inputs) or not given:
        raise CollectiveArgumentError(
            "all_gather: requires input/output tensor lists to have the same length, got "
            f"{len(inputs)} and {len(given)}"
        )
    for index, outs in enumerate(lists):
        if len(outs) != size * len(inputs):
            raise CollectiveArgumentError(
                f"all_gather: invalid output tensor list at index {index} (expected length "
                f"{size * len(inputs)}, got {len(outs)})"
            )


def require_member_lists(lists: Any, inputs: Any, size: int) -> None:
    """Raise unless there is one list of outputs per member, and each list matches the inputs.

    Raises  TypeError if the argument is not a list of lists of tensors; CollectiveArgumentError if
            lengths, sizes or dtypes differ
    """
    what = "all_gather_coalesced"
    is_list = isinstance(lists, list | tuple) and all(
        isinstance(one, list | tuple) for one in lists
    )
    if not is_list:
        raise TypeError(
            f"Invalid function argument: {what}: output_tensor_lists should be a list of lists"
        )
    require_tensors(what, "input_tensor_list", inputs)
    if len(lists) != size:
        raise CollectiveArgumentError(
            f"{what}: output lists should be equal to world size: {len(lists)} lists, {size} "
            "members"
        )
    for outs in lists:
        require_tensors(what, "output_tensor_lists", outs, require_target)
        if len(outs) != len(inputs):
            raise CollectiveArgumentError(
                f"{what}: invalid output size: {len(outs)} tensors for {len(inputs)} inputs"
            )
        for index, (out, one) in enumerate(zip(outs, inputs)):
            if out._layout.shape != one._layout.shape:
                raise CollectiveArgumentError(
                    f"{what}: invalid size of output tensor at index {index} (expected "
                    f"{tuple(one._layout.shape)}, got {tuple(out._layout.shape)})"
                )
            if out._layout.dtype is not one._layout.dtype:
                raise CollectiveArgumentError(
                    f"{what}: invalid tensor type at index {index} (expected "
                    f"{one._layout.dtype}, got {out._layout.dtype})"
                )


def all_reduce_together(group: Any, tensors: Sequence[Tensor], options: Any) -> Work:
    """Replace each of several tensors by the reduction of all tensors of all members."""
    require_tensors("all_reduce", "tensors", tensors, lambda *_: None)
    require_alike("all_reduce", tensors)
    if tensors[0]._layout.is_sparse:
        from .sparse import all_reduce_sparse_list

        return all_reduce_sparse_list(group, tensors, options)
    require_tensors("all_reduce", "tensors", tensors, require_target)
    how = reduction_of(options.reduceOp, tensors[0]._layout.dtype.numpy, "all_reduce")

    def act(transport: Transport, call: Call) -> None:
        memory = memory_of(transport)
        rows = [memory.flat(tensor) for tensor in tensors]
        total = _combined(how, memory, rows)
        transport.all_reduce(call, how.view(total), memory.op_of(how))
        memory.divide(how, total, transport.size * len(rows))
        for tensor in tensors:
            memory.copy_back(total, tensor)

    agreed = agreed_text(tensors[0], f"{len(tensors)} tensors, {how.name}")
    work: Work = group._run("all_reduce", agreed, act, list(tensors), options)
    return work


def _combined(how: Reduction, memory: Any, rows: Sequence[Any]) -> Any:
    """Return the reduction of this member's arrays, as a new array."""
    if how.factor is not None:
        rows = [memory.multiply(row, how.factor) for row in rows]
    total = memory.copy(rows[0])
    seen = how.view(total)
    for row in rows[1:]:
        _COMBINE[how.op](seen, how.view(row), out=seen)
    return total


def all_gather_together(
    group: Any, lists: Sequence[Sequence[Tensor]], inputs: Sequence[Tensor], options: Any
) -> Work:
    """Fill each list with the inputs of all members, ordered by member."""
    require_tensors("all_gather", "input_tensors", inputs, require_readable)
    require_alike("all_gather", inputs)
    for outs in lists:
        require_tensors("all_gather", "output_tensors", outs, require_target)
        require_alike("all_gather", [inputs[0], *outs])
    count, width = len(inputs), inputs[0]._layout.numel

    def act(transport: Transport, call: Call) -> None:
        memory = memory_of(transport)
        joined = memory.join([memory.flat(one) for one in inputs])
        room = memory.empty((transport.size, count * width), joined.dtype)
        transport.all_gather(call, room, joined)
        parts = room.reshape((transport.size * count, width))
        for outs in lists:
            for out, part in zip(outs, parts):
                memory.copy_back(part, out)

    agreed = agreed_text(inputs[0], f"{count} tensors")
    work: Work = group._run("all_gather", agreed, act, [list(outs) for outs in lists], options)
    return work


def all_gather_lists(
    group: Any, lists: Sequence[Sequence[Tensor]], inputs: Sequence[Tensor], options: Any
) -> Work:
    """Fill `lists[i]` with the inputs of member i, in one message of bytes; dtypes may differ."""
    begins = [0]
    for one in inputs:
        begins.append(begins[-1] + -(-one._layout.nbytes // _ALIGNMENT) * _ALIGNMENT)

    def act(transport: Transport, call: Call) -> None:
        memory = memory_of(transport)
        joined = memory.empty(begins[-1], np.uint8)
        for begin, one in zip(begins, inputs):
            array = memory.flat(one)
            memory.place(joined[begin : begin + array.nbytes], array.view(np.uint8))
        room = memory.empty((transport.size, begins[-1]), np.uint8)
        transport.all_gather(call, room, joined)
        for outs, row in zip(lists, room):
            for begin, out in zip(begins, outs):
                layout = out._layout
                part = row[begin : begin + layout.nbytes]
                memory.copy_back(part.view(layout.dtype.numpy), out)

    shapes = [f"{one._layout.dtype.name} of shape {one._layout.shape}" for one in inputs]
    result = [list(outs) for outs in lists]
    work: Work = group._run(
        "all_gather_coalesced", ", ".join(shapes), act, result, options, inputs=list(inputs)
    )
    return work


def rows_of(tensor: Tensor, sizes: Sequence[int] | Tensor | None, members: int) -> list[int]:
    """Return how many rows of a tensor each member gets: `sizes`, or equal numbers without `sizes`.

    Raises  RuntimeError if the sizes have the wrong sum, or the rows cannot be divided equally
    """
    if isinstance(sizes, Tensor):
        sizes = [int(size) for size in sizes.to_numpy()]
    shape = tensor._layout.shape
    if not shape:
        raise RuntimeError("all_to_all_single: a tensor of 0 dimensions has no rows to split")
    if not sizes:
        if shape[0] % members:
            raise RuntimeError(
                "Tensor's dim 0 does not divide equally across group size: "
                f"{shape[0]} rows, {members} members"
            )
        return [shape[0] // members] * members
    if len(sizes) != members:
        raise RuntimeError(
            f"Number of tensor splits not equal to group size: {len(sizes)} and {members}"
        )
    if any(size < 0 for size in sizes) or sum(sizes) != shape[0]:
        raise RuntimeError(
            f"Split sizes doesn't match total dim 0 size: {list(sizes)} of {shape[0]}"
        )
    return list(sizes)


def slices_of(array: NDArray[Any], tensor: Tensor, rows: Sequence[int]) -> list[NDArray[Any]]:
    """Split the 1-D array of a tensor's elements into slices of `rows[i]` rows of the tensor."""
    width = 1
    for length in tensor._layout.shape[1:]:
        width *= length
    found, begin = [], 0
    for count in rows:
        end = begin + count * width
        found.append(array[begin:end])
        begin = end
    return found

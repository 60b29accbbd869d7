"""Functions that split arguments over several devices and join their results."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from ...tensor.tensor import Tensor
from . import comm


def is_namedtuple(obj: Any) -> bool:
    """Return whether obj is an instance of a named tuple."""
    return isinstance(obj, tuple) and hasattr(obj, "_asdict") and hasattr(obj, "_fields")


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> list[Any]:
    """Return one copy of inputs per device, in which each tensor is replaced by the device's part
    of the tensor along dim.

    Tensors are found in tuples, lists and dicts; other values are the same in all copies.

    Note    a tensor whose length is less than the number of devices has fewer parts than devices
    Source  PyTorch, torch/nn/parallel/scatter_gather.py

    Args:
        inputs: A tensor, or nested tuples, lists and dicts of tensors.
        target_gpus: The devices, one for each part.
        dim: The axis along which tensors are split.
    """
    if isinstance(inputs, Tensor):
        return list(comm.scatter(inputs, target_gpus, dim=dim))
    if isinstance(inputs, tuple | list) and inputs:
        parts = zip(*[scatter(one, target_gpus, dim) for one in inputs], strict=False)
        if is_namedtuple(inputs):
            return [type(inputs)(*part) for part in parts]
        return [tuple(part) if isinstance(inputs, tuple) else list(part) for part in parts]
    if isinstance(inputs, dict) and inputs:
        columns = [scatter(one, target_gpus, dim) for one in inputs.values()]
        return [
            type(inputs)(zip(inputs, part, strict=True)) for part in zip(*columns, strict=False)
        ]
    return [inputs for _ in target_gpus]


def scatter_kwargs(
    inputs: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    target_gpus: Sequence[Any],
    dim: int = 0,
) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:
    """Return the positional and the keyword arguments for each device, in two equally long tuples.

    Note    arguments without tensors are repeated once per part of the tensors. PyTorch repeats
            them once per device, and calls the module without positional arguments on a device that
            gets no part of the tensors
    """
    given = scatter(inputs, target_gpus, dim) if inputs else []
    named = scatter(kwargs, target_gpus, dim) if kwargs else []
    if given and named:
        if first_tensor(inputs) is None:
            given = given[: len(named)]
        elif first_tensor(kwargs) is None:
            named = named[: len(given)]
    given += [() for _ in range(len(named) - len(given))]
    named += [{} for _ in range(len(given) - len(named))]
    return tuple(given), tuple(named)


def first_tensor(value: Any) -> Tensor | None:
    """Return the first tensor in nested tuples, lists and dicts, or None."""
    if isinstance(value, Tensor):
        return value
    many = value.values() if isinstance(value, dict) else value
    if isinstance(value, dict | tuple | list):
        return next((found for one in many if (found := first_tensor(one)) is not None), None)
    return None


def gather(outputs: Sequence[Any], target_device: Any, dim: int = 0) -> Any:
    """Join the results of several devices: concatenate their tensors along dim on target_device.

    Raises  ValueError for dicts of different sizes, TypeError for values that cannot be joined
    Note    0-d tensors are joined to a vector, with a warning

    Args:
        outputs: Per device, a tensor, or nested tuples, lists and dicts of tensors.
        target_device: The device of the result.
        dim: The axis along which tensors are joined.
    """
    if not outputs:
        raise ValueError("gather: expected the result of one device at least, got none")
    first = outputs[0]
    if isinstance(first, Tensor):
        if all(not one._layout.shape for one in outputs) and dim == 0:
            warnings.warn(
                "Was asked to gather along dimension 0, but all input tensors were scalars; will "
                "instead unsqueeze and return a vector.",
                UserWarning,
                stacklevel=2,
            )
            outputs = [one.view(1) for one in outputs]
        return comm.gather(outputs, dim, target_device)
    if first is None:
        return None
    if isinstance(first, dict):
        if any(len(first) != len(one) for one in outputs):
            raise ValueError("All dicts must have the same number of keys")
        joined = {key: gather([one[key] for one in outputs], target_device, dim) for key in first}
        return type(first)(joined)
    columns = [gather(one, target_device, dim) for one in zip(*outputs, strict=True)]
    return type(first)._make(columns) if is_namedtuple(first) else type(first)(columns)

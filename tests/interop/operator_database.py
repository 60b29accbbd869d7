"""Run PyTorch's database of operators with PyTorch and with fastdist, and report differences."""

from __future__ import annotations

import itertools
import random
import re
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

import fastdist

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db as op_db

_NAMES = (
    *("bool", "uint8", "int8", "int16", "int32", "int64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128", "complex32"),
)
DTYPES = {getattr(torch, name): getattr(fastdist, name) for name in _NAMES}
_FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
_CONSTANTS: dict[Any, Any] = {
    **DTYPES,
    **{getattr(torch, name): getattr(fastdist, name) for name in (*_FORMATS, "strided")},
}
_OUR_ROOMS = {
    torch: "", torch.nn.functional: "nn.functional.", torch.linalg: "linalg.", torch.fft: "fft.",
    torch.special: "special.", torch.Tensor: "Tensor.",
}  # fmt: skip
# Tolerances relative to the largest number, by dtype; that of another dtype is in proportion.
_NEAR = {"float32": 2e-4, "complex64": 2e-4, "float16": 1e-2, "bfloat16": 5e-2}


class NotOurs(Exception):
    """Raised for a value without a counterpart in fastdist, such as the device `meta`."""


class Taken:
    """A sample with torch's values, passed either as new tensors of torch or as tensors of
    fastdist.

    Note    tensors that share memory in torch share it in fastdist too; strides are kept
    """

    def __init__(self, sample: Any) -> None:
        self.sample = sample

    def theirs(self) -> tuple[Any, list[Any], dict[str, Any]]:
        return self._turned(_copy_of)

    def ours(self) -> tuple[Any, list[Any], dict[str, Any]]:
        return self._turned(_our_tensor)

    def _turned(self, tensor: Callable[[Any, Any], Any]) -> Any:
        memory: dict[Any, Any] = {}
        sample = self.sample
        given = (sample.input, list(sample.args), dict(sample.kwargs))
        return _mapped(given, lambda one: tensor(one, memory), ours=tensor is _our_tensor)


def _mapped(value: Any, tensor: Callable[[Any], Any], *, ours: bool) -> Any:
    if isinstance(value, torch.Tensor):
        return tensor(value)
    if isinstance(value, dict):
        return {name: _mapped(one, tensor, ours=ours) for name, one in value.items()}
    if isinstance(value, list | tuple) and not isinstance(value, torch.Size):
        items = [_mapped(one, tensor, ours=ours) for one in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return _our_word(value) if ours else value


def _our_word(value: Any) -> Any:
    if isinstance(value, torch.dtype | torch.memory_format | torch.layout):
        if value not in _CONSTANTS:
            raise NotOurs(str(value))
        return _CONSTANTS[value]
    if isinstance(value, torch.device):
        return fastdist.device(str(value))
    if isinstance(value, torch.Generator | torch.nn.Module):
        raise NotOurs(type(value).__name__)
    if isinstance(value, torch.Size):
        return fastdist.Size(value)
    if isinstance(value, types.FunctionType):
        return with_our_names(value)
    return value


def _is_own(tensor: Any) -> bool:
    """Return whether a tensor covers all of its memory, and is not a view."""
    span = 1 + sum([(n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True)])
    whole = tensor.untyped_storage().nbytes() // tensor.element_size()
    return tensor._base is None and not tensor.is_conj() and span == tensor.numel() == whole


def _copy_of(tensor: Any, memory: dict[Any, Any]) -> Any:
    if tensor.layout is not torch.strided or tensor.device.type != "cpu" or not tensor.numel():
        return tensor.clone()
    if id(tensor) in memory:
        return memory[id(tensor)]
    storage = tensor.untyped_storage()
    key = (storage.data_ptr(), tensor.dtype)
    if _is_own(tensor) and key not in memory:
        made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
        made.copy_(tensor)
        memory[key] = made.as_strided((tensor.numel(),), (1,))
    else:
        if key not in memory:
            size = storage.nbytes() // tensor.element_size()
            empty = torch.empty(0, dtype=tensor.dtype)
            memory[key] = empty.set_(storage.clone(), 0, (size,), (1,))
        made = memory[key].as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
        made = made.conj() if tensor.is_conj() else made
    memory[id(tensor)] = made
    return made


def _our_tensor(tensor: Any, memory: dict[Any, Any]) -> Any:
    if (
        tensor.layout is not torch.strided
        or tensor.dtype not in DTYPES
        or tensor.device.type != "cpu"
        or tensor.dim() > 60
    ):
        raise NotOurs(f"{tensor.dtype} {tensor.layout} {tensor.device}")
    if id(tensor) in memory:
        return memory[id(tensor)][1]
    plain = tensor.detach().resolve_conj().resolve_neg()
    dtype, shape, strides = DTYPES[plain.dtype], tuple(plain.shape), plain.stride()
    if not plain.numel():
        made = fastdist.empty_strided(shape, strides, dtype=dtype)
    else:
        key = (plain.untyped_storage().data_ptr(), plain.dtype)
        if key not in memory:
            storage = plain.untyped_storage()
            size = storage.nbytes() // plain.element_size()
            flat = torch.empty(0, dtype=plain.dtype).set_(storage, 0, (size,), (1,))
            memory[key] = _from_flat(flat)
        made = memory[key].as_strided(shape, strides, plain.storage_offset())
        if _is_own(tensor):
            made = fastdist.empty_strided(shape, strides, dtype=dtype).copy_(made)
            memory[key] = made
    # Keep the plain tensor alive, so that its id is not reused.
    memory[id(tensor)] = (plain, made)
    return made


def _from_flat(flat: Any) -> Any:
    if flat.dtype is torch.bfloat16:
        return fastdist.from_numpy(flat.view(torch.int16).numpy().copy()).view(fastdist.bfloat16)
    return fastdist.from_numpy(flat.numpy().copy())


def with_our_names(function: Any, made: dict[Any, Any] | None = None) -> Any:
    """Return PyTorch's Python function with `torch` replaced by fastdist."""
    made = {} if made is None else made
    if function in made:
        return made[function]
    names = {**function.__globals__, "torch": fastdist, "F": fastdist.nn.functional}
    names["wrapper_set_seed"] = lambda op, *args, **kwargs: op(*args, **kwargs)
    cells = [types.CellType(_enclosed(cell.cell_contents, made)) for cell in _cells_of(function)]
    found = made[function] = types.FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, tuple(cells) or None
    )
    found.__kwdefaults__ = function.__kwdefaults__
    return found


def _cells_of(function: Any) -> Any:
    return function.__closure__ or ()


def _enclosed(value: Any, made: dict[Any, Any]) -> Any:
    if isinstance(value, torch.dtype):
        return DTYPES.get(value, value)
    if isinstance(value, types.FunctionType) and value.__module__.startswith("torch.testing"):
        return with_our_names(value, made)
    return our_function(value) or value


def our_function(theirs: Any) -> Any:
    """Return fastdist's function with the name of PyTorch's, or None."""
    name = getattr(theirs, "__name__", "")
    for room, ours in _OUR_ROOMS.items():
        short = re.sub("^(fft|linalg|special)_", "", name)
        for one in {name, short} - {""}:
            if getattr(room, one, None) is theirs:
                return looked_up(ours + one)
    return None


def looked_up(name: str) -> Any:
    found: Any = fastdist
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def ours_of(op: Any) -> Any:
    """Return fastdist's counterpart of an entry of the database, or None."""
    if isinstance(op.op, types.FunctionType) and op.op.__module__.startswith("torch.testing"):
        return with_our_names(op.op)
    found = looked_up(op.name) or our_function(op.op)
    # `cfloat` is a dtype as well as a method.
    return found if callable(found) else getattr(fastdist.Tensor, op.name, None)


def name_of(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def tried(function: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """Return (result, None) or (None, error)."""
    torch.manual_seed(1)
    try:
        return function(*args, **kwargs), None
    except Exception as error:
        return None, error


def leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [leaf for one in value for leaf in leaves(one)]
    return [value]


def numbers(tensor: Any) -> Any:
    plain = tensor.detach().resolve_conj().resolve_neg()
    return (plain.float() if str(plain.dtype).endswith("bfloat16") else plain).numpy()


def differs(theirs: Any, ours: Any, *, by_chance: bool) -> str | None:
    """Return how two results differ, or None."""
    pairs = leaves(theirs), leaves(ours)
    if len(pairs[0]) != len(pairs[1]):
        return f"structure: {len(pairs[0])} and {len(pairs[1])} results"
    for one, other in zip(*pairs, strict=True):
        if not isinstance(one, torch.Tensor):
            continue
        if not isinstance(other, fastdist.Tensor):
            return f"structure: {type(other).__name__} for a tensor"
        if one.layout is not torch.strided or one.dtype not in DTYPES:
            continue
        if tuple(one.shape) != tuple(other.shape):
            return f"shape: {tuple(one.shape)} and {tuple(other.shape)}"
        if DTYPES[one.dtype] is not other.dtype:
            return f"dtype: {one.dtype} and {other.dtype}"
        told = None if by_chance else _numbers_differ(one, other)
        if told is not None:
            return told
    return None


def _numbers_differ(theirs: Any, ours: Any) -> str | None:
    one, other = numbers(theirs), np.asarray(numbers(ours))
    if one.dtype.kind in "fc":
        near = _NEAR.get(str(theirs.dtype).removeprefix("torch."), 1e-8)
        size = np.abs(one[np.isfinite(one)]).max(initial=0.0)
        with np.errstate(all="ignore"):
            same = np.isclose(other, one, rtol=near, atol=near * min(size, 1e6), equal_nan=True)
        # If one part of a complex number is NaN or infinite, C++ and NumPy give different parts.
        same |= ~np.isfinite(one) & ~np.isfinite(other) & (one.dtype.kind == "c")
    else:
        same = one == other
    if np.all(same):
        return None
    at = np.flatnonzero(~np.ravel(same))[0]
    return f"value: {np.ravel(one)[at]!r} and {np.ravel(other)[at]!r} at {at}"


def samples_of(op: Any, dtype: Any, most: int, step: int) -> Iterator[Any]:
    torch.manual_seed(42), np.random.seed(42), random.seed(42)  # noqa: NPY002 (what they draw by)
    made = op.sample_inputs("cpu", dtype, requires_grad=False)
    return itertools.islice(made, 0, most * step, step)

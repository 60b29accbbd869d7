"""Numbers in nested lists: converting them to an array, and the dtype to which they promote."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from ..core import dtypes
from ..core.dtypes import DType, promote, uint64
from ..core.errors import DTypeError, raise_out_of_memory
from ..core.folded_frames import private_cause
from ..core.sequences import as_lists, items_of, reads_by_index, require_depth, require_memory
from ..core.short_repr import short_repr
from ..tensor.promotion import dtype_of_number
from ..tensor.tensor import Tensor

_PLAIN = frozenset({bool, int, float, complex})


def array_of_lists(data: Any, wanted: DType | None = None) -> tuple[np.ndarray[Any, Any], bool]:
    """Return the numbers of data as an array, and whether any number has a dtype (NumPy scalars and
    tensors do). `wanted` is the dtype that the user requested.

    Raises  ValueError for lists of unequal length, lists nested more than 64 deep, or an integer
            that no dtype holds; TypeError for a value that is not a number
    """
    types: set[type] = set()
    if type(data) in _PLAIN:
        types.add(type(data))
    else:
        _gather_types(data, types, 0, {})
        require_memory(data)
    strange = types - _PLAIN
    if strange and any(map(reads_by_index, strange)):
        data = as_lists(data)
        types.clear()
        _gather_types(data, types, 0, {})
        strange = types - _PLAIN
    named = any(issubclass(one, Tensor | np.generic | np.ndarray) for one in strange)
    if named and any(issubclass(one, Tensor) for one in strange):
        data = _without_tensors(data)
    if wanted is uint64 and types <= {int}:
        try:
            return np.array(data, np.uint64), False
        except OverflowError:
            pass  # negative numbers wrap around later, and too large numbers raise an error below
    try:
        array = np.array(data)
    except MemoryError as error:
        raise_out_of_memory(error)
    except ValueError as error:
        raise ValueError(
            f"expected sequences of equal length at every depth, got {_short(data)}"
        ) from private_cause(error)
    _require_numbers(array, data, named)
    if array.size == 0 and not named:
        return array.astype(np.float64), named
    return (array.astype(np.int64) if array.dtype.kind in "iu" and not named else array), named


def dtype_among(data: Any) -> DType | None:
    """Return the dtype to which the numbers of data promote, or None if there are no numbers.
    Python integers count as int64, and Python floats have the default dtype.

    Raises  DTypeError for a NumPy number whose dtype fastdist does not have
    """
    if isinstance(data, Tensor):
        return data._layout.dtype
    if isinstance(data, np.generic | np.ndarray):
        return dtypes.from_numpy(data.dtype)
    if isinstance(data, list | tuple):
        found = [one for one in map(dtype_among, data) if one is not None]
        return reduce(promote, found) if found else None
    return dtype_of_number(data) if isinstance(data, int | float | complex) else None


def require_real(array: np.ndarray[Any, Any], wanted: DType) -> None:
    """Raise RuntimeError if the numbers are complex and the wanted dtype is real."""
    if array.dtype.kind == "c" and not wanted.is_complex:
        raise DTypeError(
            f"value cannot be converted to type {wanted.name} without overflow: complex numbers "
            "were given"
        )


def _gather_types(data: Any, found: set[type], depth: int, known: dict[int, Any]) -> None:
    """Add the types of the items of nested lists to `found`. `known` caches, by id, the inner
    lists that were visited, because several lists may contain the same inner list.

    Raises  ValueError for lists nested too deep, such as a list that contains itself, and for
            subclasses of list and tuple whose iterator disagrees with their length
    """
    if not isinstance(data, list | tuple):
        found.add(type(data))
        return
    require_depth(depth, data)
    # inlined items_of: a call for each inner list costs measurable time
    items = data if type(data) in (list, tuple) else items_of(data)
    types = set(map(type, items))
    lists = {one for one in types if issubclass(one, list | tuple)}
    found |= types - lists
    if lists:
        for one in items:
            if isinstance(one, list | tuple) and id(one) not in known:
                _gather_types(one, found, depth + 1, known)
                known[id(one)] = one


def _require_numbers(array: np.ndarray[Any, Any], data: Any, named: bool) -> None:
    """Raise ValueError or DTypeError unless array holds numbers that a dtype can hold."""
    too_wide = array.dtype == np.uint64 and not named
    if (array.dtype.kind in "biufc" and not too_wide) or array.size == 0:
        return
    if too_wide or all(isinstance(one, int | float) for one in array.flat):
        raise ValueError(f"Overflow when unpacking long long: no dtype holds {_short(data)}")
    raise DTypeError(f"tensor() takes numbers, got {_short(data)} of type {type(data).__name__}")


def _without_tensors(data: Any) -> Any:
    if isinstance(data, Tensor):
        # A tensor with one element counts as a number, whatever its shape, as in PyTorch.
        return data.to_numpy().reshape(()) if data._layout.numel == 1 else data.to_numpy()
    return [_without_tensors(one) for one in data] if isinstance(data, list | tuple) else data


def _short(data: Any) -> str:
    text = short_repr(data)
    return text if len(text) < 60 else text[:57] + "..."

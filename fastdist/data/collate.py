"""Collation: makes a batch from samples."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from ..core.dtypes import float64
from ..core.folded_frames import fold_public
from ..core.sequences import finite_list
from ..ops.create.creation import as_tensor, tensor
from ..ops.shape.joining import stack
from ..tensor.tensor import Tensor

Map = dict[Any, Callable[..., Any]]
Collate = Callable[[Sequence[Any]], Any]

# Matches NumPy's codes of string and object dtypes; arrays of these dtypes do not become tensors.
np_str_obj_array_pattern = re.compile(r"[SaUO]")
default_collate_err_msg_format = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
)


def default_collate(batch: Sequence[Any]) -> Any:
    """Return samples as one batch; tensors and numbers get a new first axis.

    Dtype   Python floats -> float64, integers -> int64; arrays keep their dtype
    Raises  TypeError for anything but tensors, arrays of numbers, numbers, strings, and mappings
            and sequences of these; RuntimeError for samples of unequal size; ValueError for a
            sequence whose iterator yields more or fewer items than `len()` says
    Note    mappings and named tuples keep their class, and tuples become lists. A batch of strings
            (Python's or NumPy's) or of bytes stays unchanged
    """
    if is_by_class():
        return collate(batch, collate_fn_map=default_collate_fn_map)
    return _collated(batch)


def _collated(batch: Sequence[Any]) -> Any:
    first = batch[0]
    if not isinstance(first, str | bytes):
        batch = _items(batch)
    if isinstance(first, Tensor):
        return stack(list(batch))
    if isinstance(first, np.ndarray):
        return stack([as_tensor(_require_numbers(array)) for array in batch])
    if isinstance(first, str | bytes):  # before the check for NumPy scalars: np.str_ is also a str
        return batch
    if isinstance(first, np.bool_ | np.number):
        return tensor(np.asarray(batch))
    if isinstance(first, float):
        return tensor(list(batch), dtype=float64)
    if isinstance(first, int):
        return tensor(list(batch))
    if isinstance(first, Mapping):
        return _mapping(batch)
    if isinstance(first, Sequence):
        return _sequence(batch)
    raise _unknown(type(first))


def _items(data: Any) -> Any:
    """Return the items of a sequence or the keys of a mapping.

    Raises  ValueError if the iterator of `data` yields more or fewer items than `len(data)`
    """
    return data if type(data) in (list, tuple, dict) else finite_list(data)


def _require_numbers(array: Any) -> Any:
    """Return an array unchanged.

    Raises  TypeError for an array of strings or of objects
    """
    if isinstance(array, np.ndarray) and array.dtype.kind in "USO":
        raise _unknown(array.dtype)
    return array


def _unknown(found: Any) -> TypeError:
    return TypeError(
        f"{default_collate_err_msg_format.format(found)}: pass a collate_fn of your own"
    )


def default_convert(data: Any) -> Any:
    """Return a sample with its arrays converted to tensors; other values stay unchanged."""
    if isinstance(data, Tensor | str | bytes):
        return data
    if isinstance(data, np.ndarray):
        return data if data.dtype.kind in "USO" else as_tensor(data)
    if isinstance(data, np.generic):
        return data if isinstance(data, np.str_ | np.bytes_) else tensor(np.asarray(data))
    if isinstance(data, Mapping):
        return _like(data, {key: default_convert(data[key]) for key in _items(data)})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*[default_convert(part) for part in _items(data)])
    if isinstance(data, Sequence):
        parts = [default_convert(part) for part in _items(data)]
        return parts if type(data) is tuple else _like(data, parts)
    return data


def _mapping(batch: Sequence[Any], collated: Collate = _collated) -> Any:
    first = batch[0]
    return _like(first, {key: collated([sample[key] for sample in batch]) for key in _items(first)})


def _sequence(batch: Sequence[Any], collated: Collate = _collated) -> Any:
    first = batch[0]
    lengths = {len(sample) for sample in batch}
    if len(lengths) > 1:
        raise RuntimeError(
            f"each element in list of batch should be of equal size, got lengths {sorted(lengths)}"
        )
    columns = [collated(column) for column in zip(*map(_items, batch), strict=True)]
    if isinstance(first, tuple):
        return type(first)(*columns) if hasattr(first, "_fields") else columns
    return _like(first, columns)


def _like(first: Any, made: Any) -> Any:
    """Convert a dict or list to the first sample's class. If that fails, return it unchanged."""
    if type(first) in (dict, list):
        return made
    try:
        if isinstance(first, MutableMapping):
            # copy() keeps the other attributes of the container, such as a defaultdict's factory.
            clone = copy.copy(first)
            clone.update(made)
            return clone
        if isinstance(first, MutableSequence):
            kept = copy.copy(first)
            for i, value in enumerate(made):
                kept[i] = value
            return kept
        return type(first)(made)
    except TypeError:  # for instance a range, or a mapping that cannot be constructed from items
        return made


# ---- Collating by the class of the samples ------------------------------------------------------


def collate(batch: Sequence[Any], *, collate_fn_map: Map | None = None) -> Any:
    """Return samples as one batch, made by the function in the map for the first sample's class.

    Args:
        batch: The samples.
        collate_fn_map: Maps a class, or a tuple of classes, to a function with the parameters
            (batch, *, collate_fn_map). An entry for the first sample's own class has priority. If
            there is none, the first entry for a base class is used. Containers that are not in the
            map are collated part by part.

    Raises  TypeError for samples that are neither in the map nor containers
    """
    first = batch[0]
    found = (collate_fn_map or {}).get(type(first))
    for kind, function in (collate_fn_map or {}).items():
        if found is None and isinstance(first, kind):
            found = function
    if found is not None:
        return found(batch, collate_fn_map=collate_fn_map)

    def collated(part: Sequence[Any]) -> Any:
        return collate(part, collate_fn_map=collate_fn_map)

    if isinstance(first, Mapping):
        return _mapping(batch, collated)
    if isinstance(first, Sequence):
        return _sequence(batch, collated)
    raise _unknown(type(first))


def collate_tensor_fn(batch: Sequence[Any], *, collate_fn_map: Map | None = None) -> Any:
    """Return Tensors as one Tensor with a new first axis."""
    return stack(list(batch))


def collate_numpy_array_fn(batch: Sequence[Any], *, collate_fn_map: Map | None = None) -> Any:
    """Return arrays of numbers as one Tensor with a new first axis."""
    tensors = [as_tensor(_require_numbers(array)) for array in batch]
    return collate(tensors, collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch: Sequence[Any], *, collate_fn_map: Map | None = None) -> Any:
    """Return NumPy scalars as a Tensor of their dtype."""
    return tensor(np.asarray(batch))


def collate_float_fn(batch: Sequence[Any], *, collate_fn_map: Map | None = None) -> Any:
    """Return Python floats as a Tensor of float64."""
    return tensor(list(batch), dtype=float64)


def collate_int_fn(batch: Sequence[Any], *, collate_fn_map: Map | None = None) -> Any:
    """Return integers or bools as a Tensor of int64 or bool."""
    return tensor(list(batch))


def collate_str_fn(batch: Sequence[Any], *, collate_fn_map: Map | None = None) -> Any:
    """Return strings unchanged."""
    return batch


# Other packages add functions for their own classes to this map; default_collate then uses it.
default_collate_fn_map: Map = {
    Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}
_AS_SHIPPED = dict(default_collate_fn_map)


def is_by_class() -> bool:
    """Return whether `default_collate_fn_map` was changed, so that default_collate must use it."""
    return default_collate_fn_map != _AS_SHIPPED


fold_public(__name__)

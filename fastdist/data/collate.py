"""How samples become a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..core.dtypes import float64
from ..ops.creation import as_tensor, tensor
from ..ops.joining import stack
from ..tensor.tensor import Tensor


def default_collate(batch: Sequence[Any]) -> Any:
    """Return samples as one batch, with a new first axis wherever there are tensors or numbers.

    Dtype   Python floats -> float64, integers -> int64; arrays keep theirs
    Raises  TypeError for what is no tensor, array, number, string, mapping or sequence of these;
            RuntimeError for samples of unequal size
    Note    mappings and named tuples stay what they are, tuples become lists, strings stay a list
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return stack(list(batch))
    if isinstance(first, np.ndarray):
        return stack([as_tensor(array) for array in batch])
    if isinstance(first, np.generic):
        return tensor(np.asarray(batch))
    if isinstance(first, float):
        return tensor(list(batch), dtype=float64)
    if isinstance(first, int):
        return tensor(list(batch))
    if isinstance(first, str | bytes):
        return batch
    if isinstance(first, Mapping):
        return _mapping(batch)
    if isinstance(first, Sequence):
        return _sequence(batch)
    raise TypeError(
        "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; "
        f"found {type(first)}: pass a collate_fn of your own"
    )


def default_convert(data: Any) -> Any:
    """Return a sample with tensors for its arrays; what is no array stays what it is."""
    if isinstance(data, Tensor | str | bytes):
        return data
    if isinstance(data, np.ndarray):
        return data if data.dtype.kind in "USO" else as_tensor(data)
    if isinstance(data, np.generic):
        return data if isinstance(data, np.str_ | np.bytes_) else tensor(np.asarray(data))
    if isinstance(data, Mapping):
        converted = {key: default_convert(data[key]) for key in data}
        return converted if type(data) is dict else type(data)(converted)  # type: ignore[call-arg]
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*[default_convert(part) for part in data])
    if isinstance(data, Sequence):
        parts = [default_convert(part) for part in data]
        try:
            return parts if type(data) is tuple else type(data)(parts)  # type: ignore[call-arg]
        except TypeError:  # such as a range
            return parts
    return data


def _mapping(batch: Sequence[Any]) -> Any:
    first = batch[0]
    collated = {key: default_collate([sample[key] for sample in batch]) for key in first}
    return collated if type(first) is dict else type(first)(collated)


def _sequence(batch: Sequence[Any]) -> Any:
    first = batch[0]
    lengths = {len(sample) for sample in batch}
    if len(lengths) > 1:
        raise RuntimeError(
            f"each element in list of batch should be of equal size, got lengths {sorted(lengths)}"
        )
    columns = [default_collate(column) for column in zip(*batch, strict=True)]
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*columns)
    return columns

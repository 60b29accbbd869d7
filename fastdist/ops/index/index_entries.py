"""Parsing of `x[...]`: entries that make a view, and tensors that select positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ...core.caller_warning import warn_caller
from ...core.device import CPU
from ...core.dtypes import bool_, int32, int64, uint8
from ...core.errors import raise_out_of_memory
from ...core.sequences import as_lists
from ...core.torch_function import is_offered
from ...graph.modes import modes
from ...tensor.axes import DimError
from ...tensor.layout import Shape
from ...tensor.tensor import Tensor, from_array


def from_list(index: list[Any]) -> Any:
    """Return the tuple that a list used as an index represents. A list of positions is returned
    unchanged, or, if no interpreter is open, as a tensor.

    A list of fewer than 32 entries that contains a sequence, a tensor, a slice, `...` or None
    represents a tuple, as in PyTorch and older versions of NumPy.
    """
    if not modes.special and index and _INTS.issuperset(map(type, index)):
        array = np.array(index)
        if array.dtype == np.int64:  # otherwise a number is too large
            return from_array(array)
    if len(index) >= 32 or not any(map(_makes_tuple, index)):
        return index
    warn_caller(
        "Using a non-tuple sequence for multidimensional indexing is deprecated: use "
        "x[tuple(seq)] instead of x[seq], or x[torch.tensor(seq)] for places along the first axis",
        once=True,
    )
    return tuple(index)


_INTS: Final = frozenset({int})


def _makes_tuple(one: Any) -> bool:
    return one is None or one is Ellipsis or isinstance(one, slice | Tensor | Sequence | np.ndarray)


def split_index(input: Tensor, index: Any) -> tuple[tuple[Any, ...], tuple[Any, ...] | None]:
    """Split index into the part that makes a view, and the tensors that select positions in that
    view.

    Integers, slices and None apply first, as in PyTorch, wherever the tensors are in the index. So
    in x[0, :, i], the axes of i come last.
    """
    basic: list[Any] = []
    entries: list[Any] = []
    masks: list[tuple[int, Shape]] = []
    for one in index if isinstance(index, tuple) else (index,):
        if one is Ellipsis and any(known is Ellipsis for known in basic):
            continue  # the first Ellipsis covers all remaining axes
        before = len(basic)
        mask = _take_in(one, basic, entries)
        if mask is not None:
            masks.append((before, mask))
    for at, mask in masks:
        _require_length(mask, basic, at, input._layout.shape)
    tensors = [entry for entry in entries if isinstance(entry, Tensor)]
    if not tensors:
        return tuple(basic), None
    if all(one == slice(None) or one is Ellipsis for one in basic if one is not None) and not any(
        one is None for one in basic
    ):
        kept = _places_of(basic, entries, len(input._layout.shape), input)
        return (), kept
    ndim = len(input._layout.shape) + sum(one is None for one in basic)
    ndim -= sum(isinstance(one, int) for one in basic)
    return tuple(basic), _places_of(basic, entries, ndim, input)


def _require_length(mask: Shape, basic: list[Any], at: int, shape: Shape) -> None:
    """Raise IndexError if the shape of a mask is not the shape of the axes that it indexes."""
    before = sum(one is not None and one is not Ellipsis for one in basic[:at])
    taken = sum(one is not None and one is not Ellipsis for one in basic)
    if any(one is Ellipsis for one in basic[:at]):
        before += len(shape) - taken
    if taken > len(shape) or shape[before : before + len(mask)] == mask:
        return  # the shapes are equal, or another check reports too many indices
    wrong = next(i for i, n in enumerate(mask) if n != shape[before + i])
    raise DimError(
        f"The shape of the mask {list(mask)} at index {wrong} does not match the shape of the "
        f"indexed tensor {list(shape)} at index {before + wrong}"
    )


def _take_in(one: Any, basic: list[Any], entries: list[Any]) -> Shape | None:
    """Append one entry of an index to both lists: `basic` makes the view, and `entries` selects
    positions.

    Note    the result is the shape of `one` if `one` is a mask, otherwise None
    """
    if one is None or isinstance(one, slice) or one is Ellipsis:
        basic.append(_checked(one))
        entries.append(Ellipsis if one is Ellipsis else None)
    elif isinstance(one, bool | np.bool_):
        basic.append(None)
        mask = np.zeros(1 if one else 0, np.int64)
        entries.append(from_array(mask))
    elif is_offered(one):
        raise TakenOver
    elif hasattr(one, "__index__") and not isinstance(one, Tensor | np.ndarray):
        basic.append(one.__index__())
    else:
        tensor = one if isinstance(one, Tensor) else _as_index(one)
        dtype = tensor._layout.dtype
        if dtype is bool_ or dtype is uint8:
            for places in _nonzero(tensor):
                basic.append(slice(None))
                entries.append(places)
            if not tensor._layout.shape:
                basic.append(None)
                entries.append(from_array(np.zeros(int(tensor.item()), np.int64)))
            return tensor._layout.shape
        elif not tensor._layout.shape and not dtype.is_floating_point:
            basic.append(int(tensor.item()))
        elif dtype is not int64 and dtype is not int32:
            raise DimError(
                "tensors used as indices must be long, int, byte or bool tensors, got "
                f"{dtype.name}; cast with .long()"
            )
        else:
            basic.append(slice(None))
            entries.append(tensor)
    return None


class TakenOver(Exception):
    """Raised if an entry of an index overrides calls with `__torch_function__`."""


def _checked(one: Any) -> Any:
    if isinstance(one, slice):
        if one.step is not None and one.step <= 0:
            raise ValueError("step must be greater than zero")
        if any(isinstance(part, Tensor) for part in (one.start, one.stop, one.step)):
            return slice(
                *(None if p is None else p.__index__() for p in (one.start, one.stop, one.step))
            )
    return one


def _as_index(value: Any) -> Tensor:
    try:
        array = np.asarray(as_lists(value))
    except MemoryError as error:
        raise_out_of_memory(error)
    if array.size == 0 and array.dtype == np.float64:
        array = array.astype(np.int64)
    if array.dtype.kind not in "biu":
        # PyTorch raises TypeError for strings, and IndexError for numbers that are not integers.
        kind = TypeError if array.dtype.kind in "US" else DimError
        raise kind(
            "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are "
            f"valid indices (got {type(value).__name__})"
        )
    return from_array(array if array.dtype in (bool, np.uint8) else array.astype(np.int64))


def _nonzero(mask: Tensor) -> list[Tensor]:
    """Return the positions where mask is true, one tensor per axis. If mask is on a GPU, this waits
    once for the GPU.
    """
    layout = mask._layout
    if not layout.shape:
        return []
    if layout.device is CPU:
        return [from_array(places) for places in np.nonzero(mask.to_numpy())]
    from .searchsorted import places_that_hold

    return axes_of(places_that_hold(mask), layout.shape)


def axes_of(places: Tensor, shape: Shape) -> list[Tensor]:
    """Convert flat positions in C order to one index tensor per axis of shape. For a shape without
    axes, return the positions, which are 0.
    """
    found: list[Any] = []
    rest = places
    for n in reversed(shape[1:]):
        found.append(rest % max(n, 1))
        rest = rest.div(max(n, 1), rounding_mode="floor")
    return [rest, *reversed(found)]


def _places_of(basic: list[Any], entries: list[Any], ndim: int, input: Tensor) -> tuple[Any, ...]:
    """Return one entry per axis of the view, with `...` replaced by the needed number of None."""
    given = [entry for entry in entries if entry is not Ellipsis]
    if Ellipsis in [e for e in entries if not isinstance(e, Tensor)]:
        at = next(i for i, entry in enumerate(entries) if entry is Ellipsis)
        given[at:at] = [None] * (ndim - len(given))
    if len(given) > ndim:
        raise DimError(
            f"too many indices for tensor of dimension {len(input._layout.shape)}: its shape is "
            f"{input._layout.shape}"
        )
    while given and given[-1] is None:
        given.pop()
    return tuple(given)

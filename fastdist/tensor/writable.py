"""Checks before writes: whether memory is writable, and whether elements share an address."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..devices.backend import backend_of
from .layout import Layout, memory_order
from .tensor import Tensor


def require_writable(target: Tensor) -> None:
    """Raise RuntimeError unless `target` is writable and no two of its elements share memory."""
    layout = target._layout
    # A write into a sparse tensor replaces its entries; no memory is overwritten.
    if layout.numel == 0 or layout.is_sparse:
        return
    if not layout.contiguous and any(
        step == 0 and length > 1 for length, step in zip(layout.shape, layout.strides, strict=True)
    ):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a "
            "single memory location. Please clone() the tensor before performing the operation: "
            f"it has shape {layout.shape} and strides {layout.strides}"
        )
    array = target._array
    if array.__class__ is np.ndarray and not array.flags.writeable and not _opened(target):
        raise RuntimeError(
            "unsupported operation: the memory of the written-to tensor is read-only, as the NumPy "
            "array was that it was made of; write to a clone()"
        )


def require_apart(target: Tensor, others: Iterable[Any], *, wholly: bool = False) -> None:
    """Raise RuntimeError if `target` and one of `others` overlap in memory at different indices: a
    write could then overwrite elements before they are read. An operand with the same memory and an
    equal layout is allowed, unless `wholly` is true.

    Note    memory with gaps is not checked, as in PyTorch
    """
    for other in others:
        if isinstance(other, Tensor) and _overlaps(target, other, wholly):
            raise RuntimeError(
                "unsupported operation: some elements of the input tensor and the written-to "
                "tensor refer to a single memory location. Please clone() the tensor before "
                f"performing the operation: the input has shape {other._layout.shape}, the "
                f"written-to tensor {target._layout.shape}"
            )


def shares_memory(target: Tensor, other: Tensor) -> bool:
    """Return whether two tensors are different views of one base."""
    storage = other._storage
    return storage is not None and storage is target._storage and other is not target


def may_overlap(array: Any, target: Any) -> bool:
    """Return whether raw arrays may share memory; True for GPU arrays, which are not inspected."""
    return target.__class__ is not np.ndarray or np.may_share_memory(array, target)


def _overlaps(target: Tensor, other: Tensor, wholly: bool) -> bool:
    if other is target:
        return wholly and target._layout.numel > 0
    if not shares_memory(target, other):
        return False
    one, two = target._layout, other._layout
    if not (one.numel and two.numel and _is_dense(one) and _is_dense(two)):
        return False
    address = backend_of(one.device.type).data_ptr
    start, begin = address(target._array), address(other._array)
    if start == begin and one.nbytes == two.nbytes:
        return wholly or (not (one.contiguous and two.contiguous) and one.strides != two.strides)
    return bool(start < begin + two.nbytes and begin < start + one.nbytes)


def _is_dense(layout: Layout) -> bool:
    """Return whether the elements have no gaps in memory, and no two elements share memory."""
    order = memory_order(layout)
    return layout.contiguous or (order is not None and layout.has_memory_order(tuple(order)))


def _opened(target: Tensor) -> bool:
    """Make `target` writable if it is a view of an expanded tensor with a writable base. Return
    whether it is writable. The caller has checked that `target` has no repeated elements.
    """
    base = None if target._extra is None else target._extra.base
    return base is not None and base._array.flags.writeable and may_write(target._array)


def may_write(array: Any) -> bool:
    """Remove the write protection that expand() sets on a NumPy array. Return whether the array is
    now writable.
    """
    try:
        array.flags.writeable = True
    except ValueError:
        return False  # the memory itself is read-only
    return True


def distinct_elements(array: Any, layout: Layout) -> Any:
    """Return the part of a raw array in which no two elements share memory. For an expanded array,
    this part is smaller than the array: a write to it changes all repeated elements. So callers may
    use it only to write the same number to all elements.
    """
    if layout.contiguous:
        return array
    repeated = [s == 0 and n > 1 for n, s in zip(layout.shape, layout.strides, strict=True)]
    if True not in repeated:
        return array
    part = array[tuple([slice(0, 1) if one else slice(None) for one in repeated])]
    return array if part.__class__ is np.ndarray and not may_write(part) else part

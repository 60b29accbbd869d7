"""A snapshot of a worker's tensors and values, which is then written to the worker's file."""

from __future__ import annotations

import io
import pickle
import zlib
from collections.abc import Iterable
from typing import Any, NamedTuple

from ...core.device import CPU
from ...graph.modes import no_grad
from ...ops.create.creation import from_numpy
from ...serialization import load, save
from ...system.page_size import allocate_base_pages
from ...tensor.tensor import Tensor
from .box import whole
from .metadata import FileRow
from .sharded_tensor import ShardedTensor
from .tree import Path, key_of

# The copies of the last save. The next save overwrites them, because copying into memory that the
# process has used before is about ten times as fast as copying into new memory.
Kept = dict[str, Tensor]


class Snapshot(NamedTuple):
    """The tensors in the order of their records, the values, and a manifest entry for each."""

    tensors: list[Tensor]
    values: dict[str, Any]
    entries: list[list[Any]]

    def row(self, name: str, size: int, worker: str, checksums: list[int]) -> FileRow:
        """Return the worker's description of the file: its row in the manifest."""
        rows = [
            [*entry, checksums[entry[6]]] if entry[0] == "tensor" else entry
            for entry in self.entries
        ]
        return {"name": name, "bytes": size, "worker": worker, "entries": rows}


def snapshot(
    leaves: Iterable[tuple[Path, Any]], *, copies: bool, kept: Kept | None = None
) -> Snapshot:
    """Return the present values of the leaves; with `copies`, later changes do not affect them.

    Raises  TypeError for a value that could not be loaded without running code
    """
    taken = Snapshot([], {}, [])
    memories: set[int] = set()
    reused: Kept = {}
    for path, leaf in leaves:
        key = key_of(path)
        for tensor, offsets, size in _parts(leaf):
            label = f"{key} {offsets}"
            if copies or not _is_by_itself(tensor, memories):
                tensor = _copy(tensor, (kept or {}).get(label))
            reused[label] = tensor
            memories.add(tensor.data_ptr())
            place = [list(size), list(offsets), list(tensor.shape), len(taken.tensors)]
            taken.entries.append(["tensor", list(path), tensor.dtype.name, *place])
            taken.tensors.append(tensor.detach())
        if not _is_dense(leaf):
            taken.values[key] = leaf
            taken.entries.append(["value", list(path), _digest(key, leaf)])
    if kept is not None:
        kept.clear()
        kept.update(reused)
    return taken._replace(values=_loadable(taken.values))


def _is_dense(leaf: Any) -> bool:
    if isinstance(leaf, Tensor):
        return not leaf.is_sparse
    return isinstance(leaf, ShardedTensor)


def _parts(leaf: Any) -> list[tuple[Tensor, tuple[int, ...], tuple[int, ...]]]:
    """Return (tensor, offsets in the complete tensor, complete size) for each part of a leaf."""
    if isinstance(leaf, ShardedTensor):
        return [(part, at, tuple(leaf.size())) for part, at in leaf.local_shards()]
    if _is_dense(leaf):
        shape = tuple(leaf.shape)
        return [(leaf, whole(shape).offsets, shape)]
    return []


def _is_by_itself(tensor: Tensor, others: set[int]) -> bool:
    """Return whether a tensor fills its memory completely, and shares it with no earlier tensor."""
    return (
        tensor.device == CPU
        and tensor.is_contiguous()
        and tensor.numel() > 0
        and tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()
        and tensor.data_ptr() not in others
    )


@no_grad()
def _copy(tensor: Tensor, old: Tensor | None) -> Tensor:
    if old is None or old.shape != tensor.shape or old.dtype is not tensor.dtype:
        old = _room_for(tensor)
    copied: Tensor = old.copy_(tensor.detach())
    return copied


def _room_for(tensor: Tensor) -> Tensor:
    size, shape = tensor.numel() * tensor.element_size(), tuple(tensor.shape)
    return from_numpy(allocate_base_pages(size).view(tensor.dtype.numpy).reshape(shape))


def _loadable(values: dict[str, Any]) -> dict[str, Any]:
    """Return independent copies of the values, saved and loaded as in a checkpoint."""
    stream = io.BytesIO()
    try:
        save(values, stream)
        stream.seek(0)
        found: dict[str, Any] = load(stream, weights_only=True)
    except _NOT_PICKLED as error:
        if len(values) > 1:
            for key, value in values.items():
                _loadable({key: value})
        key, value = next(iter(values.items()))
        raise _cannot_be_saved(key, value, error) from error
    return found


_NOT_PICKLED = (pickle.PicklingError, pickle.UnpicklingError, TypeError, AttributeError)


def _cannot_be_saved(key: str, value: Any, error: Exception) -> TypeError:
    return TypeError(
        f"{key!r} of the state dict is a {type(value).__name__}, which could not be loaded "
        "without running code of the file; save tensors, numbers, text, and plain containers "
        f"of them, or give the object state_dict() and load_state_dict(): {error}"
    )


def _digest(key: str, value: Any) -> int:
    try:
        # Pickles of equal values can differ, for example if one value contains the same text object
        # twice.
        text = repr(value).encode() if _is_plain(value) else pickle.dumps(value, 4)
    except _NOT_PICKLED as error:
        raise _cannot_be_saved(key, value, error) from error
    return zlib.crc32(text)


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_plain, [*value, *value.values()]))
    if isinstance(value, list | tuple | set | frozenset):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str | bytes)

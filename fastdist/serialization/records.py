"""Reads storages from a file, and checks the pickle's description of each against the file."""

from __future__ import annotations

from pickle import UnpicklingError
from typing import Any

from ..core.device import CPU
from ..tensor.typed_storage import TypedStorage, UntypedStorage
from .budget import brief


class Records:
    """Storages by key; each is read once, when the pickle first refers to it.

    `nbytes` is the size of the file. Each subclass finds and reads the bytes of a storage in one
    file format
    """

    nbytes: int

    def __init__(self, restore: Any) -> None:
        self._restore = restore
        self._known: dict[str, UntypedStorage] = {}

    def load(self, saved_id: Any) -> Any:
        """Return the storage for a persistent id of a pickle.

        Raises  UnpicklingError for an invalid id; RuntimeError for a damaged file
        """
        if type(saved_id) is not tuple or len(saved_id) != 5 or saved_id[0] != "storage":
            raise UnpicklingError(f"a storage is not written as {brief(saved_id)}")
        _, kind, key, location, numel = saved_id
        dtype = dtype_of_kind(kind)
        if dtype is False or type(numel) is not int or type(key) is not str:
            raise UnpicklingError(f"a storage is not written as {brief(saved_id)}")
        size = numel * (1 if dtype is None else dtype.itemsize)
        storage = self._known.get(key)
        if storage is None:
            if type(location) is not str:
                raise UnpicklingError(f"a storage is not written as {brief(saved_id)}")
            storage = self._known[key] = self._read(key, size, location, dtype)
        if storage.nbytes() != size:
            raise damaged(key, size, storage.nbytes())
        if dtype is None:
            return storage
        return TypedStorage(wrap_storage=storage, dtype=dtype)

    def _read(self, key: str, size: int, location: str, dtype: Any) -> UntypedStorage:
        found = self._size(key)
        if found != size:
            raise damaged(key, size, found)
        storage = UntypedStorage.around(self._bytes(key, dtype), CPU)
        restored: UntypedStorage = self._restore(storage, location)
        return restored

    def _size(self, key: str) -> int:
        raise NotImplementedError

    def _bytes(self, key: str, dtype: Any) -> Any:
        raise NotImplementedError


def dtype_of_kind(kind: Any) -> Any:
    """Return the dtype of a storage class: None for UntypedStorage, False if it is not a class of
    storages.
    """
    if kind is UntypedStorage:
        return None
    return kind.dtype if isinstance(kind, type(TypedStorage)) else False


def damaged(key: str, size: int, found: int) -> RuntimeError:
    """Return the error for a storage whose record does not have the size in the pickle."""
    return RuntimeError(
        f"the storage {brief(key)} should hold {brief(size)} bytes, and its record in the file has "
        f"{brief(found)}: the file is damaged"
    )

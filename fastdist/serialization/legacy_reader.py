"""Reads PyTorch's format before 1.6: several pickles, followed by the bytes of the storages."""

# Note [The format before 1.6] A file has five pickles: a magic number; the protocol version;
# a dict about the machine; the value, which refers to storages by persistent ids; and the keys
# of all storages. Then each storage follows in the order of the keys: its number of elements, in
# 8 bytes, and the elements, little-endian on any machine. The reader first walks through the pickle
# of the value (`pickle_walk.py`). So it learns the length of each storage, and checks the length
# against the size of the file before it allocates memory. One stream may contain several such
# files, one after another.

from __future__ import annotations

import sys
from pickle import UnpicklingError
from typing import Any, Final

import numpy as np

from ..core.moved_modules import own_name
from ..tensor.typed_storage import TYPED_STORAGES, UntypedStorage
from .budget import Budget, brief
from .byte_stream import ByteStream
from .pickle_walk import Named, skip, walk
from .records import Records, damaged, dtype_of_kind
from .safe_unpickler import SafeUnpickler
from .torch_names import own

MAGIC: Final = 0x1950A86A20F9469CFC6C
PROTOCOL: Final = 1001
# The bytes that pickle writes for the magic number: from protocol 2 on, and in earlier protocols.
_HEADS: Final = (b"\x8a\x0a" + MAGIC.to_bytes(10, "little") + b".", b"L%dL\n." % MAGIC)
_HEAD_BYTES: Final = 32
_OUR_KINDS: Final = {own_name(kind): kind for kind in (UntypedStorage, *TYPED_STORAGES.values())}
_SMALL: Final = 1 << 16


def is_legacy(head: bytes) -> bool:
    """Return whether a file with these first bytes is in this format."""
    # The protocol, and from protocol 4 on the length of a frame, precede the magic number.
    return any(0 <= head.find(one, 0, _HEAD_BYTES) <= 11 for one in _HEADS)


class LegacyRecords(Records):
    """The storages of one file in this format; `pickled` is the pickle of the value.

    Raises  UnpicklingError or RuntimeError for a damaged file
    """

    def __init__(self, file: Any, restore: Any) -> None:
        super().__init__(restore)
        start = file.tell()
        self._stream = stream = ByteStream(file, start, file.seek(0, 2))
        self.nbytes = stream.left
        magic, protocol, _ = (self._plain("head") for _ in range(3))
        if magic != MAGIC:
            raise RuntimeError("Invalid magic number; corrupt file?")
        if protocol != PROTOCOL:
            raise RuntimeError(f"Invalid protocol version: {brief(protocol)}, expected {PROTOCOL}")
        # Maps each storage's key to the size of an element in bytes, and the number of elements.
        self._lengths: dict[str, tuple[int, int]] = {}
        self.pickled = walk(stream, self._note)
        self._places = self._find(self._plain("list of storages"))

    @property
    def end(self) -> int:
        """The position after the last storage."""
        return self._stream.at

    def load(self, saved_id: Any) -> Any:
        """Return the storage, or the part of a storage, that a persistent id describes. Some files
        store the class of an nn.Module with its source code: for such an id, return the class.

        Raises  UnpicklingError or RuntimeError for an invalid id or a damaged file
        """
        if type(saved_id) is not tuple or len(saved_id) not in (4, 6):
            raise UnpicklingError(f"a storage is not written as {brief(saved_id)}")
        if len(saved_id) == 4:
            if saved_id[0] != "module" or not isinstance(saved_id[1], type):
                raise UnpicklingError(f"a class is not written as {brief(saved_id)}")
            return saved_id[1]
        whole = super().load(saved_id[:5])
        return whole if saved_id[5] is None else self._part(whole, saved_id[5])

    def _part(self, whole: Any, view: Any) -> Any:
        """Return the part of a storage that `view` describes; files before 0.4 contain these."""
        if type(view) is not tuple or [type(one) for one in view] != [str, int, int]:
            raise UnpicklingError(f"a part of a storage is not written as {brief(view)}")
        _, first, count = view
        is_typed = not isinstance(whole, UntypedStorage)
        size = whole.dtype.itemsize if is_typed else 1
        flat = whole.untyped().raw
        if not (first >= 0 and count >= 0 and (first + count) * size <= flat.nbytes):
            raise UnpicklingError(
                f"{brief(view)} is not a part of a storage of {flat.nbytes} bytes"
            )
        step = flat.dtype.itemsize
        part = flat[first * size // step : (first + count) * size // step]
        storage = UntypedStorage.around(part, whole.untyped().device)
        return type(whole)(wrap_storage=storage, dtype=whole.dtype) if is_typed else storage

    def _plain(self, what: str) -> Any:
        """Return the value of the next pickle, which must be plain data."""
        pickled = skip(self._stream)
        if what == "head" and len(pickled) > _SMALL:
            raise UnpicklingError(f"the {what} of the file has {len(pickled)} bytes")
        return SafeUnpickler(pickled, _refuse, Budget(len(pickled))).load()

    def _note(self, saved_id: Any) -> None:
        """Record the length of the storage that `saved_id` describes."""
        kind = saved_id[0] if type(saved_id) is tuple and saved_id else None
        if kind == "module" and len(saved_id) == 4:
            return
        if kind != "storage" or len(saved_id) != 6:
            raise UnpicklingError(f"a storage is not written as {brief(saved_id)}")
        _, named, key, _, numel, _ = saved_id
        dtype: Any = False
        if isinstance(named, Named):
            # If save() got a pickle_module, the file has fastdist's names.
            dtype = dtype_of_kind(_OUR_KINDS.get(named) or own(*named))
        if dtype is False or type(key) is not str or type(numel) is not int:
            raise UnpicklingError(f"a storage is not written as {brief(saved_id)}")
        length = (1 if dtype is None else dtype.itemsize, numel)
        if self._lengths.setdefault(key, length) != length:
            raise UnpicklingError(f"the storage {brief(key)} has two lengths")

    def _find(self, keys: Any) -> dict[str, tuple[int, int]]:
        """Return the position and the size in bytes of each storage."""
        if type(keys) is not list or any(type(key) is not str for key in keys):
            raise UnpicklingError(f"keys of storages are a list of texts, not {brief(keys)}")
        if len(set(keys)) != len(keys) or set(keys) != self._lengths.keys():
            raise UnpicklingError(
                f"the file has {len(keys)} storages, and its value names {len(self._lengths)}, "
                "or others"
            )
        places = {}
        for key in keys:
            itemsize, numel = self._lengths[key]
            found = int.from_bytes(self._stream.read(8), "little", signed=True)
            if found != numel:
                raise damaged(key, numel * itemsize, found * itemsize)
            places[key] = self._stream.at, numel * itemsize
            self._stream.skip(numel * itemsize)
        return places

    def _size(self, key: str) -> int:
        return self._places[key][1] if key in self._places else -1

    def _bytes(self, key: str, dtype: Any) -> Any:
        data = self._stream.data(*self._places[key])
        return as_native(data, dtype)


def as_native(data: Any, dtype: Any) -> Any:
    """Convert little-endian bytes of a dtype to this machine's byte order."""
    if sys.byteorder == "little" or dtype is None or dtype.itemsize == 1:
        return data
    return data.view(dtype.numpy).byteswap().view(np.uint8)


def _refuse(saved_id: Any) -> Any:
    raise UnpicklingError(f"a persistent id where there can be none: {brief(saved_id)}")

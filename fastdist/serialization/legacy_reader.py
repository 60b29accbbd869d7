"""Reading PyTorch's format before 1.6: pickles one after the other, then the bytes of storages."""

# Note [The format before 1.6] A file holds five pickles: a magic number; the number of the
# protocol; a dict on the machine; the value, which names storages by persistent ids; and the keys
# of all storages. Then follows each storage in the order of the keys: how many elements it has, in
# 8 bytes, and the elements, little-endian on any machine. Where the value is walked through first
# (`pickle_walk.py`), each length is known, and checked against the bytes that are there, before
# memory is allocated. Several such files may follow one another in one stream.

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
# The magic number as protocols of pickle write it: from 2 on, and before.
_HEADS: Final = (b"\x8a\x0a" + MAGIC.to_bytes(10, "little") + b".", b"L%dL\n." % MAGIC)
_HEAD_BYTES: Final = 32
_OUR_KINDS: Final = {own_name(kind): kind for kind in (UntypedStorage, *TYPED_STORAGES.values())}
_SMALL: Final = 1 << 16


def is_legacy(head: bytes) -> bool:
    """Return whether a file that begins so is in this format."""
    # Before the number stand the protocol and, from 4 on, the length of a frame.
    return any(0 <= head.find(one, 0, _HEAD_BYTES) <= 11 for one in _HEADS)


class LegacyRecords(Records):
    """The storages of one file in this format, behind its pickles; `pickled` is that of the value.

    Raises  UnpicklingError, RuntimeError for a file that is damaged
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
        # By key: bytes of an element, and elements.
        self._lengths: dict[str, tuple[int, int]] = {}
        self.pickled = walk(stream, self._note)
        self._places = self._find(self._plain("list of storages"))

    @property
    def end(self) -> int:
        """Where the next thing in the file begins."""
        return self._stream.at

    def load(self, saved_id: Any) -> Any:
        """Return the storage, or a part of one, for a persistent id; a class that a module is of,
        which some files have with its source, is the class.

        Raises  UnpicklingError, RuntimeError
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
        """Return a part of a storage, as files of before 0.4 have them."""
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
        """Return the plain value of the pickle that comes next."""
        pickled = skip(self._stream)
        if what == "head" and len(pickled) > _SMALL:
            raise UnpicklingError(f"the {what} of the file has {len(pickled)} bytes")
        return SafeUnpickler(pickled, _refuse, Budget(len(pickled))).load()

    def _note(self, saved_id: Any) -> None:
        """Remember the length of a storage, which the pickle has just named."""
        kind = saved_id[0] if type(saved_id) is tuple and saved_id else None
        if kind == "module" and len(saved_id) == 4:
            return
        if kind != "storage" or len(saved_id) != 6:
            raise UnpicklingError(f"a storage is not written as {brief(saved_id)}")
        _, named, key, _, numel, _ = saved_id
        dtype: Any = False
        if isinstance(named, Named):
            # A pickle_module of the user's writes our names.
            dtype = dtype_of_kind(_OUR_KINDS.get(named) or own(*named))
        if dtype is False or type(key) is not str or type(numel) is not int:
            raise UnpicklingError(f"a storage is not written as {brief(saved_id)}")
        length = (1 if dtype is None else dtype.itemsize, numel)
        if self._lengths.setdefault(key, length) != length:
            raise UnpicklingError(f"the storage {brief(key)} has two lengths")

    def _find(self, keys: Any) -> dict[str, tuple[int, int]]:
        """Return where each storage lies, and how many bytes it has."""
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
    """Return little-endian bytes of a dtype in the order of this machine."""
    if sys.byteorder == "little" or dtype is None or dtype.itemsize == 1:
        return data
    return data.view(dtype.numpy).byteswap().view(np.uint8)


def _refuse(saved_id: Any) -> Any:
    raise UnpicklingError(f"a persistent id where there can be none: {brief(saved_id)}")

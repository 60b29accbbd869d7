"""Reads PyTorch's oldest format, of version 0.1.1 and before: a tar archive of four files."""

# Note [The oldest format] The file `storages` begins with the number of storages. Then it has, for
# each storage, a pickle of (key, location, class), the number of elements in 8 bytes, and the
# elements. It ends with a pickled list of storages that are parts of other storages: (key, key of
# the whole storage, offset, length). The file `tensors` begins with the number of tensors. Then it
# has, for each tensor, a pickle of (key, key of the storage, class), the number of axes in 8 bytes,
# sizes, strides and offset. The file `pickle` is the pickled value; its persistent ids are keys of
# tensors and storages. Numbers in the headers of the archive are octal text. Nothing is extracted
# to the disk.

from __future__ import annotations

import struct
from pickle import UnpicklingError
from typing import Any, Final

from ..core.device import CPU
from ..tensor.typed_storage import TYPED_STORAGES, TypedStorage, UntypedStorage
from . import rebuilding
from .budget import Budget, brief
from .byte_stream import ByteStream
from .legacy_reader import as_native
from .pickle_walk import skip, walk
from .records import Records, dtype_of_kind
from .safe_unpickler import SafeUnpickler

_BLOCK: Final = 512
_NAMES: Final = frozenset(("sys_info", "pickle", "tensors", "storages"))
_MOST_AXES: Final = 64
_USTAR: Final = slice(257, 262)
# Classes that only stand for the dtype of a tensor or storage.
_KINDS: Final[dict[tuple[str, str], Any]] = {
    (module, name.replace("Storage", ending)): TYPED_STORAGES[name]
    for module in ("torch", "torch.cuda")
    for name in TYPED_STORAGES
    for ending in ("Storage", "Tensor")
}


def is_tar(head: bytes) -> bool:
    """Return whether a file with these first bytes is a tar archive with a valid checksum."""
    return len(head) >= _BLOCK and head[_USTAR] == b"ustar" and _entry(head) is not None


class TarRecords(Records):
    """The tensors and storages of one file in this format; `pickled` is the pickle of the value.

    Raises  UnpicklingError or RuntimeError for another kind of archive, or a damaged archive
    """

    def __init__(self, file: Any, restore: Any) -> None:
        super().__init__(restore)
        start = file.tell()
        end = file.seek(0, 2)
        self.nbytes = end - start
        parts = _parts_of(ByteStream(file, start, end))
        missing = sorted(_NAMES - parts.keys())
        if missing:
            raise UnpicklingError(
                f"a tar archive without {', '.join(missing)}: it is not a file of save()"
            )
        streams = {name: ByteStream(file, at, at + size) for name, (at, size) in parts.items()}
        self._things: dict[int, Any] = {}
        self._read_storages(streams["storages"])
        self._read_tensors(streams["tensors"])
        self.pickled = walk(streams["pickle"], lambda _: None)

    def load(self, saved_id: Any) -> Any:
        """Return the tensor or storage for a persistent id. If the id is that of an nn.Module,
        return the module's class.

        Raises  UnpicklingError for an invalid id
        """
        if type(saved_id) is tuple and saved_id and isinstance(saved_id[0], type):
            return saved_id[0]
        is_key = type(saved_id) is int or (type(saved_id) is str and _is_number(saved_id))
        if not is_key or int(saved_id) not in self._things:
            raise UnpicklingError(f"the file has no tensor {brief(saved_id)}")
        return self._things[int(saved_id)]

    def _read_storages(self, stream: ByteStream) -> None:
        for _ in range(_count(stream, "storages")):
            key, location, kind = _tuple(stream, 3, "a storage")
            dtype = dtype_of_kind(kind)
            if type(key) is not int or type(location) is not str or not dtype:
                raise UnpicklingError(f"a storage is not written as {brief((key, location, kind))}")
            numel = int.from_bytes(stream.read(8), "little", signed=True)
            size = numel * dtype.itemsize
            if size < 0 or size > stream.left:
                raise UnpicklingError(
                    f"the storage {brief(key)} should hold {size} bytes, and {stream.left} are left"
                )
            data = as_native(stream.data(stream.at, size), dtype)
            stream.skip(size)
            storage = self._restore(UntypedStorage.around(data, CPU), location)
            self._keep(key, TypedStorage(wrap_storage=storage, dtype=dtype))
        views = _plain(stream)
        if type(views) is not list:
            raise UnpicklingError(f"parts of storages are a list, not {brief(views)}")
        for view in views:
            self._read_part(view)

    def _read_part(self, view: Any) -> None:
        is_sound = type(view) is tuple and [type(one) for one in view] == [int] * 4
        whole = self._things.get(view[1]) if is_sound else None
        if not isinstance(whole, TypedStorage):
            raise UnpicklingError(f"a part of a storage is not written as {brief(view)}")
        key, _, first, count = view
        size, flat = whole.dtype.itemsize, whole.untyped().raw
        if not (first >= 0 and count >= 0 and (first + count) * size <= flat.nbytes):
            raise UnpicklingError(
                f"{brief(view)} is not a part of a storage of {flat.nbytes} bytes"
            )
        step = flat.dtype.itemsize
        part = flat[first * size // step : (first + count) * size // step]
        storage = UntypedStorage.around(part, whole.untyped().device)
        self._keep(key, TypedStorage(wrap_storage=storage, dtype=whole.dtype))

    def _read_tensors(self, stream: ByteStream) -> None:
        for _ in range(_count(stream, "tensors")):
            key, storage_key, _ = _tuple(stream, 3, "a tensor")
            storage = self._things.get(storage_key) if type(storage_key) is int else None
            if type(key) is not int or not isinstance(storage, TypedStorage):
                raise UnpicklingError(f"a tensor is not written as {brief((key, storage_key))}")
            axes, _ = struct.unpack("<ii", stream.read(8))
            if not 0 <= axes <= _MOST_AXES:
                raise UnpicklingError(f"a tensor of {axes} axes; at most {_MOST_AXES}")
            numbers = struct.unpack(f"<{2 * axes + 1}q", stream.read(16 * axes + 8))
            sizes, strides, offset = numbers[:axes], numbers[axes:-1], numbers[-1]
            self._keep(key, rebuilding.rebuild_tensor(storage, offset, sizes, strides))

    def _keep(self, key: int, thing: Any) -> None:
        if self._things.setdefault(key, thing) is not thing:
            raise UnpicklingError(f"two things in the file have the key {brief(key)}")


class _KindsUnpickler(SafeUnpickler):
    """Reads small pickles in which a class stands for a dtype."""

    def find(self, module: str, name: str) -> Any:
        """Return the storage class with the dtype of the named class of tensors or storages."""
        found = _KINDS.get((module, name))
        return super().find(module, name) if found is None else found


def _plain(stream: ByteStream) -> Any:
    pickled = skip(stream)
    return _KindsUnpickler(pickled, brief, Budget(len(pickled))).load()


def _tuple(stream: ByteStream, length: int, what: str) -> Any:
    found = _plain(stream)
    if type(found) is not tuple or len(found) != length:
        raise UnpicklingError(f"{what} is not written as {brief(found)}")
    return found


def _count(stream: ByteStream, what: str) -> int:
    count = _plain(stream)
    # Each item takes at least one byte, so a count above the number of remaining bytes is wrong. An
    # error here avoids a long loop.
    if type(count) is not int or not 0 <= count <= stream.left:
        raise UnpicklingError(f"{brief(count)} {what} in {stream.left} bytes")
    return count


def _is_number(text: str) -> bool:
    return len(text) < 24 and text.removeprefix("-").isdecimal() and text.isascii()


def _parts_of(stream: ByteStream) -> dict[str, tuple[int, int]]:
    """Return the position and size of each of the archive's four files."""
    found: dict[str, tuple[int, int]] = {}
    while stream.left >= _BLOCK:
        header = stream.read(_BLOCK)
        if not any(header):
            break
        entry = _entry(header)
        if entry is None:
            raise UnpicklingError(f"no entry of a tar archive at byte {stream.at - _BLOCK}")
        name, size, is_file = entry
        name = name.removeprefix("./")
        if size > stream.left:
            raise UnpicklingError(
                f"the file {brief(name)} in the archive should have {size} bytes, and "
                f"{stream.left} are left"
            )
        if is_file and name in _NAMES and found.setdefault(name, (stream.at, size))[0] != stream.at:
            raise UnpicklingError(f"the archive has the file {brief(name)} twice")
        stream.skip(min(-(-size // _BLOCK) * _BLOCK, stream.left))
    return found


def _entry(header: bytes) -> tuple[str, int, bool] | None:
    """Return the name and size of an entry, and whether it is a regular file; None if the header is
    not that of an entry.
    """
    try:
        told = int(header[148:156].rstrip(b" \0") or b"x", 8)
        size = int(header[124:136].rstrip(b" \0") or b"0", 8)
    except ValueError:
        return None
    # The checksum is computed as if its own field contained 8 blanks.
    if told != sum(header[:_BLOCK]) - sum(header[148:156]) + 8 * 32 or size < 0:
        return None
    return header[:100].rstrip(b"\0").decode("latin-1"), size, header[156:157] in (b"0", b"\0")

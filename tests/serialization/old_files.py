"""Files in PyTorch's formats before 1.6, assembled part by part."""

from __future__ import annotations

import io
import pickle
import struct
import tarfile
from collections.abc import Sequence
from typing import Any

from .forging import ORDERED, joined, named, number, text

MAGIC = 0x1950A86A20F9469CFC6C
START = b"\x80\x02"


def stored(kind: str, key: str, numel: int, view: bytes = b"N", module: str = "torch") -> bytes:
    """Return the opcodes of a storage."""
    kinds = named(module, f"{kind}Storage")
    return joined(text("storage"), kinds, text(key), text("cpu"), number(numel), view) + b"Q"


def tensor(storage: bytes, size: Sequence[int], offset: int = 0, stride: int = 1) -> bytes:
    """Return the opcodes of a tensor with one axis."""
    numbers = joined(*map(number, size)), number(stride) + b"\x85"
    made_of = joined(storage, number(offset), *numbers, b"\x89", ORDERED)
    return named("torch._utils", "_rebuild_tensor_v2") + made_of + b"R"


def legacy(
    value: bytes,
    storages: dict[str, tuple[int, bytes]],
    protocol: int = 2,
    **given: Any,
) -> bytes:
    """Return a file of a value (its opcodes) and of storages, by key: (elements, bytes)."""
    machine = {"protocol_version": 1001, "little_endian": True, "type_sizes": {"int": 4}}
    heads = (given.get("magic", MAGIC), given.get("version", 1001), machine)
    parts = [pickle.dumps(head, protocol) for head in heads]
    parts += [START + value + b".", pickle.dumps(given.get("keys", [*storages]), protocol)]
    parts += [struct.pack("<q", numel) + data for numel, data in storages.values()]
    return b"".join(parts)


def floats(*numbers: float) -> bytes:
    """Return the numbers as little-endian float32 bytes."""
    return struct.pack(f"<{len(numbers)}f", *numbers)


class _KeyedPickler(pickle.Pickler):
    """A pickler that writes the key in place of a `Key` object."""

    def persistent_id(self, obj: Any) -> Any:
        return obj.key if isinstance(obj, Key) else None


class Key:
    """A reference to a tensor or storage of a tar archive, from the value of the archive."""

    def __init__(self, key: Any) -> None:
        self.key = key


def tar(
    value: Any,
    storages: Sequence[tuple[int, str, int, bytes]],
    tensors: Sequence[tuple[int, int, Sequence[int], Sequence[int], int]],
    views: Any = (),
    **given: Any,
) -> bytes:
    """Return a tar archive of a value, storages, tensors, and views (parts of storages).

    `storages` has tuples (key, kind, elements, bytes). `tensors` has tuples (key, key of the
    storage, sizes, strides, offset). `views` has tuples (key, key of the whole, offset, length).
    """
    files = {"sys_info": pickle.dumps({"protocol_version": 1000}, 2)}
    stored = pickle.dumps(given.get("num_storages", len(storages)), 2)
    for key, kind, numel, data in storages:
        told = joined(number(key), text("cpu"), named("torch", f"{kind}Storage"))
        stored += START + told + b"." + struct.pack("<q", numel) + data
    files["storages"] = stored + pickle.dumps(list(views), 2)
    listed = pickle.dumps(given.get("num_tensors", len(tensors)), 2)
    for key, storage, sizes, strides, offset in tensors:
        told = joined(number(key), number(storage), named("torch", "FloatTensor"))
        axes = len(sizes)
        numbers = struct.pack(f"<{2 * axes + 1}q", *sizes, *strides, offset)
        listed += START + told + b"." + struct.pack("<ii", given.get("axes", axes), 0) + numbers
    files["tensors"] = listed
    stream = io.BytesIO()
    _KeyedPickler(stream, 2).dump(value)
    files["pickle"] = stream.getvalue()
    for name in given.get("without", ()):
        del files[name]
    made = io.BytesIO()
    with tarfile.open(
        fileobj=made, mode="w:", format=given.get("format", tarfile.PAX_FORMAT)
    ) as to:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            to.addfile(entry, io.BytesIO(data))
    return made.getvalue()

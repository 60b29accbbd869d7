"""Forged pickles, assembled opcode by opcode, which `save` never writes."""

from __future__ import annotations

import io
import pickle
import random
import struct
import zipfile
from typing import Any

import numpy as np

import fastdist
from fastdist import nn
from fastdist.tensor.layout import Layout
from fastdist.tensor.storage import Storage
from fastdist.tensor.tensor import Extra, Tensor

START = b"\x80\x02"
ORDERED = b"ccollections\nOrderedDict\n)R"


def archive_of(pickled: bytes, **records: bytes) -> io.BytesIO:
    """Return an archive of a pickle and of its records r0, r1, ..."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("a/data.pkl", pickled)
        for name, data in records.items():
            archive.writestr(f"a/data/{name.removeprefix('r')}", data)
    stream.seek(0)
    return stream


def named(module: str, name: str) -> bytes:
    """Return the opcode that looks up a class or a function."""
    return f"c{module}\n{name}\n".encode()


def text(word: str) -> bytes:
    """Return the opcode that pushes a string."""
    return b"X" + struct.pack("<I", len(word.encode())) + word.encode()


def number(value: int) -> bytes:
    """Return the opcode that pushes an int."""
    return b"\x8a\x09" + value.to_bytes(9, "little", signed=True)


def joined(*parts: bytes) -> bytes:
    """Return the opcodes of a tuple."""
    return b"(" + b"".join(parts) + b"t"


def table(**attributes: bytes) -> bytes:
    """Return the opcodes of a dict."""
    return b"}(" + b"".join(text(name) + one for name, one in attributes.items()) + b"u"


def storage(kind: str = "Float", numel: int = 4, key: str = "0") -> bytes:
    """Return the opcodes of a storage."""
    kinds = named("torch", f"{kind}Storage")
    return joined(text("storage"), kinds, text(key), text("cpu"), number(numel)) + b"Q"


def tensor(kind: str = "Float", size: tuple[int, ...] = (4,), **how: Any) -> bytes:
    """Return the opcodes of a tensor over a whole storage, in C order or with `how["strides"]`."""
    numel = how.get("numel", int(np.prod(size)))
    strides = how.get("strides", [int(np.prod(size[i + 1 :])) for i in range(len(size))])
    numbers = joined(*map(number, size)), joined(*map(number, strides))
    made_of = joined(
        storage(kind, numel, how.get("key", "0")), number(0), *numbers, b"\x89", ORDERED
    )
    return named("torch._utils", "_rebuild_tensor_v2") + made_of + b"R"


def parameter(state: bytes, data: bytes = tensor()) -> bytes:
    """Return the opcodes of a Parameter with a state."""
    call = named("torch._utils", "_rebuild_parameter_with_state")
    return call + joined(data, b"\x89", ORDERED, state) + b"R"


def of_type(state: bytes, kind: bytes = b"ctorch._tensor\nTensor\n") -> bytes:
    """Return the opcodes that rebuild a tensor as an instance of a class, with a state."""
    _, made_of = tensor().split(b"_rebuild_tensor_v2\n", 1)
    parts = named("torch._utils", "_rebuild_tensor_v2"), kind, made_of[:-1], state
    return named("torch._tensor", "_rebuild_from_type_v2") + joined(*parts) + b"R"


NAMES = (
    *("_array", "_layout", "_edge", "_extra", "_storage", "__dict__", "__weakref__", "__class__"),
    *("__slots__", "__torch_function__", "__reduce_ex__", "__setstate__", "__del__", "__iter__"),
    *("grad", "data", "shape", "dtype", "requires_grad", "sum", "storage", "numpy", "mark", "T"),
    *("_made_of", "_is_param", "_is_buffer", "_metadata", "items", "mine", "", "a b", "__mine__"),
)


_VALUES = (
    *(b"N", b"\x88", b"G" + bytes(4) + b"AAAA", b")", b"}", b"\x8f", b"C\x08" + bytes(8)),
    *(text("abc" * 30), ORDERED, tensor(), tensor("Long", key="1"), storage()),
    *(named("torch", "float32"), named("torch", "Size") + joined(number(3)) + b"\x85R"),
    named("torch", "device") + text("cpu") + b"\x85R",
    named("collections", "Counter") + b")R",
    named("builtins", "bytearray") + b")R",
)


def random_value(numbers: random.Random, depth: int = 0) -> bytes:
    """Return the opcodes of a random value."""
    if depth == 3 or numbers.random() < 0.7:
        return numbers.choice(_VALUES)
    inner = [random_value(numbers, depth + 1) for _ in range(2)]
    name = numbers.choice(NAMES)
    containers = joined(*inner), b"](" + inner[0] + inner[1] + b"e", table(**{name: inner[0]})
    return numbers.choice((*containers, number(numbers.randrange(-9, 1 << 62))))


def random_state(numbers: random.Random) -> bytes:
    """Return the opcodes of a random state; pickle accepts most of these states."""
    names = numbers.choices(NAMES, k=numbers.randrange(3))
    attributes = table(**{name: random_value(numbers) for name in names})
    return numbers.choice(
        (attributes, attributes, joined(attributes, b"N"), joined(b"N", attributes),
         joined(attributes, attributes), random_value(numbers))
    )  # fmt: skip


def random_pickle(numbers: random.Random) -> bytes:
    """Return a pickle that sets a random state on a random object by a random opcode."""
    state = random_state(numbers)
    made = numbers.choice((tensor(), ORDERED, random_value(numbers), parameter(b"N")))
    kinds = (
        b"ctorch._tensor\nTensor\n",
        b"ctorch.nn.parameter\nParameter\n",
        SAFE,
        random_value(numbers),
    )
    sparse = named("torch.serialization", "_get_layout") + text("torch.sparse_coo") + b"\x85R"
    parts = joined(tensor("Long", (1, 4), key="1"), tensor(), joined(number(4)), b"\x89")
    ways = (
        *(parameter(state), of_type(state), of_type(state, numbers.choice(kinds))),
        *(made + state + b"b", SAFE + b")\x81" + state + b"b", parameter(b"N") + state + b"b"),
        SAFE + joined(tensor()) + b"R" + state + b"b",
        parameter(state, random_value(numbers)),
        named("torch._utils", "_rebuild_sparse_tensor")
        + joined(sparse, parts)
        + b"R"
        + state
        + b"b",
    )
    return START + numbers.choice(ways) + b"."


class Added(Tensor):
    """A user class that `load` allows; its state must not replace internal slots of Tensor."""

    __slots__ = ("mine_too",)
    default = 1


SAFE = named(Added.__module__, "Added")


def require_sound(found: Any) -> None:
    """Raise unless the internal slots of a tensor have the types that fastdist sets."""
    if not isinstance(found, Tensor):
        return
    assert type(found) in (Tensor, nn.Parameter, Added)
    if "_array" not in dir(found) or not hasattr(found, "_layout"):
        return  # has no content, like `Added.__new__(Added)`
    layout = found._layout
    assert type(layout) is Layout or layout.is_sparse
    assert type(found._extra) in (type(None), Extra)
    assert found._storage is None or isinstance(found._storage, Storage)
    assert not hasattr(found, "_made_of") and not vars(found).keys() & set(NAMES[:20])
    if not layout.is_sparse:
        assert type(found._array) is np.ndarray and found._array.shape == layout.shape
        assert found._array.strides == layout.steps or layout.contiguous
        assert found._array.dtype == layout.dtype.numpy
        found.detach().sum().item()


def load_forged(numbers: random.Random, **options: Any) -> Any:
    """Load a random pickle; return None if `load` raises one of its documented errors."""
    stream = archive_of(random_pickle(numbers), r0=bytes(16), r1=bytes(32))
    try:
        return fastdist.load(stream, **options)
    except (pickle.UnpicklingError, RuntimeError, TypeError, ValueError, NotImplementedError):
        return None

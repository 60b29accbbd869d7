"""`save`: writes a pickle with PyTorch's class names, followed by the memory of each storage."""

from __future__ import annotations

import copyreg
import io
import os
import pickle
import sys
from collections import OrderedDict
from typing import Any, ClassVar, Final

import numpy as np

from ..core.device import Device
from ..core.dtypes import BorrowedDType, DType
from ..core.errors import MissingFolderError
from ..core.folded_frames import folds
from ..core.memory_format import MemoryLayout, sparse_coo
from ..core.moved_modules import RENAMED, own_name
from ..core.short_repr import short_repr
from ..devices.backend import backend_of
from ..graph.lazy_conj_neg import resolved
from ..system.atomic_file import atomic_file, full_disk_named
from ..tensor.layout import Size, contiguous_strides
from ..tensor.memory import memory_and_offset
from ..tensor.parameter import Parameter
from ..tensor.pickling import parts_of
from ..tensor.tensor import Tensor
from ..tensor.typed_storage import TYPED_STORAGES, TypedStorage, UntypedStorage
from . import rebuilding
from .archive_writer import ArchiveWriter
from .legacy_writer import write_legacy
from .torch_names import TO_TORCH
from .zip_format import ALIGNMENT

DEFAULT_PROTOCOL: Final = 2


@folds
def save(
    obj: object,
    f: Any,
    pickle_module: Any = None,
    pickle_protocol: int = DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Write obj (a tensor, a state dict, anything that can be pickled) in PyTorch's format.

    If a file exists at the path `f`, it is replaced only after the new file is completely on the
    disk. Permissions and links of the old file are kept. Tensors that share memory still share it
    after loading. `torch.load` and `fastdist.load` can read the file. With
    _use_new_zipfile_serialization=False, save writes the format before 1.6, which has no checksums.

    Raises  RuntimeError if the folder does not exist; PermissionError; IsADirectoryError; OSError
            if the disk is full; errors of pickle. An old file at the path is then unchanged
    Note    a pickle_module other than pickle may write fastdist's names, which PyTorch cannot read

    Args:
        obj: A tensor, a state dict, or any object that can be pickled.
        f: A path, or a file object with `write`.
        pickle_module: A pickle module to use instead of pickle; pickle if None.
        pickle_protocol: The pickle protocol.

    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> torch.save({"weight": torch.ones(2)}, file)
        >>> _ = file.seek(0)
        >>> torch.load(file)
        {'weight': tensor([1., 1.])}
    """
    is_legacy, with_order = not _use_new_zipfile_serialization, not _disable_byteorder_record
    if isinstance(f, str | os.PathLike):
        path = os.fspath(f)
        parent = os.path.dirname(os.path.realpath(path))
        if not os.path.isdir(parent):
            raise MissingFolderError(f"Parent directory {parent} does not exist.")
        name = os.path.splitext(os.path.basename(path))[0] or "archive"
        pickled, memories = _content(obj, pickle_module, pickle_protocol, is_legacy=is_legacy)
        with atomic_file(path, _size(pickled, memories)) as file:
            protocol = pickle_protocol if is_legacy else None
            _write(file.write, name, pickled, memories, protocol, with_order=with_order)
    elif hasattr(f, "write"):
        pickled, memories = _content(obj, pickle_module, pickle_protocol, is_legacy=is_legacy)
        called = getattr(f, "name", None)
        name = called if isinstance(called, str) else f"the {type(f).__name__}"
        with full_disk_named(name, _size(pickled, memories)):
            protocol = pickle_protocol if is_legacy else None
            _write(f.write, "archive", pickled, memories, protocol, with_order=with_order)
            # Flush here, so that the error of a full disk names the file.
            if hasattr(f, "flush"):
                f.flush()
    else:
        raise AttributeError(
            "expected 'f' to be string, path, or a file-like object with a 'write' attribute, got "
            f"{type(f).__name__}"
        )


def _size(pickled: bytes, memories: list[Any]) -> int:
    """Return the size of the pickle and the storages in bytes, without headers and tables."""
    return len(pickled) + sum(int(flat.nbytes) for flat, *_ in memories)


def _content(
    obj: object, pickle_module: Any, protocol: int, *, is_legacy: bool
) -> tuple[bytes, list[Any]]:
    """Return the pickle, and the storages that it refers to."""
    stream = io.BytesIO()
    if pickle_module is None or pickle_module is pickle:
        pickler: Any = _TorchPickler(stream, protocol)
    else:
        pickler = _pickler_of(pickle_module)(stream, protocol)
    pickler.storages.is_legacy = is_legacy
    pickler.dump(obj)
    return stream.getvalue(), pickler.storages.memories


def _write(
    write: Any,
    name: str,
    pickled: bytes,
    memories: list[Any],
    legacy_protocol: int | None,
    *,
    with_order: bool,
) -> None:
    """Write a zip archive, or the format before 1.6 if `legacy_protocol` is not None."""
    if legacy_protocol is not None:
        write_legacy(write, pickled, memories, legacy_protocol)
        return
    archive = ArchiveWriter(write, name)
    archive.add("data.pkl", pickled)
    archive.add(".format_version", b"1")
    archive.add(".storage_alignment", str(ALIGNMENT).encode())
    if with_order:
        archive.add("byteorder", sys.byteorder.encode())
    for number, (flat, device, _) in enumerate(memories):
        values: np.ndarray[Any, Any] = backend_of(device.type).to_numpy(flat)
        archive.add(f"data/{number}", values.view(np.uint8))
    archive.add("version", b"3\n")
    archive.finish()


class _Storages:
    """The memory blocks that a pickle refers to, each listed once."""

    def __init__(self) -> None:
        self.is_legacy = False
        self.memories: list[tuple[Any, Device, DType | None]] = []
        self._numbers: dict[tuple[Device, int, int], tuple[int, DType | None]] = {}
        # Tensors and storages that must stay alive until everything is written: otherwise a later
        # one could get the same address.
        self._alive: list[Any] = []

    def of_tensor(self, tensor: Tensor) -> tuple[_StorageOf, int]:
        """Return a reference to a tensor's memory, and the tensor's offset in it."""
        layout = tensor._layout
        flat, address, offset = memory_and_offset(tensor)
        self._alive.append(tensor)
        if not flat.nbytes:
            address = id(tensor)
        dtype = None if layout.dtype.is_bare else layout.dtype
        return self._enter(flat, layout.device, address, dtype), offset

    def of_storage(self, storage: TypedStorage | UntypedStorage) -> _StorageOf:
        """Return a reference to a storage's memory."""
        untyped = storage.untyped()
        self._alive.append(storage)
        address = untyped.data_ptr() or id(storage)
        dtype = storage.dtype if isinstance(storage, TypedStorage) else None
        return self._enter(untyped.raw, untyped.device, address, dtype)

    def _enter(self, flat: Any, device: Device, address: int, dtype: DType | None) -> _StorageOf:
        nbytes = flat.nbytes
        number, known = self._numbers.setdefault(
            (device, address, nbytes), (len(self.memories), dtype)
        )
        if number == len(self.memories):
            self.memories.append((flat, device, dtype))
        elif known is not dtype:
            raise RuntimeError(
                "Cannot save multiple tensors or storages that view the same data as different "
                f"types: {known} and {dtype}; save one of them, or a clone()"
            )
        return _StorageOf(number, str(device), nbytes, dtype, is_legacy=self.is_legacy)


# The storage class of each dtype.
_KINDS: Final = {kind.dtype: kind for kind in TYPED_STORAGES.values()}


class _StorageOf:
    """The pickle's reference to a storage."""

    __slots__ = ("id",)

    def __init__(
        self, number: int, location: str, nbytes: int, dtype: DType | None, *, is_legacy: bool
    ) -> None:
        kind = UntypedStorage if dtype is None else _KINDS[dtype]
        numel = nbytes if dtype is None else nbytes // dtype.itemsize
        # An id in the format before 1.6 has a sixth item. In files before 0.4 it described a part
        # of a storage; here it is always None.
        self.id: tuple[Any, ...] = ("storage", kind, str(number), location, numel)
        self.id += (None,) * is_legacy


class _Reducing:
    """Methods of a pickler that write tensors and storages."""

    storages: _Storages

    def persistent_id(self, obj: Any) -> Any:
        if obj.__class__ is _StorageOf:
            return obj.id
        if isinstance(obj, TypedStorage | UntypedStorage):
            return self.storages.of_storage(obj).id
        return None

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Tensor):
            return reduce_tensor(obj, self.storages)
        kind = obj.__class__
        if kind is Size:
            return Size, (tuple(obj),)
        if kind is MemoryLayout:
            return rebuilding.get_layout, (f"torch.{obj.name}",)
        if kind is Device:
            return Device, (obj.type,) if obj.index is None else (obj.type, obj.index)
        return NotImplemented


def reduce_tensor(tensor: Tensor, storages: _Storages) -> tuple[Any, ...]:
    """Return the function and the arguments that rebuild a tensor."""
    tensor = resolved(tensor)
    kind = tensor.__class__
    state = getattr(tensor, "__dict__", None)
    if state and (hidden := rebuilding.hidden_names(tensor)):
        raise RuntimeError(
            f"the attribute {short_repr(hidden[0])} of a {kind.__name__} hides what its class "
            "has under that "
            "name, which load() refuses; give it another name"
        )
    if kind is Parameter:
        plain = object.__new__(Tensor)
        plain._array, plain._layout, plain._storage = tensor._array, tensor._layout, tensor._storage
        plain._edge, plain._extra = None, tensor._extra
        arguments: tuple[Any, ...] = (plain, tensor.requires_grad, OrderedDict())
        if state:
            return rebuilding.rebuild_parameter_with_state, (*arguments, state)
        return rebuilding.rebuild_parameter, arguments
    if tensor._layout.is_sparse:
        # As in PyTorch's files, requires_grad of sparse tensors is not saved.
        indices, values, shape, is_coalesced, _ = parts_of(tensor)
        return rebuilding.rebuild_sparse_tensor, (
            sparse_coo,
            (indices, values, Size(shape), is_coalesced),
        )
    if tensor.is_meta:
        layout = tensor._layout
        geometry = (layout.dtype, Size(layout.shape), layout.strides, tensor.requires_grad)
        return rebuilding.rebuild_meta_tensor_no_storage, geometry
    made_of = _parts(tensor, storages)
    # As in PyTorch's files, dtypes without a storage class use untyped storage.
    rebuild: Any = rebuilding.rebuild_tensor_v2
    if tensor._layout.dtype.is_bare:
        rebuild, made_of = rebuilding.rebuild_tensor_v3, (*made_of, tensor._layout.dtype)
    if kind is Tensor:
        return rebuild, made_of
    whole = (rebuild, kind, made_of, state or {})
    return rebuilding.rebuild_from_type_v2, whole


def _parts(tensor: Tensor, storages: _Storages) -> tuple[Any, ...]:
    layout = tensor._layout
    storage, offset = storages.of_tensor(tensor)
    strides = layout.strides if layout.numel else contiguous_strides(layout.shape)
    return storage, offset, layout.shape, strides, tensor._edge is not None, OrderedDict()


def _pickler_of(pickle_module: Any) -> Any:
    """Return a user-defined pickler class, extended to write tensors."""

    class Pickler(_Reducing, pickle_module.Pickler):  # type: ignore[misc]
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            self.storages = _Storages()

    return Pickler


class _Reducers:
    """A dispatch table that also finds a reducer for subclasses of Tensor."""

    def __init__(self, reduce: Any) -> None:
        self._reduce = reduce

    def get(self, kind: type, default: Any = None) -> Any:
        """Return the reducer for instances of kind; Python 3.13 and later pass a default."""
        if issubclass(kind, Tensor):
            return self._reduce
        return copyreg.dispatch_table.get(kind, default)


class _TorchPickler(pickle._Pickler):
    """Python's own pickler, changed to write PyTorch's names instead of fastdist's.

    The C pickler cannot be used: it imports the module of each name that it writes, and there may
    be no module torch. Each tensor is written with one write(), because a file may have very many.
    """

    dispatch: ClassVar[dict[type, Any]] = dict(pickle._Pickler.dispatch)

    def __init__(self, stream: Any, protocol: int) -> None:
        super().__init__(stream, protocol)
        self.storages = storages = _Storages()
        # This function must not reference self: that cycle would keep saved values until garbage
        # collection.
        self.dispatch_table: Any = _Reducers(lambda tensor: reduce_tensor(tensor, storages))
        self._known: dict[Any, bytes] = {}

    def save_global(self, obj: Any, name: str | None = None) -> None:
        """Write PyTorch's name of `obj`, or the name in Python if PyTorch does not have one."""
        try:
            known = TO_TORCH.get(obj) or RENAMED.get(obj)
        except TypeError:  # an unhashable object has no entry
            known = None
        if known is None:
            super().save_global(obj, name)  # type: ignore[misc]
            return
        module, word = known
        self.write(pickle.GLOBAL + f"{module}\n{word}\n".encode())  # type: ignore[attr-defined]
        self.memoize(obj)  # type: ignore[attr-defined]

    def save_class(self, obj: type) -> None:
        """Write the name of a class. pickle's save_type writes classes without a PyTorch name."""
        if obj.__class__ is type and obj not in TO_TORCH:
            super().save_type(obj)  # type: ignore[misc]
        else:
            self.save_global(obj)

    def save_size(self, obj: Size) -> None:
        """Write a Size as the call that creates it."""
        self.save_reduce(Size, (tuple(obj),), obj=obj)  # type: ignore[attr-defined]

    def save_device(self, obj: Device) -> None:
        """Write a device as the call that creates it."""
        given = (obj.type,) if obj.index is None else (obj.type, obj.index)
        self.save_reduce(Device, given, obj=obj)  # type: ignore[attr-defined]

    def save_storage(self, obj: TypedStorage | UntypedStorage) -> None:
        """Write a persistent id for a storage."""
        self.write(self._storage_bytes(self.storages.of_storage(obj)))  # type: ignore[attr-defined]

    def save_place(self, obj: _StorageOf) -> None:
        """Write a persistent id for a storage that already has a number."""
        self.write(self._storage_bytes(obj))  # type: ignore[attr-defined]

    def save_parameter(self, obj: Parameter) -> None:
        """Write a Parameter as the call that creates it from a tensor."""
        self.save_reduce(*reduce_tensor(obj, self.storages), obj=obj)  # type: ignore[attr-defined]

    def save_layout(self, obj: MemoryLayout) -> None:
        """Write a memory layout as the call that looks it up by name."""
        self.save_reduce(rebuilding.get_layout, (f"torch.{obj.name}",), obj=obj)  # type: ignore[attr-defined]

    def save_tensor(self, obj: Tensor) -> None:
        """Write a tensor as the call that creates it from its storage, or from its parts."""
        layout = obj._layout
        if layout.is_sparse or layout.dtype.is_bare or layout.device.type == "meta":
            self.save_reduce(*reduce_tensor(obj, self.storages), obj=obj)  # type: ignore[attr-defined]
            return
        storage, *numbers, requires_grad, _ = _parts(obj, self.storages)
        call = (
            self._named(rebuilding.rebuild_tensor_v2),
            pickle.MARK,
            self._storage_bytes(storage),
            *map(_written, numbers),
            pickle.NEWTRUE if requires_grad else pickle.NEWFALSE,
            self._named(OrderedDict),
            _CALL_OF_NOTHING,
            pickle.TUPLE + pickle.REDUCE,
        )
        self.write(b"".join(call))  # type: ignore[attr-defined]
        self.memoize(obj)  # type: ignore[attr-defined]

    def _storage_bytes(self, storage: _StorageOf) -> bytes:
        word, kind, key, location, numel, *part = storage.id
        parts = (
            pickle.MARK, self._named(word), self._named(kind), _text(key), self._named(location),
            _written(numel), pickle.NONE * len(part), pickle.TUPLE + pickle.BINPERSID,
        )  # fmt: skip
        return b"".join(parts)

    def _named(self, thing: Any) -> bytes:
        """Return the opcodes that push a string, a class or a function. From the second call with
        the same object on, they push the memo's entry.
        """
        known = self._known.get(thing)
        if known is not None:
            return known
        if isinstance(thing, str):
            first = _text(thing)
        else:
            module, word = TO_TORCH.get(thing) or own_name(thing)
            first = pickle.GLOBAL + f"{module}\n{word}\n".encode()
        memo: dict[int, Any] = self.memo  # type: ignore[attr-defined]
        # The memo key is a new object: the memo may already have an entry for an equal string.
        number, mine = len(memo), object()
        memo[id(mine)] = (number, mine)
        self._known[thing] = self.get(number)  # type: ignore[attr-defined]
        return first + self.put(number)  # type: ignore[attr-defined, no-any-return]

    dispatch[Tensor] = save_tensor
    dispatch[Parameter] = save_parameter
    dispatch[Size] = save_size
    dispatch[MemoryLayout] = save_layout
    dispatch[Device] = save_device
    dispatch[TypedStorage] = save_storage
    dispatch[UntypedStorage] = save_storage
    dispatch[_StorageOf] = save_place
    dispatch[DType] = dispatch[BorrowedDType] = save_global
    dispatch[type] = save_class
    dispatch[type(TypedStorage)] = save_global
    dispatch[type(save)] = save_global


_CALL_OF_NOTHING: Final = pickle.EMPTY_TUPLE + pickle.REDUCE


def _text(text: str) -> bytes:
    data = text.encode()
    return pickle.BINUNICODE + len(data).to_bytes(4, "little") + data


def _written(value: int | tuple[int, ...]) -> bytes:
    """Return the bytes of an int or a tuple of ints."""
    if isinstance(value, tuple):
        parts = b"".join(map(_written, value))
        if len(value) > 3:
            return pickle.MARK + parts + pickle.TUPLE
        return parts + (pickle.EMPTY_TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3)[len(value)]
    if value < 256:
        return pickle.BININT1 + value.to_bytes(1, "little")
    if value < 1 << 31:
        return pickle.BININT + value.to_bytes(4, "little")
    return pickle.LONG1 + b"\x08" + value.to_bytes(8, "little")

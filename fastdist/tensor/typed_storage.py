"""PyTorch's storages: a tensor's whole memory as bytes (UntypedStorage) or elements (TypedStorage).

The storage of a tensor is a handle that is created on demand; the tensors own the memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..core import dtypes
from ..core.device import CPU, Device
from ..core.dtypes import WORDS, DType
from ..core.errors import raise_out_of_memory
from ..core.folded_frames import fold, folds
from ..core.sequences import as_lists
from ..core.short_repr import short_repr
from ..devices.backend import backend_of
from ..system.file_memory import map_file
from .memory import flat_of
from .tensor import Tensor


def _listed(given: Any) -> list[Any]:
    """Return the numbers of a sequence as a list or as nested lists."""
    if not hasattr(given, "__len__"):
        raise TypeError(f"a storage takes a size or a sequence, got {short_repr(given)}")
    try:
        return list(as_lists(given))
    except MemoryError as error:
        raise_out_of_memory(error)


class UntypedStorage:
    """Bytes of memory on one device, allocated with a given size or filled with given bytes.

    Note    two handles to the same memory are equal. A storage that is not on the CPU can be copied
            and moved, but single bytes cannot be read
    """

    __slots__ = ("_device", "_flat", "_is_own")

    @folds
    def __init__(self, *args: Any, device: Any = None) -> None:
        if len(args) > 1:
            raise TypeError(f"UntypedStorage() takes a size or a sequence, got {len(args)} values")
        given: Any = args[0] if args else 0
        values = (
            np.zeros(given.__index__(), np.uint8)
            if hasattr(given, "__index__")
            else np.array(_listed(given), np.uint8)
        )
        self._device = CPU if device is None else Device.parse(device)
        backend = backend_of(self._device.type)
        self._flat: Any = backend.from_numpy(values, self._device.index)
        self._is_own = True

    @classmethod
    def around(cls, flat: Any, device: Device) -> UntypedStorage:
        """Return a handle to the memory of a raw array with one axis."""
        storage: UntypedStorage = object.__new__(cls)
        storage._flat, storage._device, storage._is_own = flat, device, False
        return storage

    @classmethod
    def from_buffer(cls, buffer: Any) -> UntypedStorage:
        """Return a storage with a copy of the bytes of `buffer`."""
        return cls.around(np.frombuffer(buffer, np.uint8).copy(), CPU)

    @classmethod
    def from_file(cls, filename: str, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """Return the first bytes of a file as a storage: see system/file_memory.py."""
        return cls.around(map_file(filename, nbytes.__index__(), shared=shared), CPU)

    @property
    def raw(self) -> Any:
        """The raw array, which has one axis; on the CPU its elements are bytes."""
        return self._flat

    @property
    def device(self) -> Device:
        """The device of the bytes."""
        return self._device

    @property
    def is_cuda(self) -> bool:
        """True if the bytes are on an NVIDIA GPU."""
        return self._device.type == "cuda"

    @property
    def is_cpu(self) -> bool:
        """True if the bytes are in main memory."""
        return self._device is CPU

    def nbytes(self) -> int:
        """Return the number of bytes."""
        return int(self._flat.nbytes)

    size = __len__ = nbytes

    def element_size(self) -> int:
        """Return 1, because the elements are bytes."""
        return 1

    def get_device(self) -> int:
        """Return the index of the device; -1 for the CPU."""
        return -1 if self._device.index is None else self._device.index

    def data_ptr(self) -> int:
        """Return the address of the first byte; 0 for an empty storage."""
        return backend_of(self._device.type).data_ptr(self._flat) if self.nbytes() else 0

    def resizable(self) -> bool:
        """Return whether resize_ is allowed, which requires that no tensor uses the memory."""
        return self._is_own

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, UntypedStorage):
            return NotImplemented
        ours, theirs = (self.data_ptr(), self.nbytes()), (other.data_ptr(), other.nbytes())
        return self._device is other._device and ours == theirs and (ours[1] > 0 or self is other)

    def __hash__(self) -> int:
        return hash((self._device, self.data_ptr(), self.nbytes()))

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return the bytes as a NumPy array. It shares the memory of a storage on the CPU, and is a
        copy of a storage on another device.
        """
        array: np.ndarray[Any, Any] = backend_of(self._device.type).to_numpy(self._flat)
        return array.view(np.uint8)

    def tolist(self) -> list[int]:
        """Return the bytes as a list of integers from 0 to 255."""
        found: list[int] = self.numpy().tolist()
        return found

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return UntypedStorage.around(self._bytes()[index], CPU)
        return int(self._bytes()[_place(index, self.nbytes())])

    def __setitem__(self, index: Any, value: Any) -> None:
        where = index if isinstance(index, slice) else _place(index, self.nbytes())
        self._bytes()[where] = value

    def _bytes(self) -> np.ndarray[Any, Any]:
        if self._device is not CPU:
            raise NotImplementedError(
                f"the bytes of a storage on {self._device} cannot be read directly; use .cpu() "
                "first"
            )
        return self._flat  # type: ignore[no-any-return]

    def fill_(self, value: int) -> UntypedStorage:
        """Write `value` into every byte."""
        self._bytes()[:] = value
        return self

    def copy_(self, source: UntypedStorage, non_blocking: bool = False) -> UntypedStorage:
        """Copy the bytes of `source`, a storage of the same size on any device, to this storage."""
        if source.nbytes() != self.nbytes():
            raise RuntimeError(
                f"size does not match, self was {self.nbytes()} bytes but src was "
                f"{source.nbytes()} bytes"
            )
        backend = backend_of(self._device.type)
        values = source.numpy().view(self._flat.dtype)
        backend.copy_into(self._flat, backend.from_numpy(values, self._device.index))
        return self

    def resize_(self, size: int) -> UntypedStorage:
        """Change the size. The old bytes that fit into the new size are kept.

        Raises  RuntimeError if tensors use the memory, because they would keep the old memory
        """
        if not self._is_own:
            raise RuntimeError(
                "Trying to resize storage that is not resizable: tensors use it, or something "
                "else owns it; use Tensor.resize_, or make another storage"
            )
        old, new = self.numpy(), np.zeros(size, np.uint8)
        kept = min(len(old), size)
        new[:kept] = old[:kept]
        self._flat = backend_of(self._device.type).from_numpy(new, self._device.index)
        return self

    def clone(self) -> UntypedStorage:
        """Return a copy on the same device."""
        return self.to(device=self._device, copy=True)

    def to(self, *, device: Any, non_blocking: bool = False, copy: bool = False) -> UntypedStorage:
        """Return a copy on `device`, or this storage if it is on `device` and `copy` is False."""
        wanted = Device.parse(device)
        if wanted is self._device and not copy:
            return self
        values = backend_of(self._device.type).to_numpy(self._flat)
        values = values.copy() if self._device is CPU else values
        moved = backend_of(wanted.type).from_numpy(values, wanted.index)
        found = UntypedStorage.around(moved, wanted)
        found._is_own = True
        return found

    def cpu(self) -> UntypedStorage:
        """Return a copy in main memory, or this storage if it is on the CPU."""
        return self.to(device=CPU)

    def cuda(self, device: Any = None, non_blocking: bool = False) -> UntypedStorage:
        """Return a copy on a GPU, or this storage if it is on that GPU."""
        return self.to(device="cuda" if device is None else device)

    def untyped(self) -> UntypedStorage:
        """Return this storage itself."""
        return self

    def __copy__(self) -> UntypedStorage:
        return self.clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> UntypedStorage:
        return memo.setdefault(id(self), self.clone())  # type: ignore[no-any-return]

    def __reduce__(self) -> tuple[Any, ...]:
        return _with_bytes, (self.numpy().tobytes(), self._device)

    def __repr__(self) -> str:
        place = f"[fastdist.storage.UntypedStorage(device={self._device}) of size {self.nbytes()}]"
        if self._device.type == "meta":
            return f"...\n{place}"
        return "".join(f" {one}\n" for one in self.tolist()) + place

    __str__ = __repr__


def _with_bytes(data: bytes, device: Device) -> UntypedStorage:
    return UntypedStorage.from_buffer(data).to(device=device)


def _place(index: Any, length: int) -> int:
    place: int = index.__index__()
    if not -length <= place < length:
        raise IndexError(f"index {place} out of range for storage of size {length}")
    return place


class _StorageType(type):
    """The metaclass of FloatStorage, IntStorage and so on. A call of such a class makes a
    TypedStorage of the dtype in the class's name. The classes in fastdist.cuda make storages on
    the GPU.
    """

    dtype: DType
    kind: str  # the type of the device

    @folds
    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls.__name__ != "TypedStorage":
            return TypedStorage(*args, **{"dtype": cls.dtype, "device": cls.kind, **kwargs})
        return super().__call__(*args, **kwargs)

    def __instancecheck__(cls, instance: Any) -> bool:
        is_one = type(instance).__name__ == "TypedStorage" and type(type(instance)) is _StorageType
        if not is_one or cls.__name__ == "TypedStorage":
            return is_one
        return instance.dtype is cls.dtype and instance.device.type == cls.kind


class TypedStorage(metaclass=_StorageType):
    """The bytes of an UntypedStorage, interpreted as elements of one dtype."""

    __slots__ = ("_untyped_storage", "dtype")
    dtype: DType

    def __init__(
        self,
        *args: Any,
        wrap_storage: UntypedStorage | None = None,
        dtype: DType | None = None,
        device: Any = None,
        _internal: bool = False,
    ) -> None:
        self.dtype = dtypes.float32 if dtype is None else dtypes.dtype_of(dtype)
        if wrap_storage is not None:
            self._untyped_storage = wrap_storage
            return
        given: Any = args[0] if args else 0
        if hasattr(given, "__index__"):
            values: np.ndarray[Any, Any] = np.zeros(given.__index__(), self.dtype.numpy)
        else:
            values = np.array(_listed(given), self.dtype.numpy)
        storage = UntypedStorage.around(values.view(np.uint8), CPU)
        storage._is_own = True
        self._untyped_storage = storage.to(device=CPU if device is None else device)

    def untyped(self) -> UntypedStorage:
        """Return the UntypedStorage of the same memory."""
        return self._untyped_storage

    @property
    def device(self) -> Device:
        """The device of the bytes."""
        return self._untyped_storage.device

    @property
    def is_cuda(self) -> bool:
        """True if the memory is on an NVIDIA GPU."""
        return self._untyped_storage.is_cuda

    def nbytes(self) -> int:
        """Return the number of bytes."""
        return self._untyped_storage.nbytes()

    def size(self) -> int:
        """Return the number of elements."""
        return self.nbytes() // self.dtype.itemsize

    __len__ = size

    def element_size(self) -> int:
        """Return the number of bytes of one element."""
        return self.dtype.itemsize

    def data_ptr(self) -> int:
        """Return the address of the first element; 0 for an empty storage."""
        return self._untyped_storage.data_ptr()

    def get_device(self) -> int:
        """Return the index of the device; -1 for the CPU."""
        return self._untyped_storage.get_device()

    def _elements(self) -> np.ndarray[Any, Any]:
        whole = self.size() * self.dtype.itemsize
        return self._untyped_storage._bytes()[:whole].view(self.dtype.numpy)

    def tolist(self) -> list[Any]:
        """Return the elements as a list of Python numbers."""
        found: list[Any] = self._untyped_storage.numpy().view(self.dtype.numpy).tolist()
        return found

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        return self._elements()[_place(index, self.size())].item()

    def __setitem__(self, index: Any, value: Any) -> None:
        where = index if isinstance(index, slice) else _place(index, self.size())
        self._elements()[where] = value

    def fill_(self, value: Any) -> TypedStorage:
        """Write `value` into every element."""
        self._elements()[:] = value
        return self

    def copy_(self, source: TypedStorage, non_blocking: bool = False) -> TypedStorage:
        """Copy the bytes of `source`, a storage of the same size, to this storage."""
        self._untyped_storage.copy_(source.untyped())
        return self

    def resize_(self, size: int) -> None:
        """Change the number of elements. The errors are those of UntypedStorage.resize_."""
        self._untyped_storage.resize_(size * self.dtype.itemsize)

    def clone(self) -> TypedStorage:
        """Return a copy."""
        return self._like(self._untyped_storage.clone())

    def cpu(self) -> TypedStorage:
        """Return this storage in main memory."""
        return self._like(self._untyped_storage.cpu())

    def cuda(self, device: Any = None, non_blocking: bool = False) -> TypedStorage:
        """Return this storage on a GPU."""
        return self._like(self._untyped_storage.cuda(device))

    def _like(self, storage: UntypedStorage) -> TypedStorage:
        return TypedStorage(wrap_storage=storage, dtype=self.dtype)

    def pickle_storage_type(self) -> str:
        """Return the name of the storage's class in PyTorch, such as FloatStorage."""
        return f"{WORDS[self.dtype]}Storage"

    def __reduce__(self) -> tuple[Any, ...]:
        return _typed, (self._untyped_storage, self.dtype)

    def __repr__(self) -> str:
        kind = f"dtype={self.dtype!r}, device={self.device}"
        place = f"[fastdist.storage.TypedStorage({kind}) of size {self.size()}]"
        if self.device.type == "meta":
            return f"...\n{place}"
        return "".join(f" {one}\n" for one in self.tolist()) + place

    __str__ = __repr__


def _typed(storage: UntypedStorage, dtype: DType) -> TypedStorage:
    return TypedStorage(wrap_storage=storage, dtype=dtype)


def _storage_types(kind: str, module: str) -> dict[str, Any]:
    return {
        f"{word}Storage": _StorageType(
            f"{word}Storage",
            (TypedStorage,),
            {
                "dtype": dtype,
                "kind": kind,
                "__doc__": f"Makes a TypedStorage of {dtype.name}.",
                "__module__": module,
            },
        )
        for dtype, word in WORDS.items()
        if not dtype.is_bare
    }


TYPED_STORAGES: dict[str, Any] = _storage_types("cpu", "fastdist")


def typed_cuda_storages() -> dict[str, Any]:
    """Make and return the storage classes of fastdist.cuda, which calls this when it is loaded."""
    return _storage_types("cuda", "fastdist.cuda")


def untyped_storage(self: Tensor) -> UntypedStorage:
    """Return the whole memory of which this tensor uses a part, as bytes."""
    try:
        return UntypedStorage.around(flat_of(self), self._layout.device)
    except Exception as error:
        fold(error)
        raise


def storage(self: Tensor) -> TypedStorage:
    """Return the whole memory of which this tensor uses a part, as elements of its dtype."""
    try:
        return TypedStorage(wrap_storage=untyped_storage(self), dtype=self._layout.dtype)
    except Exception as error:
        fold(error)
        raise


def is_storage(obj: Any) -> bool:
    """Return whether `obj` is a storage."""
    return isinstance(obj, UntypedStorage | TypedStorage)


METHODS: dict[str, Any] = {
    "untyped_storage": untyped_storage,
    "storage": storage,
    "_typed_storage": storage,
}
__all__: Sequence[str] = (
    "TYPED_STORAGES",
    "TypedStorage",
    "UntypedStorage",
    "is_storage",
    "typed_cuda_storages",
)

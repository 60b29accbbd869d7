"""The interface of every backend, and the registry of backends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, Self

import numpy as np

from fastdist.core.errors import DeviceError

if TYPE_CHECKING:
    from fastdist.language.scalar import Body


class Array(Protocol):
    """Memory of a device, with NumPy's metadata and basic views.

    Units   strides and nbytes in bytes
    Note    metadata and views run nothing on the device, except that `reshape` copies the array if
            no view can have the new shape
    """

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def strides(self) -> tuple[int, ...]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    def reshape(self, shape: Sequence[int], /) -> Any: ...
    def transpose(self, axes: Sequence[int], /) -> Any: ...
    def view(self, dtype: np.dtype[Any], /) -> Any:
        """Return the same bytes as elements of another dtype, as NumPy does."""

    def __getitem__(self, index: Any, /) -> Any:
        """Return a view; `index` may contain only integers, slices, Ellipsis and None."""


class Event(Protocol):
    """A point in a stream's work."""

    def query(self) -> bool:
        """Return whether the stream has passed this point; never waits."""

    def synchronize(self) -> None:
        """Wait until the stream has passed this point. Raises an error of earlier work."""


class Stream(Protocol):
    """An ordered queue of a device's work. `with stream:` makes it this thread's current stream."""

    @property
    def index(self) -> int | None:
        """The index of the stream's device; None for the CPU."""

    def record_event(self) -> Event:
        """Return an event at the end of the work queued so far."""

    def wait_event(self, event: Event) -> None:
        """Make work queued from now on start after the event, without blocking the caller."""

    def query(self) -> bool:
        """Return whether all queued work is done; never waits."""

    def synchronize(self) -> None:
        """Wait until all queued work is done. Raises an error of that work."""

    def launch_host_function(self, function: Callable[[], object]) -> None:
        """Call `function`, on any thread, after the work queued so far. `function` must not use the
        device.
        """

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


class Result(NamedTuple):
    """The dtype of a kernel's result, the shape that users see, and the shape that the kernel gets.

    If the memory is not in C order, `order` lists the axes by stride, the largest stride first.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    kernel_shape: tuple[int, ...]
    order: Sequence[int] | None = None

    def made_by(self, empty: Callable[[tuple[int, ...], np.dtype[Any]], Any]) -> Any:
        """Return new memory for the result, in the shape that users see."""
        if self.order is None:
            return empty(self.shape, self.dtype)
        packed = empty(tuple([self.shape[axis] for axis in self.order]), self.dtype)
        places = range(len(self.order))
        return packed.transpose(tuple([self.order.index(axis) for axis in places]))

    def as_kernels_see(self, out: Any) -> Any:
        """Return the result's array reshaped to the kernel's shape."""
        return out if self.shape == self.kernel_shape else out.reshape(self.kernel_shape)


class Backend(Protocol):
    """All operations of a device type that the rest of fastdist uses.

    Thread  any; work goes to the calling thread's current stream of the device
    Note    `index` is the device's number; None means 0, and is the only value for the CPU. A NumPy
            array of shape () among the operands of `pointwise` and of kernels is a number passed by
            value, on every backend
    """

    type: str
    tables: dict[Any, list[Any]]
    """The tables of ops/device_constants.py on the device, as long as old arrays are useful."""

    def device_count(self) -> int: ...

    def empty(
        self, shape: Sequence[int], dtype: np.dtype[Any], index: int | None = None
    ) -> Any: ...

    def maker(
        self, shape: Sequence[int], dtype: np.dtype[Any], index: int | None = None
    ) -> Callable[[], Any]:
        """Return a function that allocates like `empty` with these arguments, for repeated use."""

    def from_numpy(
        self, array: np.ndarray, index: int | None = None, *, non_blocking: bool = False
    ) -> Any:
        """Return an array of the device with these values: a copy, except on the CPU.

        With `non_blocking`, pinned memory may be read after this method has returned. The caller
        must not change the memory until it has been read.
        """

    def from_constant(self, array: np.ndarray, index: int | None = None) -> Any:
        """Do as `from_numpy` does; also allowed during a capture, and each replay copies again."""

    def is_capturing(self, index: int | None = None) -> bool:
        """Return whether this thread's work is currently captured into a graph instead of run."""

    def to_numpy(self, array: Any, *, non_blocking: bool = False) -> np.ndarray:
        """Wait for the current stream and return the values: a copy, except on the CPU.

        With `non_blocking`, a backend may return at once. The values then arrive later, in the
        order of the current stream's work.
        """

    def into_host(self, room: np.ndarray, array: Any) -> bool:
        """Queue a copy of `array` to `room` on the current stream, and return True.

        If this is not possible without waiting, do nothing and return False.
        """

    def index_of(self, array: Any) -> int | None:
        """Return the index of the array's device."""

    def data_ptr(self, array: Any) -> int:
        """Return the address of the first element. It only identifies memory: do not read there."""

    def expand(self, array: Any, shape: Sequence[int]) -> Any:
        """Return a read-only view broadcast to `shape`. Repeated axes have stride 0."""

    def as_strided(
        self, array: Any, shape: Sequence[int], strides_bytes: Sequence[int], offset_bytes: int = 0
    ) -> Any:
        """Return a view of memory that starts `offset_bytes` after the array's first element."""

    def reinterpret(self, array: Any, dtype: Any) -> Any:
        """Return the same bytes as elements of another dtype, like NumPy's view.

        The last axis must be contiguous. Its length changes if the element sizes differ.
        """

    def copy_into(self, out: Any, array: Any) -> None:
        """Copy `array` to `out`, with C's casts and broadcasting. Their devices may differ."""

    def pointwise(self, body: Body, arrays: Sequence[Any], out: Any) -> None:
        """Write the body's values to `out`. `arrays` have the dtype of the computation, and shapes
        that broadcast to the shape of `out`.
        """

    def kernel(self, name: str, reads: int | None = None) -> Callable[..., None]:
        """Return the structured kernel `module.function` of this backend.

        Note    a kernel's arguments are first the arrays that it reads, then the arrays that it
                writes, then numbers. Arrays may be empty. For half types, callers pass the number
                of arrays that the kernel only reads as `reads`, so that the CPU can compute in
                float32
        """

    def making(
        self,
        kernel: str | Body,
        results: Sequence[Result],
        numbers: tuple[Any, ...] = (),
        reads: int | None = None,
        index: int | None = None,
        *,
        of_any_layout: bool = False,
    ) -> Callable[..., Any]:
        """Return a function of raw arrays that runs a kernel and returns its results as new arrays.

        The function returns an array, or a sequence of arrays if the kernel has several results.
        Without `of_any_layout`, each argument must have the same layout in all calls.
        """

    def add_into(self, accumulator: Any, array: Any) -> None:
        """Add array to accumulator in place; both have the same shape and dtype."""

    def current_stream(self, index: int | None = None) -> Stream:
        """Return this thread's current stream, which is the device's default stream at first."""

    def stream(self, index: int | None = None) -> Stream:
        """Return a side stream of the device, from a pool."""

    def record_stream(self, array: Any, stream: Stream) -> None:
        """Delay the reuse of array's memory after it is freed.

        The memory is not used again before `stream` has done the work that was queued on it when
        the memory was freed.
        """

    def synchronize(self, index: int | None = None) -> None:
        """Wait for all work of the device. Raises an error of that work."""


def filling(
    backend: Any,
    empty: Callable[[tuple[int, ...], np.dtype[Any]], Any],
    kernel: str | Body,
    results: Sequence[Result],
    numbers: tuple[Any, ...],
    reads: int | None,
) -> Callable[..., Any]:
    """Implement `making` by an allocation with `empty` and a call of the kernel."""
    fill: Callable[..., None]
    if isinstance(kernel, str):
        fill = backend.kernel(kernel, reads)
    else:
        body = kernel

        def fill(*given: Any) -> None:
            backend.pointwise(body, given[:-1], given[-1])

    if len(results) == 1 and results[0].order is None:
        view_shape, dtype, shape, _ = results[0]

        def one_result(*arrays: Any) -> Any:
            out = empty(shape, dtype)
            fill(*arrays, out, *numbers)
            return out if shape == view_shape else out.reshape(view_shape)

        return one_result

    def several_results(*arrays: Any) -> Any:
        outs = [result.made_by(empty) for result in results]
        fill(*arrays, *map(Result.as_kernels_see, results, outs), *numbers)
        return outs if len(outs) > 1 else outs[0]

    return several_results


_loaded: Final[dict[str, Backend]] = {}
# Device types without streams: a call returns only when its work is done.
_WITHOUT_STREAMS: Final = frozenset({"cpu", "meta"})
_loaders: Final[dict[str, Callable[[], Backend]]] = {}
# Guards _loaders and the loading of a backend. While this lock is held, a loader may import modules
# but acquires no other lock.
_loaders_lock: Final = threading.RLock()


def backend_of(device_type: str) -> Backend:
    """Return the backend of a device type; the first call loads it.

    Raises  DeviceError for an unknown type, or one that is unavailable on this machine
    """
    backend = _loaded.get(device_type)
    return _load(device_type) if backend is None else backend


def is_cpu_alone() -> bool:
    """Return whether no backend with streams is loaded, so that all memory is on the CPU."""
    return _loaded.keys() <= _WITHOUT_STREAMS


def is_loaded(device_type: str) -> bool:
    """Return whether the backend of a device type is loaded."""
    return device_type in _loaded


def loaded_backends() -> list[tuple[str, Backend]]:
    """Return pairs of device type and backend, for the loaded backends."""
    return list(_loaded.items())


def replace_backend(backend: Backend) -> None:
    """Replace the backend of a type if it is loaded; otherwise do nothing."""
    if backend.type in _loaded:
        _loaded[backend.type] = backend


def register_backend(device_type: str, load: Callable[[], Backend]) -> None:
    """Register a new device type. The first `backend_of` call for it creates the backend with
    `load`.
    """
    with _loaders_lock:
        if device_type in _loaders:
            raise DeviceError(f"a backend of type {device_type!r} is registered already")
        _loaders[device_type] = load


def _load(device_type: str) -> Backend:
    with _loaders_lock:
        if device_type in _loaded:
            return _loaded[device_type]
        if device_type not in _loaders:
            known = ", ".join(sorted(_loaders))
            raise DeviceError(f"no backend of type {device_type!r}; known types: {known}")
        backend = _loaded[device_type] = _loaders[device_type]()
        return backend


def _of_this_room(module: str) -> Callable[[], Backend]:
    def load() -> Backend:
        backend: Backend = import_module(f"{__package__}.{module}").load()
        return backend

    return load


for _type in ("cpu", "cuda", "meta", "sim"):
    register_backend(_type, _of_this_room(_type))

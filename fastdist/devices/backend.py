"""The interface of every backend, and where backends are found."""

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
    Note    metadata and views run nothing on the device; only `reshape` of a layout that no view
            can express copies
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
        """Return a view; index holds integers, slices, Ellipsis and None only."""


class Event(Protocol):
    """A point in a stream's work."""

    def query(self) -> bool:
        """Say whether the stream has passed this point; never waits."""

    def synchronize(self) -> None:
        """Wait until the stream has passed this point. Raises what failed on the way to it."""


class Stream(Protocol):
    """An ordered queue of a device's work. `with stream:` makes it this thread's current one."""

    @property
    def index(self) -> int | None:
        """The index of its device; None for the CPU."""

    def record_event(self) -> Event:
        """Mark the end of the work queued so far."""

    def wait_event(self, event: Event) -> None:
        """Let work queued from now on start after the event, without making the caller wait."""

    def query(self) -> bool:
        """Say whether all queued work is done; never waits."""

    def synchronize(self) -> None:
        """Wait until all queued work is done. Raises what failed on the way."""

    def launch_host_function(self, function: Callable[[], object]) -> None:
        """Call function, on any thread, after the work queued so far; it may not use the device."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


class Result(NamedTuple):
    """A result to be filled by a kernel: its shape for users, and its shape for the kernel.

    Where memory is not in C order, `order` has the axes from the slowest to the fastest.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    kernel_shape: tuple[int, ...]
    order: Sequence[int] | None = None

    def made_by(self, empty: Callable[[tuple[int, ...], np.dtype[Any]], Any]) -> Any:
        """Return memory for it, in the shape in which it is seen."""
        if self.order is None:
            return empty(self.shape, self.dtype)
        packed = empty(tuple([self.shape[axis] for axis in self.order]), self.dtype)
        places = range(len(self.order))
        return packed.transpose(tuple([self.order.index(axis) for axis in places]))

    def as_kernels_see(self, out: Any) -> Any:
        """Return the array made for it, in the kernel's shape."""
        return out if self.shape == self.kernel_shape else out.reshape(self.kernel_shape)


class Backend(Protocol):
    """All that the rest of fastdist asks of a kind of device.

    Thread  any; work goes to the calling thread's current stream of the device
    Note    `index` is the device's number, None meaning the CPU, and 0 elsewhere. Among the
            operands of `pointwise` and of kernels a NumPy array of shape () is a number passed by
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
        """Return the function that `empty` calls for these arguments: for many arrays of one
        shape.
        """

    def from_numpy(
        self, array: np.ndarray, index: int | None = None, *, non_blocking: bool = False
    ) -> Any:
        """Return an array of the device with these values: a copy, except on the CPU. With
        non_blocking pinned memory may be read after the return, and is not to be changed before.
        """

    def from_constant(self, array: np.ndarray, index: int | None = None) -> Any:
        """As from_numpy, for values that a captured graph may write again at each replay."""

    def is_capturing(self, index: int | None = None) -> bool:
        """Say whether what this thread gives the device now is captured, and does not run."""

    def to_numpy(self, array: Any, *, non_blocking: bool = False) -> np.ndarray:
        """Wait for the current stream and return the values: a copy, except on the CPU. With
        non_blocking they may arrive later, as if by the current stream's work.
        """

    def into_host(self, room: np.ndarray, array: Any) -> bool:
        """Let the values of an array arrive in room by the current stream's work, and return True;
        or do nothing, and return False, where they cannot without waiting.
        """

    def index_of(self, array: Any) -> int | None:
        """Return the index of the device on which the array lives."""

    def data_ptr(self, array: Any) -> int:
        """Return the address of the first element: a name for the memory, not for reading it."""

    def expand(self, array: Any, shape: Sequence[int]) -> Any:
        """Return a view broadcast to shape, with stride 0 along repeated axes; only for reading."""

    def as_strided(
        self, array: Any, shape: Sequence[int], strides_bytes: Sequence[int], offset_bytes: int = 0
    ) -> Any:
        """Return a view of the memory behind array; offset_bytes counts from its first element."""

    def reinterpret(self, array: Any, dtype: Any) -> Any:
        """Return the same bytes as elements of another dtype, as NumPy's view does: the length of
        the last axis, which has no gaps, changes.
        """

    def copy_into(self, out: Any, array: Any) -> None:
        """Write array into out: casts as C does, broadcasts, and may cross devices of this type."""

    def pointwise(self, body: Body, arrays: Sequence[Any], out: Any) -> None:
        """Write the body's value into out; arrays have the compute dtype and broadcast to out."""

    def kernel(self, name: str, reads: int | None = None) -> Callable[..., None]:
        """Return the structured kernel `module.function` of this backend.

        Note    it takes the arrays it reads, those it writes, then numbers; arrays of length 0 too.
                A caller with arrays of half types passes how many it only reads: the CPU computes
                in float32 then
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
        """Return a function of raw arrays that makes fresh results of a structured or pointwise
        kernel's: one array, or several. The arrays are always of the same layouts, or of any.
        """

    def add_into(self, accumulator: Any, array: Any) -> None:
        """Add array to accumulator in place; same shape, same dtype."""

    def current_stream(self, index: int | None = None) -> Stream:
        """Return the stream that this thread's work goes to: at first the device's default one."""

    def stream(self, index: int | None = None) -> Stream:
        """Return a side stream of the device, from a pool."""

    def record_stream(self, array: Any, stream: Stream) -> None:
        """Keep array's memory, once freed, from new use until stream's work of then is done."""

    def synchronize(self, index: int | None = None) -> None:
        """Wait for all work of the device. Raises what failed."""


def filling(
    backend: Any,
    empty: Callable[[tuple[int, ...], np.dtype[Any]], Any],
    kernel: str | Body,
    results: Sequence[Result],
    numbers: tuple[Any, ...],
    reads: int | None,
) -> Callable[..., Any]:
    """Return the function that lets a kernel fill what `empty` gives: a plain `making`."""
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
# Types without streams: the work of a call is done when it returns.
_WITHOUT_STREAMS: Final = frozenset({"cpu", "meta"})
_loaders: Final[dict[str, Callable[[], Backend]]] = {}
# Guards _loaders and the loading of one backend; a loader may import modules while it is held,
# nothing else.
_loaders_lock: Final = threading.RLock()


def backend_of(device_type: str) -> Backend:
    """Return the backend of a device type, loading it at the first call.

    Raises  DeviceError if there is no such type, or this machine cannot offer it
    """
    backend = _loaded.get(device_type)
    return _load(device_type) if backend is None else backend


def is_cpu_alone() -> bool:
    """Return whether no backend with streams has been loaded yet: memory is on the CPU alone."""
    return _loaded.keys() <= _WITHOUT_STREAMS


def is_loaded(device_type: str) -> bool:
    """Return whether something has used a type of device."""
    return device_type in _loaded


def loaded_backends() -> list[tuple[str, Backend]]:
    """Return the types of device that something has asked for, with their backends."""
    return list(_loaded.items())


def replace_backend(backend: Backend) -> None:
    """Let the backend of a type that is loaded be another from now on; nothing if none is."""
    if backend.type in _loaded:
        _loaded[backend.type] = backend


def register_backend(device_type: str, load: Callable[[], Backend]) -> None:
    """Say how the backend of a new device type is made, at the first call of backend_of."""
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

"""parallel_apply: runs modules concurrently, each in its own thread and on its own device."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from ...core.device import Device, current_gpu, use_gpu
from ...core.missing import show_public
from ...devices.backend import Stream, backend_of
from ...graph.modes import inference_mode, is_grad_enabled, is_inference_mode_enabled
from ...graph.modes import set_grad_enabled as grad_mode
from ...interpreters.autocast import casting_as, casting_now
from .comm import as_device
from .scatter_gather import first_tensor


def parallel_apply(
    modules: Sequence[Callable[..., Any]],
    inputs: Sequence[Any],
    kwargs_tup: Sequence[dict[str, Any]] | None = None,
    devices: Sequence[Any] | None = None,
) -> list[Any]:
    """Call each module with its own input in its own thread, and return the results.

    The threads have the caller's grad mode, autocast mode and current streams.

    Raises  the error of the first module in the list that failed, after all threads have ended
    Thread  any; the call waits for its threads, but not for work that is queued on the devices
    Note    without devices, a module runs on the device of its input's first tensor. An input that
            is not a tuple or list is passed as one argument
    Source  PyTorch, torch/nn/parallel/parallel_apply.py

    Args:
        modules: The modules, one for each input.
        inputs: The arguments of each module, as a tuple, a list or one value.
        kwargs_tup: The keyword arguments of each module; None for no keyword arguments.
        devices: The device of each module.
    """
    count = len(modules)
    named = [{}] * count if kwargs_tup is None else list(kwargs_tup)
    given = [one if isinstance(one, tuple | list) else (one,) for one in inputs]
    for what, many in (("inputs", given), ("kwargs_tup", named), ("devices", devices)):
        if many is not None and len(many) != count:
            raise ValueError(
                f"parallel_apply: {count} modules need as many {what}, got {len(many)}"
            )
    if devices is None:
        places = [_device_of((one, more)) for one, more in zip(given, named, strict=True)]
    else:
        places = [None if one is None else as_device(one) for one in devices]
    works = [
        _Work(module, one, more, place)
        for module, one, more, place in zip(modules, given, named, places, strict=True)
    ]
    if count == 1:
        works[0].run()
    else:
        threads = [
            threading.Thread(target=work.run, name=f"fastdist-parallel-{i}", daemon=True)
            for i, work in enumerate(works)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return [work.result() for work in works]


class _Work:
    """A call to run in another thread, with the modes of the thread that creates the object."""

    def __init__(self, module: Any, given: Any, named: Any, device: Device | None) -> None:
        self._call = module, given, named
        self._device = device
        self._stream = _stream_of(device)
        self._records, self._infers = is_grad_enabled(), is_inference_mode_enabled()
        self._casts = casting_now()
        self._made: Any = None
        self._error: BaseException | None = None

    def run(self) -> None:
        """Make the call, and store its result or its error."""
        module, given, named = self._call
        try:
            with ExitStack() as modes:
                modes.enter_context(inference_mode(self._infers))
                modes.enter_context(grad_mode(self._records))
                modes.enter_context(casting_as(self._casts))
                modes.enter_context(_gpu_of(self._device))
                if self._stream is not None:
                    modes.enter_context(self._stream)
                self._made = module(*given, **named)
        except BaseException as error:  # `result` raises it in the calling thread
            self._error = error

    def result(self) -> Any:
        """Return the call's result, or raise the call's error with a note that names the device."""
        error, self._error = self._error, None
        if error is None:
            return self._made
        where = "another thread" if self._device is None else f"the replica on {self._device}"
        error.add_note(f"raised in {where}, of which parallel_apply runs one a module")
        raise error


def _device_of(value: Any) -> Device | None:
    found = first_tensor(value)
    return None if found is None else found._layout.device


def _stream_of(device: Device | None) -> Stream | None:
    if device is None or device.index is None:
        return None
    return backend_of(device.type).current_stream(device.index)


@contextmanager
def _gpu_of(device: Device | None) -> Iterator[None]:
    """Make the device this thread's current GPU inside a `with` block."""
    if device is None or device.type != "cuda" or device.index is None:
        yield
        return
    backend: Any = backend_of("cuda")
    before = current_gpu()
    backend.use(device.index)
    use_gpu(device.index)
    try:
        yield
    finally:
        backend.use(before)
        use_gpu(before)


show_public(__name__)

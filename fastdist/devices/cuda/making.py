"""Fresh results of kernels, as a short call on a GPU makes them: all that can be is prepared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fastdist.core.determinism import determinism
from fastdist.kernels.cuda.prepared import PreparedTable, is_aligned, key_of

from ..backend import Result
from .library import cupy, raise_as_ours


def making(
    kernel: Callable[..., None],
    results: Sequence[Result],
    numbers: tuple[Any, ...],
    index: int,
    *,
    of_any_layout: bool,
) -> Callable[..., Any]:
    """Return a function of raw arrays, always of the same layouts or of any, that makes results of
    kernel's on a device: one array, or a tuple.

    Thread  any; queued on the calling thread's current stream of the device
    """
    library = cupy()
    empty, cuda = library.ndarray, library.cuda
    device, current_device = cuda.Device, cuda.runtime.getDevice
    found = PreparedTable(kernel, numbers)
    heeds = hasattr(kernel, "heeds_determinism")

    def fill(arrays: tuple[Any, ...], outs: tuple[Any, ...]) -> None:
        given = (*arrays, *outs)
        key = key_of(arrays, outs) if of_any_layout else is_aligned(given)
        if heeds:
            key = key, determinism.is_waived
        ready = found.get(key)
        try:
            if ready is None:
                given = (*arrays, *map(Result.as_kernels_see, results, outs))
                if not hasattr(kernel, "only_launches"):
                    kernel(*given, *numbers)
                    return
                ready = found.prepare(key, given)
            ready.run(given)
        except Exception as error:
            raise_as_ours(error)

    def make(*arrays: Any) -> Any:
        with device(index):
            outs = tuple([result.made_by(empty) for result in results])
            fill(arrays, outs)
        return outs if len(outs) > 1 else outs[0]

    if len(results) > 1 or results[0].order is not None:
        return make
    shape, dtype = results[0].shape, results[0].dtype

    def make_one(*arrays: Any) -> Any:
        if current_device() != index:
            return make(*arrays)
        out = empty(shape, dtype)
        fill(arrays, (out,))
        return out

    return make_one

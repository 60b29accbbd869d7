"""Tables of indices and weights that depend on shapes alone, copied to each device once."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ..core.device import CPU, Device
from ..devices.backend import backend_of
from ..tensor.tensor import Tensor, from_array

Array = np.ndarray[Any, Any]

# Note [Tables on a device]
# Some ops use tables of indices and weights that depend on shapes alone. Such tables are computed
# on the CPU, and their copies on a device are cached, so that only the first training step copies
# tables. Each stream has its own copies: later work of that stream may read them without waiting,
# and the memory is freed in stream order. A captured graph gets separate tables, because a graph
# would fill shared tables only when it is replayed, and might read them after they were freed.
_MOST: Final = 64
# Held while a table is added and an old one is removed.
_tables_lock: Final = threading.Lock()


def on_device(
    device: Device, make: Callable[..., tuple[Array, ...]], *given: object
) -> list[Tensor]:
    """Return the arrays that make(*given) computes, as tensors on a device. The arguments must be
    hashable, because the result is cached. Callers must not write into the tensors.
    """
    if device is CPU:
        return _on_cpu(make, given)
    backend, index = backend_of(device.type), device.index
    if backend.is_capturing(index):
        raw = [backend.from_constant(one, index) for one in make(*given)]
    else:
        tables = backend.tables
        key = (backend.current_stream(index), make, given)
        found = tables.get(key)
        raw = [backend.from_numpy(one, index) for one in make(*given)] if found is None else found
        if found is None:
            with _tables_lock:
                if len(tables) >= _MOST:
                    del tables[next(iter(tables))]
                tables[key] = raw
    return [from_array(one, device) for one in raw]


@functools.lru_cache(maxsize=256)
def _on_cpu(make: Callable[..., tuple[Array, ...]], given: tuple[Any, ...]) -> list[Tensor]:
    # The cache holds tensors, because making two tensors takes 5 us (Zen 3), which is as long as a
    # computation with small tables takes.
    return [from_array(one) for one in make(*given)]

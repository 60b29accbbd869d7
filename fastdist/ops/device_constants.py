"""Tables that shapes alone decide, brought to a device once."""

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
# The elements and weights that make each result are computed on the CPU, once for shapes. A device
# keeps its copy for the next call, so that a training step copies nothing from its second time on.
# Each stream has its own, which its later work may read without waiting and after which their
# memory is freed in its order. A captured graph gets separate tables: it would write shared ones at
# each replay only, and read others when they may be gone.
_MOST: Final = 64
# Held while a table is added and another one goes.
_tables_lock: Final = threading.Lock()


def on_device(
    device: Device, make: Callable[..., tuple[Array, ...]], *given: object
) -> list[Tensor]:
    """Return the arrays that make gives for hashable arguments, which it keeps, on a device; nobody
    may write into them.
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
    # Kept as tensors: to make two takes 5 us, as long as to use them for few numbers (Zen 3).
    return [from_array(one) for one in make(*given)]

"""Devices: memory, streams, and kernels called by name.

`backend.py` defines the interface of every backend; `cpu.py`, `cuda.py` and `sim` implement it. The
packages above use only this interface: they call `backend_of(device.type)` and pass arrays along. A
backend loads on first use, so that `import fastdist` loads neither CuPy nor Numba and starts no
thread.

Each backend has its own arrays (`numpy.ndarray`, `cupy.ndarray`, `SimArray`); all of them offer
NumPy's metadata and basic views, which never run anything. Work is ordered on the calling thread's
current stream. On the CPU there is nothing to order, so its streams are always done.

Several arrays go from devices to the CPU, and back, together (`staging.py`): through one block of
memory that is locked, bounded and used again (`host_ring.py`), with one event behind the copies.

`sim` is a device made of NumPy and threads. It behaves as an accelerator does (late, out of order
between streams, unreadable memory, errors that surface at the next synchronisation), so that code
for streams is tested on machines without a GPU.
"""

from __future__ import annotations

from .backend import Array, Backend, Event, Stream, backend_of, register_backend

__all__ = ["Array", "Backend", "Event", "Stream", "backend_of", "register_backend"]

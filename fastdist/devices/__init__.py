"""What a device can do: memory, streams, and kernels called by name.

`backend.py` says what every backend offers; `cpu.py`, `cuda.py` and `sim` offer it. Nothing above
this room knows which one it talks to: it asks `backend_of(device.type)` and passes arrays along. A
backend loads on first use, so that `import fastdist` loads neither CuPy nor Numba and starts no
thread.

Arrays are each backend's own (`numpy.ndarray`, `cupy.ndarray`, `SimArray`); all of them offer
NumPy's metadata and basic views, which never run anything. Work is ordered on the calling thread's
current stream. On the CPU there is nothing to order, so its streams are always done.

Several arrays go from devices to the CPU, and back, together (`staging.py`): through one block of
memory that is locked, bounded and used again (`host_ring.py`), with one event behind the copies.

`sim` is a device made of NumPy and threads. It behaves as an accelerator does (late, out of order
between streams, unreadable memory, errors that surface at the next synchronisation), so that what
is built for streams is tested on machines without a GPU.
"""

from __future__ import annotations

from .backend import Array, Backend, Event, Stream, backend_of, register_backend

__all__ = ["Array", "Backend", "Event", "Stream", "backend_of", "register_backend"]

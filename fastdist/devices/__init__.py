"""Devices: memory, streams, and kernels that are called by name.

`backend.py` defines the interface of every backend; `cpu.py`, `cuda/`, `sim/` and `meta.py`
implement it. The packages above use only this interface: they call `backend_of(device.type)` and
pass arrays along. A backend loads on first use, so `import fastdist` loads neither CuPy nor Numba
and starts no thread.

Each backend has its own array class (`numpy.ndarray`, `cupy.ndarray`, `SimArray`). All have NumPy's
metadata and basic views, which never run anything on the device. Work is ordered on the calling
thread's current stream. CPU work is done when its call returns, so its streams are always empty.

Several arrays are copied from devices to the CPU, or back, together (`staging.py`). They share one
block of pinned memory from a bounded pool (`host_ring.py`), and one event marks the end of the
copies.

`sim` is a device simulated with NumPy and threads. Like a GPU, it runs work late and out of order
between streams, has memory that the CPU cannot read, and reports errors at the next
synchronization. So code that uses streams can be tested on machines without a GPU.
"""

from __future__ import annotations

from .backend import Array, Backend, Event, Stream, backend_of, register_backend

__all__ = ["Array", "Backend", "Event", "Stream", "backend_of", "register_backend"]

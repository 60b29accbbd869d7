"""Devices: memory, streams, and kernels that are called by name.

`backend.py` defines the interface of every backend; `cpu.py`, `cuda/`, `sim/` and `meta.py`
implement it. Packages of higher layers use only this interface: they call
`backend_of(device.type)`, and access arrays only through the backend. A backend loads on first use,
so `import fastdist` loads neither CuPy nor Numba and starts no thread.

Each backend has its own array class (`numpy.ndarray`, `cupy.ndarray`, `SimArray`). All have NumPy's
metadata and basic views, which never run anything on the device. Work is ordered on the calling
thread's current stream. CPU work is done when its call returns, so the CPU's streams are always
empty.

`staging.py` copies several arrays together from devices to the CPU, or back. The arrays share one
block of pinned memory from a bounded pool (`host_ring.py`), and one event marks the end of the
copies.

`sim` is a device simulated with NumPy and threads. Like a GPU, it runs work asynchronously, without
an order between streams. The CPU cannot read its memory, and errors are raised at the next
synchronization. So code that uses streams can be tested on machines without a GPU.
"""

from __future__ import annotations

from .backend import Array, Backend, Event, Stream, backend_of, register_backend

__all__ = ["Array", "Backend", "Event", "Stream", "backend_of", "register_backend"]

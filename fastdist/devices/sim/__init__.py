"""The devices sim:0, sim:1 ..., simulated with NumPy and threads, as asynchronous as a GPU.

`device.py` has the device and its arrays, `allocator.py` its memory, `stream.py` its threads,
`faults.py` the faults that tests can inject, `sim.py` the backend. The kernels are those of the
CPU.

A test gets `backend_of("sim")` and sets `backend.behaviour`. With `lazy = True`, queued work runs
only when a thread waits for it. So code that lacks a necessary wait always reads poisoned memory.
`delays(seed)` lets streams overtake each other. `fail_kernel`, `hang_kernel` and `fail_allocation`
inject faults. `backend.reset()` ends all threads and removes all faults.
"""

from __future__ import annotations

from .device import SimArray
from .sim import SimBackend, load
from .stream import SimEvent, SimStream

__all__ = ["SimArray", "SimBackend", "SimEvent", "SimStream", "load"]

"""sim:0, sim:1 ...: devices made of NumPy and threads, as late and as strict as a GPU.

`device.py` has the device and its arrays, `allocator.py` its memory, `stream.py` its threads,
`faults.py` the ways in which it misbehaves on request, `sim.py` the backend that ties them
together. Kernels are the CPU's.

A test takes `backend_of("sim")` and sets `backend.behaviour`: `lazy = True` runs nothing until
somebody waits, so that a forgotten wait reads poison every time; `delays(seed)` lets streams
overtake each other; `fail_kernel`, `hang_kernel` and `fail_allocation` break what they name.
`backend.reset()` ends all threads and forgets all that.
"""

from __future__ import annotations

from .device import SimArray
from .sim import SimBackend, load
from .stream import SimEvent, SimStream

__all__ = ["SimArray", "SimBackend", "SimEvent", "SimStream", "load"]

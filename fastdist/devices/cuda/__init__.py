"""cuda:0, cuda:1 ...: NVIDIA GPUs, through CuPy.

`cuda.py` has the backend, `making.py` what a short call on a GPU runs, `stream.py` streams and
events, `memory.py` what happens to memory that several streams use, `library.py` the way to CuPy,
which loads with the first use. Kernels are those of fastdist.kernels.cuda. The current stream is
CuPy's own, so that what users do with CuPy themselves is ordered with our work.

Without a GPU the tests run this room on a CuPy made of NumPy and fibres (tests/fibre_shim/cupy.py).
"""

from __future__ import annotations

from .cuda import CudaBackend, load
from .stream import CudaEvent, CudaStream

__all__ = ["CudaBackend", "CudaEvent", "CudaStream", "load"]

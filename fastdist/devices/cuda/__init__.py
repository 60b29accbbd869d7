"""cuda:0, cuda:1 ...: NVIDIA GPUs, through CuPy.

`cuda.py` has the backend, `making.py` the path of short calls on a GPU, `stream.py` streams and
events, `memory.py` the memory that several streams use, `library.py` the access to CuPy, which
loads on first use. Kernels are those of fastdist.kernels.cuda. The current stream is CuPy's own, so
that users' own work with CuPy is ordered with ours.

Code that needs only the classes of streams loads `stream.py`, and the rest with the first GPU.

Without a GPU the tests run this room on a CuPy made of NumPy and fibres (tests/fibre_shim/cupy.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .stream import CudaEvent, CudaStream, ExternalStream

if TYPE_CHECKING:
    from .cuda import CudaBackend

__all__ = ["CudaBackend", "CudaEvent", "CudaStream", "ExternalStream", "load"]


def load() -> CudaBackend:
    """Return the backend of NVIDIA GPUs.

    Raises  DeviceError saying which of CuPy, the driver and a GPU is missing or broken
    """
    from .cuda import load

    return load()


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name != "CudaBackend":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from .cuda import CudaBackend

        return CudaBackend

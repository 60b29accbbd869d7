"""The devices cuda:0, cuda:1 ...: NVIDIA GPUs, accessed through CuPy.

`cuda.py` has the backend, `making.py` the fast path of kernel calls, `stream.py` streams and
events, `memory.py` memory that several streams use, `library.py` the access to CuPy, which loads on
first use. The kernels are in fastdist.kernels.cuda. fastdist uses CuPy's current stream, so that
users' own CuPy work runs in order with fastdist's work.

Code that needs only the stream classes loads `stream.py`; the first use of a GPU loads the rest.

Without a GPU the tests run this package on a simulated CuPy, with NumPy's memory and kernels whose
threads are fibres on the CPU (tests/fibre_shim/cupy.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .stream import CudaEvent, CudaStream, ExternalStream

if TYPE_CHECKING:
    from .cuda import CudaBackend

__all__ = ["CudaBackend", "CudaEvent", "CudaStream", "ExternalStream", "load"]


def load() -> CudaBackend:
    """Return the backend of NVIDIA GPUs.

    Raises  DeviceError that says whether CuPy, the driver or a GPU is missing or broken
    """
    from .cuda import load

    return load()


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name != "CudaBackend":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from .cuda import CudaBackend

        return CudaBackend

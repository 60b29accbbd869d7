"""NCCL communicators, through CuPy's bindings."""

from __future__ import annotations

import importlib.util
import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, Final, NoReturn

from fastdist.core.errors import CollectiveError, CollectiveLostError, DeviceError

from ..backend import backend_of
from .library import raise_as_ours
from .stream import CudaStream

# Values of ncclRedOp_t. CuPy's bindings accept all of these numbers, but lack names for some.
_OPS: Final = {"sum": 0, "product": 1, "max": 2, "min": 3, "avg": 4}
# Values of ncclDataType_t, by the name of the NumPy or ml_dtypes dtype.
_TYPES: Final = {
    "int8": 0,
    "uint8": 1,
    "int32": 2,
    "uint32": 3,
    "int64": 4,
    "uint64": 5,
    "float16": 6,
    "float32": 7,
    "float64": 8,
    "bfloat16": 9,
    "float8_e4m3fn": 10,
    "float8_e5m2": 11,
}
_BYTES: Final = _TYPES["uint8"]
# ncclSystemError and ncclRemoteError: the errors of a communicator whose peer has ended.
_LOST: Final = frozenset({2, 6})
_IN_PROGRESS: Final = 7
# The longest wait of a member that leaves, until the other members leave too.
_LEAVE_S: Final = 5.0

_logger = logging.getLogger(__name__)


def why_missing() -> str:
    """Return why NCCL is unavailable, or an empty text if it is available. Loads CuPy."""
    if importlib.util.find_spec("cupy") is None:
        return "CuPy is not installed (in the clone of fastdist, pip install -e '.[cuda12]')"
    try:
        backend_of("cuda")
    except DeviceError as error:
        return str(error)
    with warnings.catch_warnings():
        # CuPy warns if NCCL is missing. The warning is suppressed: the text returned below says so.
        warnings.simplefilter("ignore")
        is_there = _bindings().available
    if not is_there:
        return (
            "CuPy does not find NCCL: pip install nvidia-nccl-cu12 (or -cu13, by the driver's CUDA "
            "version)"
        )
    return ""


def _bindings() -> Any:
    """Return CuPy's NCCL bindings, which `import cupy` does not load."""
    return import_module("cupy.cuda.nccl")


def new_unique_id() -> bytes:
    """Return a new id, which all members of a new communicator must share."""
    with nccl_errors("a new communicator"):
        found: bytes = _bindings().get_unique_id()
    return found


@contextmanager
def nccl_errors(what: str) -> Iterator[None]:
    """Raise NCCL's errors inside a `with` block as CollectiveError or CollectiveLostError.

    Raises  CollectiveLostError if the connection to another member failed; CollectiveError if NCCL
            reports any other error
    """
    try:
        yield
    except KeyError as error:
        # CuPy 14 has no text for NCCL's newer codes, such as the code of a remote error.
        _raise(what, error.args[0], f"code {error.args[0]}", error)
    except RuntimeError as error:
        if type(error).__name__ != "NcclError":
            raise_as_ours(error)
        _raise(what, getattr(error, "status", None), str(error), error)


def _raise(what: str, status: Any, text: str, cause: Exception) -> NoReturn:
    more = "; NCCL_DEBUG=INFO in the environment lets NCCL write what it was doing"
    if status in _LOST:
        raise CollectiveLostError(
            f"{what}: NCCL lost a member, or cannot reach it ({text}){more}"
        ) from cause
    raise CollectiveError(f"{what}: NCCL failed ({text}){more}") from cause


@contextmanager
def grouped() -> Iterator[None]:
    """Start the NCCL calls inside a `with` block together, so that no call waits for another call.

    Threads: applies to the calls of this thread.
    """
    bindings = _bindings()
    with nccl_errors("the start of a group of calls"):
        bindings.groupStart()
    try:
        yield
    except BaseException:
        # The group must be ended even after an error. An error of groupEnd is suppressed, because
        # the first error is more informative.
        with suppress(RuntimeError, KeyError):
            bindings.groupEnd()
        raise
    with nccl_errors("a group of calls"):
        bindings.groupEnd()


class Communicator:
    """One member of an NCCL communicator, on the GPU that is current at its creation.

    The methods queue work on a stream and return. Arrays must be contiguous. The constructor waits
    until all members have called their constructors.

    Raises  CollectiveError if NCCL failed; CollectiveLostError if a member is lost

    Threads: one thread at a time; any thread may call abort.
    """

    def __init__(self, size: int, unique_id: bytes, rank: int) -> None:
        with nccl_errors(f"connecting rank {rank} of {size}"):
            self._native = _bindings().NcclCommunicator(size, unique_id, rank)
        self._is_open = True

    def all_reduce(self, what: str, array: Any, op: str, stream: CudaStream) -> None:
        """Replace array by its reduction over all members."""
        pointer, kind, number = array.data.ptr, type_of(what, array), _op_of(what, op)
        with nccl_errors(what):
            self._native.allReduce(
                pointer, pointer, array.size, kind, number, stream.native.ptr
            )  # fmt: skip

    def reduce(self, what: str, array: Any, op: str, root: int, stream: CudaStream) -> None:
        """Replace the root's array by the reduction over all members."""
        pointer, kind, number = array.data.ptr, type_of(what, array), _op_of(what, op)
        with nccl_errors(what):
            self._native.reduce(
                pointer, pointer, array.size, kind, number, root, stream.native.ptr
            )  # fmt: skip

    def reduce_scatter(self, what: str, out: Any, rows: Any, op: str, stream: CudaStream) -> None:
        """Reduce `rows` over all members, and write the row of this rank's index to `out`."""
        kind, number = type_of(what, out), _op_of(what, op)
        with nccl_errors(what):
            self._native.reduceScatter(
                rows.data.ptr, out.data.ptr, out.size, kind, number, stream.native.ptr
            )

    def broadcast(self, what: str, array: Any, root: int, stream: CudaStream) -> None:
        """Replace array by the root's array."""
        pointer = array.data.ptr
        with nccl_errors(what):
            self._native.broadcast(
                pointer, pointer, array.nbytes, _BYTES, root, stream.native.ptr
            )  # fmt: skip

    def all_gather(self, what: str, out: Any, array: Any, stream: CudaStream) -> None:
        """Write each member's array to the row of `out` at that member's rank."""
        with nccl_errors(what):
            self._native.allGather(
                array.data.ptr, out.data.ptr, array.nbytes, _BYTES, stream.native.ptr
            )

    def send(self, what: str, array: Any, to: int, stream: CudaStream) -> None:
        """Send array to a member."""
        with nccl_errors(what):
            self._native.send(array.data.ptr, array.nbytes, _BYTES, to, stream.native.ptr)

    def recv(self, what: str, array: Any, sender: int, stream: CudaStream) -> None:
        """Fill array with the data that a member sends."""
        with nccl_errors(what):
            self._native.recv(array.data.ptr, array.nbytes, _BYTES, sender, stream.native.ptr)

    def require_healthy(self, what: str) -> None:
        """Raise CollectiveError if NCCL has failed since the last call. Does not wait."""
        if not self._is_open:
            return
        with nccl_errors(what):
            try:
                self._native.check_async_error()
            except KeyError as error:
                if error.args != (_IN_PROGRESS,):
                    raise

    def abort(self) -> None:
        """Abort the current work, and release the communicator."""
        self._is_open = False
        self._native.abort()

    def close(self) -> None:
        """Release the communicator after its work is done.

        NCCL waits until all members on this host release their communicators. If one does not, this
        method returns after _LEAVE_S, while a thread continues to wait.
        """
        if not self._is_open:
            return
        self._is_open = False
        thread = threading.Thread(
            target=self._native.destroy, name="fastdist NCCL release", daemon=True
        )
        thread.start()
        thread.join(_LEAVE_S)
        if thread.is_alive():
            _logger.warning(
                "a communicator of NCCL is not released yet, because other members of this host "
                "have not left the group; call destroy_process_group in all of them"
            )


def type_of(what: str, array: Any) -> int:
    """Return NCCL's number for the dtype of an array in a reduction.

    Raises  CollectiveError if NCCL does not support this dtype
    """
    found = _TYPES.get(array.dtype.name)
    if found is None:
        raise CollectiveError(
            f"{what}: NCCL does not reduce {array.dtype.name}; convert to a dtype that it has "
            f"({', '.join(_TYPES)})"
        )
    return found


def _op_of(what: str, op: str) -> int:
    found = _OPS.get(op)
    if found is None:
        raise CollectiveError(
            f"{what}: Cannot use ReduceOp.{op.upper()} with NCCL: it has SUM, PRODUCT, MIN, MAX, "
            "AVG and PREMUL_SUM; call all_gather and combine the parts, or use a group of gloo"
        )
    return found

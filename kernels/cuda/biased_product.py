"""Products of matrices with a bias added in the same kernel, on CUDA arrays: cuBLASLt.

CuPy does not wrap that library, which comes with cuBLAS, so it is called by ctypes. What it would
run for some layouts, if it can at all, it is asked once.
"""

from __future__ import annotations

import ctypes
import functools
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from fastdist.core.dtypes import WIDE
from fastdist.core.errors import KernelError
from fastdist.core.precision import products

from .layout import element_strides
from .prepared import key_of

# cublasStatus_t, cublasOperation_t, cudaDataType_t and cublasComputeType_t of CUDA's headers.
_SUCCESS, _NOT_SUPPORTED = 0, 15
_AS_IT_IS, _TURNED = 0, 1
_FLOAT32, _FLOAT64, _FLOAT16, _BFLOAT16 = 0, 1, 2, 14
_COMPUTE_32F, _COMPUTE_64F, _COMPUTE_32F_FAST_TF32 = 68, 70, 77
# cublasLtMatmulDescAttributes_t, cublasLtEpilogue_t, cublasLtMatmulPreferenceAttributes_t and
# cublasLtReductionScheme_t.
_WAY_OF_A, _WAY_OF_B, _EPILOGUE, _BIAS_POINTER = 3, 4, 7, 8
_BIAS: Final = 4
_MOST_WORKSPACE, _REDUCTION_SCHEMES, _LEAST_ALIGNMENTS = 1, 3, (5, 6, 7, 8)
# Parts of a sum are added in the type that sums have: results depend on no order, and half types
# round once.
_IN_COMPUTE_TYPE: Final = 2
_WORKSPACE_BYTES: Final = 32 << 20
_KINDS: Final = {np.dtype(np.float32): _FLOAT32, np.dtype(np.float64): _FLOAT64}
# Plans that are kept.
_MOST: Final = 256

_logger = logging.getLogger(__name__)

_Pointer, _Size, _Int = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
_FUNCTIONS: Final[dict[str, list[Any]]] = {
    "MatmulDescCreate": [_Pointer, _Int, _Int],
    "MatmulDescSetAttribute": [_Pointer, _Int, _Pointer, _Size],
    "MatrixLayoutCreate": [_Pointer, _Int, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int64],
    "MatmulPreferenceCreate": [_Pointer],
    "MatmulPreferenceSetAttribute": [_Pointer, _Int, _Pointer, _Size],
    "MatmulPreferenceDestroy": [_Pointer],
    "MatmulAlgoGetHeuristic": [*[_Pointer] * 7, _Int, _Pointer, _Pointer],
    "Matmul": [*[_Pointer] * 14, _Size, _Pointer],
}


class _Algorithm(ctypes.Structure):
    """cublasLtMatmulAlgo_t, of which nothing is known."""

    _fields_ = (("data", ctypes.c_uint64 * 8),)


class _Found(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = (
        ("algorithm", _Algorithm),
        ("workspace_bytes", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


def multiply_and_add(x: Any, weight: Any, bias: Any, out: Any) -> bool:
    """Write x @ weight.T + bias into out by one kernel; return whether the library has one.

    Shape   (n, k), (m, k), (m,) -> (n, m), one dtype

    Thread  any; queued on the current stream of the current device, which is that of out
    Raises  KernelError
    """
    key = key_of((x, weight, bias, out))
    known = _plans.get((products.precision, out.device.id))
    if known is None:
        known = _plans.setdefault((products.precision, out.device.id), {})
    try:
        plan = known[key]
    except KeyError:
        if len(known) >= _MOST:
            known.clear()
        plan = known[key] = _plan(x, weight, bias, out, 16 if key[-1] else out.dtype.itemsize)
    return plan is not None and plan.run(x, weight, bias, out)


# By precision and device, and by layouts: what is run, None where the library has nothing.
_plans: dict[tuple[str, int], dict[Any, _Plan | None]] = {}


def _kind_of(dtype: np.dtype[Any]) -> int | None:
    """Return the cudaDataType_t of what the library multiplies; None of all else."""
    if dtype in WIDE:
        return _FLOAT16 if dtype == np.float16 else _BFLOAT16
    return _KINDS.get(dtype)


class _Matrix(NamedTuple):
    """A matrix as the library is told of it, to whom memory goes down columns.

    Units   `lead` from one column to the next, in elements
    """

    way: int
    rows: int
    columns: int
    lead: int


class _Plan:
    """One product of layouts: descriptor, layouts of A, B and D, and the algorithm.

    What the library made for it stays: a plan is kept as long as the process, nearly always.

    Thread  the lock is held from telling the descriptor where the bias is until that was read
    """

    def __init__(
        self, description: Any, layouts: Sequence[Any], found: _Found, numbers: Any
    ) -> None:
        self._lock = threading.Lock()
        self._matmul, self._tell = _lt("Matmul"), _lt("MatmulDescSetAttribute")
        self._place = ctypes.c_void_p()
        self._bias = description, _BIAS_POINTER, ctypes.byref(self._place), 8
        self._description, self._layouts, self._numbers = description, layouts, numbers
        self._algorithm, self._room = ctypes.byref(found.algorithm), int(found.workspace_bytes)

    def run(self, x: Any, weight: Any, bias: Any, out: Any) -> bool:
        """Multiply arrays of the layouts that it was made for; return whether that was possible."""
        import cupy

        a, b, d = self._layouts
        one, zero = self._numbers
        # Freed in the order of the stream, as all memory of the pool.
        work = cupy.empty((self._room,), np.uint8) if self._room else None
        handle, stream = cupy.cuda.device.get_cublas_handle(), cupy.cuda.get_current_stream().ptr
        to = out.data.ptr
        with self._lock:
            self._place.value = bias.data.ptr
            _require(self._tell(*self._bias))
            status = self._matmul(
                *(handle, self._description, one, weight.data.ptr, a, x.data.ptr, b, zero),
                *(to, d, to, d, self._algorithm),
                *(None if work is None else work.data.ptr, self._room, stream),
            )
        if status == _NOT_SUPPORTED:
            return False
        _require(status)
        return True


def _plan(x: Any, weight: Any, bias: Any, out: Any, alignment: int) -> _Plan | None:
    """Return what to run for arrays of such layouts; None if the library has nothing."""
    kind = _kind_of(out.dtype)
    if kind is None or bias.ndim != 1 or not (out.size and x.size):
        return None
    # Down columns the product is weight @ x.T, and the bias goes down each column.
    a, b = _matrix(weight, turned=False), _matrix(x, turned=True)
    is_packed = bias.strides[0] == bias.dtype.itemsize or bias.size == 1
    is_told = a is not None and b is not None and is_packed and out.flags.c_contiguous
    if not is_told or _library() is None:
        return None
    assert a is not None and b is not None
    n, m = out.shape
    number: type[ctypes.c_float | ctypes.c_double] = ctypes.c_float
    compute, scale = _COMPUTE_32F, _FLOAT32
    if kind == _FLOAT64:
        compute, number, scale = _COMPUTE_64F, ctypes.c_double, _FLOAT64
    elif kind == _FLOAT32 and products.precision != "highest":
        compute = _COMPUTE_32F_FAST_TF32
    description = _made(_lt("MatmulDescCreate"), compute, scale)
    # The bias of the heuristic, which does not read it, is aligned no better than those to come.
    for what, value in (
        (_WAY_OF_A, ctypes.c_int32(a.way)),
        (_WAY_OF_B, ctypes.c_int32(b.way)),
        (_EPILOGUE, ctypes.c_uint32(_BIAS)),
        (_BIAS_POINTER, ctypes.c_void_p(alignment)),
    ):
        _tell(_lt("MatmulDescSetAttribute"), description, what, value)
    create = _lt("MatrixLayoutCreate")
    layouts = [
        _made(create, kind, one.rows, one.columns, one.lead)
        for one in (a, b, _Matrix(_AS_IT_IS, m, n, m))
    ]
    found = _ask(description, layouts, alignment)
    if found is None:
        return None
    numbers = ctypes.byref(number(1)), ctypes.byref(number(0))
    return _Plan(description, layouts, found, numbers)


def _ask(description: Any, layouts: Sequence[Any], alignment: int) -> _Found | None:
    """Return what the library's heuristic would run; None if that is nothing."""
    import cupy

    preference = _made(_lt("MatmulPreferenceCreate"))
    for what, value in (
        (_MOST_WORKSPACE, ctypes.c_uint64(_WORKSPACE_BYTES)),
        (_REDUCTION_SCHEMES, ctypes.c_uint32(_IN_COMPUTE_TYPE)),
        *[(what, ctypes.c_uint32(alignment)) for what in _LEAST_ALIGNMENTS],
    ):
        _tell(_lt("MatmulPreferenceSetAttribute"), preference, what, value)
    found, count = _Found(), ctypes.c_int(0)
    a, b, d = layouts
    status = _lt("MatmulAlgoGetHeuristic")(
        *(cupy.cuda.device.get_cublas_handle(), description, a, b, d, d, preference, 1),
        *(ctypes.byref(found), ctypes.byref(count)),
    )
    _require(_lt("MatmulPreferenceDestroy")(preference))
    if status == _NOT_SUPPORTED:
        return None
    _require(status)
    return found if count.value and found.state == _SUCCESS else None


def _made(create: Callable[..., int], *facts: int) -> Any:
    """Return a new object of the library's."""
    made = ctypes.c_void_p()
    _require(create(ctypes.byref(made), *facts))
    return made


def _tell(tell: Callable[..., int], made: Any, what: int, value: Any) -> None:
    """Set an attribute of an object."""
    _require(tell(made, what, ctypes.byref(value), ctypes.sizeof(value)))


def _matrix(x: Any, *, turned: bool) -> _Matrix | None:
    """Return what the library is told of a matrix, or its transpose; None if it is of neither
    order.
    """
    rows, columns = x.shape
    of_rows, of_columns = element_strides(x)
    if turned:
        rows, columns, of_rows, of_columns = columns, rows, of_columns, of_rows
    for way, (high, along), (wide, across) in (
        (_AS_IT_IS, (rows, of_rows), (columns, of_columns)),
        (_TURNED, (columns, of_columns), (rows, of_rows)),
    ):
        lead = across if wide > 1 else high
        if (along == 1 or high == 1) and lead >= high:
            return _Matrix(way, high, wide, lead)
    return None


def _require(status: int) -> None:
    if status != _SUCCESS:
        raise KernelError(
            f"cuda: cuBLASLt failed with cublasStatus_t {status} at a product with a bias"
        )


def _lt(function: str) -> Callable[..., int]:
    """Return cuBLASLt's function of a name, which returns a cublasStatus_t."""
    return getattr(_library(), f"cublasLt{function}")  # type: ignore[no-any-return]


# Replaced where there is no such library.
load: Callable[[str], Any] = ctypes.CDLL


@functools.cache
def _library() -> Any:
    """Return the library that belongs to the cuBLAS that CuPy has loaded; None where that cannot
    be had.
    """
    import cupy

    handle = cupy.cuda.device.get_cublas_handle()
    try:
        from cupy_backends.cuda.libs import cublas

        name = f"libcublasLt.so.{cublas.getVersion(handle) // 10000}"
        library = load(name)
        for function, types in _FUNCTIONS.items():
            found = getattr(library, f"cublasLt{function}")
            found.argtypes, found.restype = types, ctypes.c_int
    except (ImportError, OSError, AttributeError) as error:
        _logger.info("a bias is added by a kernel of its own: cuBLASLt is not there: %s", error)
        return None
    return library


def forget() -> None:
    """Ask for library and plans anew: another CuPy is there."""
    _library.cache_clear()
    _plans.clear()

"""Matrix products by cuBLASLt, on CUDA arrays, with a bias or a factor in the same kernel.

cuBLASLt is installed with cuBLAS, and CuPy does not wrap it, so this module calls it by ctypes. The
library's best algorithm for a layout, if it has one, is queried once. CuPy's own cuBLAS calls raise
errors during stream capture, and round products of half types to these types. The calls of this
module do neither.
"""

from __future__ import annotations

import ctypes
import functools
import logging
import math
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from fastdist.core.dtypes import WIDE
from fastdist.core.errors import KernelError
from fastdist.core.precision import Choice, products

from ..launch import address_of
from ..layout import broadcast_strides, element_strides, walk
from ..prepared import key_of

# Values of cublasStatus_t, cublasOperation_t, cudaDataType_t and cublasComputeType_t in CUDA's
# headers.
_SUCCESS, _NOT_SUPPORTED = 0, 15
_AS_IT_IS, _TURNED = 0, 1
_FLOAT32, _FLOAT64, _FLOAT16, _COMPLEX64, _COMPLEX128, _BFLOAT16 = 0, 1, 2, 4, 5, 14
_COMPUTE_32F, _COMPUTE_64F, _COMPUTE_32F_FAST_TF32 = 68, 70, 77
# Values of cublasLtMatmulDescAttributes_t, cublasLtEpilogue_t, cublasLtMatrixLayoutAttribute_t,
# cublasLtMatmulPreferenceAttributes_t and cublasLtReductionScheme_t.
_WAY_OF_A, _WAY_OF_B, _EPILOGUE, _BIAS_POINTER = 3, 4, 7, 8
_BIAS: Final = 4
_BATCH_COUNT, _BATCH_STEP = 5, 6
_MOST_WORKSPACE, _REDUCTION_SCHEMES, _LEAST_ALIGNMENTS = 1, 3, (5, 6, 7, 8)
# Partial sums are added in the compute type, in a fixed order, so that results are repeatable, and
# half types are rounded once.
_IN_COMPUTE_TYPE: Final = 2
_WORKSPACE_BYTES: Final = 32 << 20
_KINDS: Final = {
    np.dtype(np.float32): _FLOAT32,
    np.dtype(np.float64): _FLOAT64,
    np.dtype(np.complex64): _COMPLEX64,
    np.dtype(np.complex128): _COMPLEX128,
}
# cudaDataType_t -> the compute type, the type of the product's factor, and the factor's C type.
_COMPUTED: Final[dict[int, tuple[int, int, Any]]] = {
    _FLOAT32: (_COMPUTE_32F, _FLOAT32, ctypes.c_float),
    _FLOAT64: (_COMPUTE_64F, _FLOAT64, ctypes.c_double),
    _COMPLEX64: (_COMPUTE_32F, _COMPLEX64, ctypes.c_float * 2),
    _COMPLEX128: (_COMPUTE_64F, _COMPLEX128, ctypes.c_double * 2),
    _FLOAT16: (_COMPUTE_32F, _FLOAT32, ctypes.c_float),
    _BFLOAT16: (_COMPUTE_32F, _FLOAT32, ctypes.c_float),
}
# The largest number of plans in each dictionary of _plans.
_MOST: Final = 256

_logger = logging.getLogger(__name__)

_Pointer, _Size, _Int = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
_FUNCTIONS: Final[dict[str, list[Any]]] = {
    "Create": [_Pointer],
    "MatmulDescCreate": [_Pointer, _Int, _Int],
    "MatmulDescSetAttribute": [_Pointer, _Int, _Pointer, _Size],
    "MatrixLayoutCreate": [_Pointer, _Int, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int64],
    "MatrixLayoutSetAttribute": [_Pointer, _Int, _Pointer, _Size],
    "MatmulPreferenceCreate": [_Pointer],
    "MatmulPreferenceSetAttribute": [_Pointer, _Int, _Pointer, _Size],
    "MatmulPreferenceDestroy": [_Pointer],
    "MatmulAlgoGetHeuristic": [*[_Pointer] * 7, _Int, _Pointer, _Pointer],
    "Matmul": [*[_Pointer] * 14, _Size, _Pointer],
}


class _Algorithm(ctypes.Structure):
    """cublasLtMatmulAlgo_t, an opaque struct."""

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


def multiply(
    x: Any,
    y: Any,
    out: Any,
    bias: Any = None,
    factor: float = 1.0,
    *,
    is_turned: bool = False,
    choice: Choice = products,
) -> bool:
    """Write x @ y * factor + bias into out by one kernel. Return False if the library has no
    kernel.

    Shapes: x (..., n, k); y (..., k, m), or (..., m, k) if is_turned; bias (m,); out (..., n, m),
    in C order. All arrays have one dtype, except that out may be float32 for half types. Batch axes
    broadcast to those of out. `choice` decides whether TF32 may be used.

    Thread  any; queued on the current stream of the current device, which must be out's
    Raises  KernelError
    """
    key = key_of((x, y, bias, out))
    tf32 = choice.tf32
    place = tf32, out.device.id, is_turned
    known = _plans.get(place)
    if known is None:
        known = _plans.setdefault(place, {})
    try:
        plan = known[key]
    except KeyError:
        if len(known) >= _MOST:
            known.clear()
        turned = transposed(y) if is_turned else y
        alignment = 16 if key[-1] else x.dtype.itemsize
        plan = known[key] = _plan(x, turned, bias, out, alignment, tf32=tf32)
    return plan is not None and plan.run(x, y, bias, out, factor)


class Product:
    """A step of prepared launches: the matrix product of arrays with fixed layouts, optionally with
    a bias.

    Thread  any; queued on the current stream of the current device, which must be out's
    """

    def __init__(
        self,
        slots: tuple[Any, ...],
        otherwise: Callable[..., None],
        *,
        is_turned: bool = False,
        choice: Choice = products,
    ) -> None:
        """Prepare x @ y, or x @ y.T if is_turned. `slots` are arrays with the layouts of x, y, the
        bias (only if there are four slots) and out. The function `otherwise` computes the product
        if the library has no kernel for it. `choice` decides at each call whether TF32 may be used.
        """
        self._slots, self._otherwise, self._is_turned = slots, otherwise, is_turned
        self._choice = choice
        # Whether TF32 is allowed -> the plan. The setting may change between calls.
        self._plans: dict[bool, _Plan | None] = {}

    def __call__(self, grid: Any, block: Any, given: tuple[Any, ...]) -> None:
        """Multiply the arrays of a call; called like a compiled kernel."""
        self.multiply(given)

    def multiply(self, given: tuple[Any, ...]) -> None:
        """Multiply the arrays of a call: x, y, the bias if there is one, and out. If an array has
        another layout than its slot, it is viewed with the shape and strides of the slot.
        """
        tf32 = self._choice.tf32
        try:
            plan = self._plans[tf32]
        except KeyError:
            plan = self._plans[tf32] = self._ask(self._shaped(given), tf32=tf32)
        if plan is not None and len(given) == 3 and plan.launch(*given) == 0:
            return  # inlined from `run`
        bias = given[2] if len(given) > 3 else None
        if plan is None or not plan.run(given[0], given[1], bias, given[-1], 1.0):
            self._otherwise(*self._shaped(given))

    def _ask(self, given: list[Any], *, tf32: bool) -> _Plan | None:
        x, y, *bias, out = given
        # Scratch arrays are always aligned, and either all slots are aligned or none is.
        alignment = x.dtype.itemsize if any(map(address_of, self._slots)) else 16
        turned = transposed(y) if self._is_turned else y
        return _plan(x, turned, bias[0] if bias else None, out, alignment, tf32=tf32)

    def _shaped(self, given: tuple[Any, ...]) -> list[Any]:
        """Return views of the arrays with the shapes and strides of the slots."""
        return [
            one
            if one.shape == slot.shape and one.strides == slot.strides
            else type(one)(slot.shape, one.dtype, one.data, slot.strides)
            for one, slot in zip(given, self._slots, strict=True)
        ]


def laid_out(x: Any, batch: Sequence[int] | None = None) -> Any:
    """Return matrices as they are if the library supports their strides, otherwise a copy in C
    order. If `batch` is given, the matrices' batch axes are broadcast to it.
    """
    import cupy

    if batch is None:
        batch = x.shape[:-2]
    steps = broadcast_strides(x, (*batch, *x.shape[-2:]))[:-2]
    # The strides of the result's batch axes, counted in matrices, which are contiguous.
    ours = [math.prod(batch[axis + 1 :]) for axis in range(len(batch))]
    if _matrix(x) is not None and len(walk(batch, [steps, ours]).shape) == 1:
        return x
    return cupy.ascontiguousarray(cupy.broadcast_to(x, (*batch, *x.shape[-2:])))


# (whether TF32 is allowed, the device, whether y is transposed) -> layouts -> the plan, or None if
# the library has no kernel.
_plans: dict[tuple[bool, int, bool], dict[Any, _Plan | None]] = {}


def _kind_of(dtype: np.dtype[Any]) -> int | None:
    """Return the cudaDataType_t of a dtype; None if the library does not multiply it."""
    if dtype in WIDE:
        return _FLOAT16 if dtype == np.float16 else _BFLOAT16
    return _KINDS.get(dtype)


class _Matrix(NamedTuple):
    """A matrix in column-major order, as the library describes it.

    Units   `lead`, the distance from one column to the next, in elements
    """

    way: int
    rows: int
    columns: int
    lead: int


class _Plan:
    """One product for fixed layouts: descriptor, layouts of A, B and D, and the algorithm.

    The library's objects are never destroyed, because nearly all plans live as long as the process.

    Thread  a lock is held from writing the bias's address into the descriptor until the descriptor
            has been used
    """

    def __init__(self, description: Any, layouts: Sequence[Any], found: _Found, kind: Any) -> None:
        self._lock = threading.Lock()
        import cupy

        self._empty, self._stream = cupy.empty, cupy.cuda.get_current_stream
        self._matmul, self._tell = _lt("Matmul"), _lt("MatmulDescSetAttribute")
        self._place, self._handle = ctypes.c_void_p(), _handle()
        self._bias = description, _BIAS_POINTER, ctypes.byref(self._place), 8
        self._description, self._layouts, self._kind = description, layouts, kind
        self._one, self._zero = ctypes.byref(_number(kind, 1)), ctypes.byref(_number(kind, 0))
        self._algorithm, self._room = ctypes.byref(found.algorithm), int(found.workspace_bytes)

    def run(self, x: Any, y: Any, bias: Any, out: Any, factor: float) -> bool:
        """Multiply arrays that have the plan's layouts; return whether the library supports it."""
        if bias is not None:
            with self._lock:
                self._place.value = bias.data.ptr
                _require(self._tell(*self._bias))
                status = self.launch(x, y, out, factor)
        else:
            status = self.launch(x, y, out, factor)
        if status == _NOT_SUPPORTED:
            return False
        _require(status)
        return True

    def launch(self, x: Any, y: Any, out: Any, factor: float = 1.0) -> int:
        """Multiply matrices, with the bias that was set before; return the library's status."""
        a, b, d = self._layouts
        one = self._one if factor == 1.0 else ctypes.byref(_number(self._kind, factor))
        # Freed when `launch` returns, while the kernel may still run: CuPy's pool reuses the memory
        # only for later work of the same stream.
        work = self._empty((self._room,), np.uint8) if self._room else None
        to = out.data.ptr
        return self._matmul(
            self._handle, self._description, one, y.data.ptr, a, x.data.ptr, b, self._zero,
            to, d, to, d, self._algorithm, None if work is None else work.data.ptr, self._room,
            self._stream().ptr,
        )  # fmt: skip


def _number(kind: Any, value: float) -> Any:
    """Return a factor in C's format; a complex factor has an imaginary part of 0."""
    return kind(value, 0) if issubclass(kind, ctypes.Array) else kind(value)


def _plan(x: Any, y: Any, bias: Any, out: Any, alignment: int, *, tf32: bool) -> _Plan | None:
    """Return the plan for arrays with these layouts; None if the library does not support them."""
    kind, out_kind = _kind_of(x.dtype), _kind_of(out.dtype)
    if kind is None or out_kind is None or not (out.size and x.size):
        return None
    lie = None if _library() is None else _layouts(x, y, out, (kind, out_kind))
    if lie is None or not (bias is None or _is_packed(bias)):
        return None
    (a, b), layouts = lie
    compute, scale, number = _COMPUTED[kind]
    if compute == _COMPUTE_32F and x.dtype not in WIDE and tf32:
        compute = _COMPUTE_32F_FAST_TF32
    description = _made(_lt("MatmulDescCreate"), compute, scale)
    problem: list[tuple[int, Any]] = [
        (_WAY_OF_A, ctypes.c_int32(a.way)),
        (_WAY_OF_B, ctypes.c_int32(b.way)),
    ]
    if bias is not None:
        # The heuristic reads only the alignment of the bias's address. So `alignment` can stand for
        # the address of any bias with at least this alignment.
        problem += [
            (_EPILOGUE, ctypes.c_uint32(_BIAS)),
            (_BIAS_POINTER, ctypes.c_void_p(alignment)),
        ]
    for what, value in problem:
        _tell(_lt("MatmulDescSetAttribute"), description, what, value)
    found = _ask(description, layouts, alignment)
    return None if found is None else _Plan(description, layouts, found, number)


def _is_packed(bias: Any) -> bool:
    return bool(bias.ndim == 1 and (bias.strides[0] == bias.dtype.itemsize or bias.size == 1))


def _layouts(
    x: Any, y: Any, out: Any, kinds: tuple[int, int]
) -> tuple[tuple[_Matrix, _Matrix], list[Any]] | None:
    """Return the layouts of A and B, and the library's descriptions of A, B and D; None if the
    library does not support them.

    In column-major order the product is y.T @ x.T, and a bias is added to each column.
    """
    a, b = _matrix(y), _matrix(x)
    if a is None or b is None or not out.flags.c_contiguous:
        return None
    *batch, n, m = out.shape
    steps = [broadcast_strides(one, (*batch, *one.shape[-2:]))[:-2] for one in (y, x, out)]
    matrices = walk(batch, steps)
    if len(matrices.shape) != 1:
        return None
    create, made = _lt("MatrixLayoutCreate"), []
    kinds_of = (kinds[0], kinds[0], kinds[1])
    whole = _Matrix(_AS_IT_IS, m, n, m)
    for one, kind, (step,) in zip((a, b, whole), kinds_of, matrices.strides, strict=True):
        layout = _made(create, kind, one.rows, one.columns, one.lead)
        if matrices.size > 1:
            tell = _lt("MatrixLayoutSetAttribute")
            _tell(tell, layout, _BATCH_COUNT, ctypes.c_int32(matrices.size))
            _tell(tell, layout, _BATCH_STEP, ctypes.c_int64(step))
        made.append(layout)
    return (a, b), made


def transposed(x: Any) -> Any:
    """Return a view of the transposed matrices."""
    axes = tuple(range(x.ndim))
    return x.transpose((*axes[:-2], axes[-1], axes[-2]))


def _ask(description: Any, layouts: Sequence[Any], alignment: int) -> _Found | None:
    """Return the algorithm that the library's heuristic chooses; None if it finds none."""

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
        *(_handle(), description, a, b, d, d, preference, 1),
        *(ctypes.byref(found), ctypes.byref(count)),
    )
    _require(_lt("MatmulPreferenceDestroy")(preference))
    if status == _NOT_SUPPORTED:
        return None
    _require(status)
    return found if count.value and found.state == _SUCCESS else None


def _handle() -> Any:
    """Return the library's handle for the current device; all threads share the handle."""
    import cupy

    return _handle_of(cupy.cuda.runtime.getDevice())


@functools.cache
def _handle_of(device: int) -> Any:
    del device  # only the key of the cache: Create uses the current device
    return _made(_lt("Create"))


def _made(create: Callable[..., int], *facts: int) -> Any:
    """Create an object of the library and return it."""
    made = ctypes.c_void_p()
    _require(create(ctypes.byref(made), *facts))
    return made


def _tell(tell: Callable[..., int], made: Any, what: int, value: Any) -> None:
    """Set an attribute of an object of the library."""
    _require(tell(made, what, ctypes.byref(value), ctypes.sizeof(value)))


def _matrix(x: Any) -> _Matrix | None:
    """Return the library's description of the transpose of matrices; None if they are neither in
    row-major nor in column-major order.
    """
    columns, rows = x.shape[-2:]
    of_columns, of_rows = element_strides(x)[-2:]
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
        raise KernelError(f"cuda: cuBLASLt failed with cublasStatus_t {status} at a product")


def _lt(function: str) -> Callable[..., int]:
    """Return the cuBLASLt function with this name, which returns a cublasStatus_t."""
    return getattr(_library(), f"cublasLt{function}")  # type: ignore[no-any-return]


# The function that loads a library. Tests may replace it where cuBLASLt is missing.
load: Callable[[str], Any] = ctypes.CDLL


@functools.cache
def _library() -> Any:
    """Return the cuBLASLt that belongs to the cuBLAS loaded by CuPy; None if it cannot be
    loaded.
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
        _logger.info("using CuPy's products, because cuBLASLt is not available: %s", error)
        return None
    return library


def forget() -> None:
    """Forget the library and all plans, for a caller that replaces CuPy."""
    _library.cache_clear()
    _handle_of.cache_clear()
    _plans.clear()

"""Calls of cuSOLVER and cuBLAS for stacks of matrices: factorizations, solves, eigenvalues.

Both libraries use column-major order. A stack is (count, columns, rows) in C order, so that a
library sees each matrix with `rows` rows and `columns` columns. Results overwrite the inputs.
Pivots are counted from 1, and `info`, int32, is 0 or LAPACK's value.

All work is queued on the current stream of the current device, without waiting: singular matrices
are detected on the GPU. A batched call is used if the library has one and CuPy's developers found
it faster.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ..launch import address_of

# Values of cublasFillMode_t, cublasSideMode_t, cublasOperation_t and cusolverEigMode_t in CUDA's
# headers.
_LOWER, _UPPER = 0, 1
_RIGHT: Final = 1
_AS_IT_IS: Final = 0
_NO_VECTORS, _VECTORS = 0, 1
# NumPy's character of a dtype -> the first letter of the names of the libraries' functions.
_LETTERS: Final = {"f": "s", "d": "d", "F": "c", "D": "z"}
# NumPy's character of a dtype -> the cudaDataType_t.
_DATA_TYPES: Final = {"f": 0, "d": 1, "F": 4, "D": 5}
_MOST_JACOBI: Final = 32  # the limit on rows and columns for the batched Jacobi methods


def potrf(stack: Any, info: Any, *, lower: bool) -> None:
    """Write the Cholesky factor of each matrix over the triangle that `lower` selects. The other
    triangle is neither read nor changed.
    """
    count, n, _ = stack.shape
    uplo, dtype = _LOWER if lower else _UPPER, stack.dtype
    handle, start = _solver_handle(), address_of(stack)
    if _is_for_one_call(stack):
        pointers = _pointers(stack)
        many = _solver("potrfBatched", dtype)
        many(handle, uplo, n, address_of(pointers), n, address_of(info), count)
        return
    size = _solver("potrf_bufferSize", dtype)(handle, uplo, n, start, n)
    work = _room(size, dtype)
    one = _solver("potrf", dtype)
    for matrix, status in zip(_starts(stack), _starts(info), strict=True):
        one(handle, uplo, n, matrix, n, address_of(work), size, status)


def getrf(stack: Any, pivots: Any, info: Any) -> None:
    """Write L, without its diagonal of ones, and U over each matrix.

    Shape   (count, columns, rows); pivots (count, min(columns, rows))
    """
    count, columns, rows = stack.shape
    dtype, start = stack.dtype, address_of(stack)
    if rows == columns and _is_for_one_call(stack):
        pointers = _pointers(stack)
        many = _blas("getrfBatched", dtype)
        where = address_of(pointers), rows, address_of(pivots), address_of(info)
        many(_blas_handle(), rows, *where, count)
        return
    handle = _solver_handle()
    work = _room(_solver("getrf_bufferSize", dtype)(handle, rows, columns, start, rows), dtype)
    one = _solver("getrf", dtype)
    for matrix, swaps, status in zip(*map(_starts, (stack, pivots, info)), strict=True):
        one(handle, rows, columns, matrix, rows, address_of(work), swaps, status)


def getrs(factors: Any, pivots: Any, right: Any) -> None:
    """Solve A @ X = B and write X over `right`; factors and pivots are getrf's results for A.

    Shape   (count, n, n), (count, n), (count, columns of B, n)
    """
    count, n, _ = factors.shape
    columns, dtype = right.shape[1], factors.dtype
    if _is_for_one_call(factors):
        given, sought = _pointers(factors), _pointers(right)
        status = np.zeros(1, np.int32)  # the call reports invalid arguments on the host
        many = _blas("getrsBatched", dtype)
        left = address_of(given), n, address_of(pivots)
        many(_blas_handle(), _AS_IT_IS, n, columns, *left, address_of(sought), n,
             address_of(status), count)  # fmt: skip
        return
    handle, info = _solver_handle(), _room(1, np.dtype(np.int32))
    one = _solver("getrs", dtype)
    for matrix, swaps, found in zip(*map(_starts, (factors, pivots, right)), strict=True):
        one(handle, _AS_IT_IS, n, columns, matrix, n, swaps, found, n, address_of(info))


def trsm(triangles: Any, right: Any, *, lower: bool, unitriangular: bool) -> None:
    """Solve X @ A = B and write X over `right`; only one triangle of A is read.

    Shape   (count, n, n), (count, n, rows of B)
    """
    count, n, rows = right.shape
    dtype, handle = right.dtype, _blas_handle()
    factor = np.ones(1, dtype)  # cuBLAS reads it on the host, during the call
    how = _RIGHT, _LOWER if lower else _UPPER, _AS_IT_IS, int(unitriangular)
    what = handle, *how, rows, n, address_of(factor)
    if _is_for_one_call(triangles):
        given, sought = _pointers(triangles), _pointers(right)
        many = _blas("trsmBatched", dtype)
        many(*what, address_of(given), n, address_of(sought), rows, count)
        return
    one = _blas("trsm", dtype)
    for matrix, found in zip(_starts(triangles), _starts(right), strict=True):
        one(*what, matrix, n, found, rows)


def syevd(stack: Any, values: Any, info: Any, *, lower: bool, vectors: bool) -> None:
    """Write the eigenvalues of symmetric or Hermitian matrices, ascending, into values, and the
    eigenvectors, as columns, over the matrices. Only one triangle is read.
    """
    count, n, _ = stack.shape
    dtype, handle = stack.dtype, _solver_handle()
    how = handle, _VECTORS if vectors else _NO_VECTORS, _LOWER if lower else _UPPER, n
    where = address_of(stack), n, address_of(values)
    if count > 1 and n <= _MOST_JACOBI:
        with _Parameters("SyevjInfo") as parameters:
            asked = _solver("syevjBatched_bufferSize", dtype, "heevjBatched_bufferSize")
            size = asked(*how, *where, parameters, count)
            work = _room(size, dtype)
            many = _solver("syevjBatched", dtype, "heevjBatched")
            many(*how, *where, address_of(work), size, address_of(info), parameters, count)
        return
    size = _solver("syevd_bufferSize", dtype, "heevd_bufferSize")(*how, *where)
    work = _room(size, dtype)
    one = _solver("syevd", dtype, "heevd")
    for matrix, found, status in zip(*map(_starts, (stack, values, info)), strict=True):
        one(*how, matrix, n, found, address_of(work), size, status)


def has_geev() -> bool:
    """Return whether cuSOLVER has geev; CUDA has it since version 12.6."""
    from cupyx.cusolver import check_availability

    return bool(check_availability("geev"))


def geev(stack: Any, values: Any, right: Any, info: Any, *, vectors: bool) -> None:
    """Write the eigenvalues of square matrices into values and, with `vectors`, the eigenvectors,
    as columns, into right. The matrices are overwritten. For real matrices, complex eigenvalues
    come in pairs; the one with a positive imaginary part comes first. The two vectors of a pair
    are the real part and the imaginary part of the first value's eigenvector.

    Shape   (count, n, n), (count, n), (count, n, n)
    Note    the library works on the host as well. Its documentation does not say whether that work
            may continue after the call, so the memory on the host is never freed
    """
    from cupy_backends.cuda.libs import cusolver

    n, handle = stack.shape[1], _solver_handle()
    kind, of_values = _DATA_TYPES[stack.dtype.char], _DATA_TYPES[values.dtype.char]
    how = _NO_VECTORS, _VECTORS if vectors else _NO_VECTORS, n, kind

    def where(matrix: int, found: int, columns: int) -> tuple[int, ...]:
        # Left eigenvectors are not computed; their arguments repeat those of the right ones.
        return matrix, n, of_values, found, kind, columns, n, kind, columns, n, kind

    places = list(zip(*map(_starts, (stack, values, right)), strict=True))
    with _Parameters("Params") as parameters:
        sizes = cusolver.xgeev_bufferSize(handle, parameters, *how, *where(*places[0]))
        work = _room(sizes[0], np.dtype(np.uint8))
        of_host = _host_room(handle, sizes[1])
        rooms = address_of(work), sizes[0], of_host, sizes[1]
        for place, status in zip(places, _starts(info), strict=True):
            cusolver.xgeev(handle, parameters, *how, *where(*place), *rooms, status)


# (handle, stream, size) -> pinned memory. Each thread has its own handle.
_host_rooms: Final[dict[tuple[int, int, int], Any]] = {}


def _host_room(handle: int, size: int) -> int:
    """Return the address of pinned memory. All calls of a thread on one stream with about the same
    size share the memory, because they run one after the other.
    """
    import cupy

    room = 1 << max(size - 1, 0).bit_length()
    key = handle, int(cupy.cuda.get_current_stream().ptr), room
    if key not in _host_rooms:
        _host_rooms[key] = cupy.cuda.alloc_pinned_memory(room)
    return int(_host_rooms[key].ptr)


def gesvd(stack: Any, left: Any, values: Any, right: Any, info: Any) -> None:
    """Write U, S and V.H of each matrix into left, values and right, or only S if left and right
    are None. The matrices are overwritten.

    Shape   (count, columns, rows), (count, rows or columns, rows), (count, columns),
            (count, columns, columns); there are at least as many rows as columns
    """
    count, columns, rows = stack.shape
    if count > 1 and rows <= _MOST_JACOBI:
        _gesvdj(stack, left, values, right, info)
        return
    dtype, handle = stack.dtype, _solver_handle()
    size = _solver("gesvd_bufferSize", dtype)(handle, rows, columns)
    work = _room(size, dtype)
    one = _solver("gesvd", dtype)
    job = ord("N" if left is None else "A" if left.shape[1] == rows else "S")
    nowhere = [0] * count
    lefts = nowhere if left is None else _starts(left)
    rights = nowhere if right is None else _starts(right)
    for place, (matrix, found, status) in enumerate(
        zip(*map(_starts, (stack, values, info)), strict=True)
    ):
        one(handle, job, job, rows, columns, matrix, rows, found, lefts[place], rows,
            rights[place], columns, address_of(work), size, 0, status)  # fmt: skip


def _gesvdj(stack: Any, left: Any, values: Any, right: Any, info: Any) -> None:
    """Do the same as gesvd, for many small matrices at a time."""
    import cupy

    count, columns, rows = stack.shape
    dtype, handle = stack.dtype, _solver_handle()
    # The method always needs memory for whole U and V matrices, and returns V instead of V.H.
    full = cupy.empty((count, rows, rows), dtype)
    turned = cupy.empty((count, columns, columns), dtype)
    how = handle, _NO_VECTORS if left is None else _VECTORS, rows, columns
    where = (address_of(stack), rows, address_of(values), address_of(full), rows,
             address_of(turned), columns)  # fmt: skip
    with _Parameters("GesvdjInfo") as parameters:
        size = _solver("gesvdjBatched_bufferSize", dtype)(*how, *where, parameters, count)
        work = _room(size, dtype)
        many = _solver("gesvdjBatched", dtype)
        many(*how, *where, address_of(work), size, address_of(info), parameters, count)
    if left is not None:
        left[...] = full[:, : left.shape[1]]
        right[...] = turned.swapaxes(-1, -2).conj()


def geqrf(stack: Any, scales: Any) -> None:
    """Write R over each matrix. Below the diagonal of R, write the Householder vectors whose
    reflections give Q. Write the scales of the vectors into `scales`.

    Shape   (count, columns, rows), (count, min(columns, rows))
    """
    _, columns, rows = stack.shape
    dtype, handle, info = stack.dtype, _solver_handle(), _room(1, np.dtype(np.int32))
    size = _solver("geqrf_bufferSize", dtype)(handle, rows, columns, address_of(stack), rows)
    work = _room(size, dtype)
    one = _solver("geqrf", dtype)
    for matrix, found in zip(_starts(stack), _starts(scales), strict=True):
        one(handle, rows, columns, matrix, rows, found, address_of(work), size, address_of(info))


def orgqr(stack: Any, scales: Any) -> None:
    """Write Q over each matrix, whose first columns hold geqrf's Householder vectors.

    Shape   (count, columns, rows), (count, reflections)
    """
    _, columns, rows = stack.shape
    dtype, handle, info = stack.dtype, _solver_handle(), _room(1, np.dtype(np.int32))
    how = handle, rows, columns, scales.shape[1]
    asked = _solver("orgqr_bufferSize", dtype, "ungqr_bufferSize")
    size = asked(*how, address_of(stack), rows, address_of(scales))
    work = _room(size, dtype)
    one = _solver("orgqr", dtype, "ungqr")
    for matrix, given in zip(_starts(stack), _starts(scales), strict=True):
        one(*how, matrix, rows, given, address_of(work), size, address_of(info))


def _is_for_one_call(stack: Any) -> bool:
    """Return whether one batched call processes the stack; the criterion is CuPy's."""
    count, n, _ = stack.shape
    return bool(count > 1 and n * n <= 65536 * count)


def _starts(stack: Any) -> list[int]:
    """Return the addresses of the entries of axis 0 of an array in C order."""
    start, count = address_of(stack), stack.shape[0]
    step = stack.nbytes // count
    return [start + place * step for place in range(count)]


def _pointers(stack: Any) -> Any:
    """Return the addresses of the matrices of a stack as a device array, computed on the device."""
    import cupy

    start, count = address_of(stack), stack.shape[0]
    step = stack.nbytes // count
    return cupy.arange(start, start + count * step, step, np.dtype(np.uintp))


def _room(size: int, dtype: Any) -> Any:
    """Return work memory; it is freed in stream order, like all memory of the pool."""
    import cupy

    return cupy.empty((max(size, 1),), dtype)


class _Parameters:
    """Parameters of a method in the library's format, such as Jacobi's tolerance and number of
    sweeps.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __enter__(self) -> int:
        from cupy_backends.cuda.libs import cusolver

        self._made = int(getattr(cusolver, f"create{self._kind}")())
        return self._made

    def __exit__(self, *_: object) -> None:
        from cupy_backends.cuda.libs import cusolver

        getattr(cusolver, f"destroy{self._kind}")(self._made)


def _solver(function: str, dtype: Any, of_complex: str = "") -> Callable[..., Any]:
    """Return cuSOLVER's function for a dtype; `of_complex` is the function's name for complex
    numbers, if it is different.
    """
    from cupy_backends.cuda.libs import cusolver

    name = of_complex if of_complex and dtype.kind == "c" else function
    return getattr(cusolver, _LETTERS[dtype.char] + name)  # type: ignore[no-any-return]


def _blas(function: str, dtype: Any) -> Callable[..., Any]:
    """Return cuBLAS's function for a dtype."""
    from cupy_backends.cuda.libs import cublas

    return getattr(cublas, _LETTERS[dtype.char] + function)  # type: ignore[no-any-return]


def _solver_handle() -> int:
    import cupy

    return int(cupy.cuda.device.get_cusolver_handle())


def _blas_handle() -> int:
    import cupy

    return int(cupy.cuda.device.get_cublas_handle())

"""Calls of cuSOLVER and cuBLAS for stacks of matrices: factors, triangles, spectra.

Both read memory in column order. A stack is (count, columns, rows) in C order: its rows are the
library's columns, so `rows` and `columns` are the library's terms. Results overwrite the inputs;
pivots count from 1, and `info`, int32, is 0 or LAPACK's.

Everything is queued on the current stream of the current device, without waiting: singular matrices
are detected on the GPU. Where a library has a call for many matrices, and CuPy found it faster,
that call is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ..launch import address_of

# cublasFillMode_t, cublasSideMode_t, cublasOperation_t and cusolverEigMode_t of CUDA's headers.
_LOWER, _UPPER = 0, 1
_RIGHT: Final = 1
_AS_IT_IS: Final = 0
_NO_VECTORS, _VECTORS = 0, 1
# The libraries' first letter of a function, by NumPy's of a dtype.
_LETTERS: Final = {"f": "s", "d": "d", "F": "c", "D": "z"}
# cudaDataType_t, by the same.
_DATA_TYPES: Final = {"f": 0, "d": 1, "F": 4, "D": 5}
_MOST_JACOBI: Final = 32  # rows and columns of what Jacobi's methods take many at a time


def potrf(stack: Any, info: Any, *, lower: bool) -> None:
    """Write Cholesky's factor of each matrix over one of its triangles, the only one that is read;
    the other one is left.
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
    """Write L, below a diagonal of ones that is left out, and U over each matrix.

    Shape   (count, columns, rows); pivots (count, the smaller one)
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
    """Write the X of A @ X = B over right, by what getrf made of A.

    Shape   (count, n, n), (count, n), (count, columns of B, n)
    """
    count, n, _ = factors.shape
    columns, dtype = right.shape[1], factors.dtype
    if _is_for_one_call(factors):
        given, sought = _pointers(factors), _pointers(right)
        status = np.zeros(1, np.int32)  # the host's: of the arguments alone
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
    """Write the X of X @ A = B over right; of A the other triangle is not read.

    Shape   (count, n, n), (count, n, rows of B)
    """
    count, n, rows = right.shape
    dtype, handle = right.dtype, _blas_handle()
    factor = np.ones(1, dtype)  # read by the host during the call
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
    vectors, as columns, over the matrices, of which one triangle is read.
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
    """Return whether cuSOLVER has geev, which it has from CUDA 12.6 on."""
    from cupyx.cusolver import check_availability

    return bool(check_availability("geev"))


def geev(stack: Any, values: Any, right: Any, info: Any, *, vectors: bool) -> None:
    """Write the eigenvalues of any matrices, which are overwritten, into values, and with `vectors`
    the vectors, as columns, into right. For real matrices the complex values come in pairs, a
    positive imaginary part first, and vectors of a pair are real and imaginary part of its first.

    Shape   (count, n, n), (count, n), (count, n, n)
    Note    the library works on the host as well: no documentation says whether it may still do so
            when the call has returned, so the memory that it is given there stays
    """
    from cupy_backends.cuda.libs import cusolver

    n, handle = stack.shape[1], _solver_handle()
    kind, of_values = _DATA_TYPES[stack.dtype.char], _DATA_TYPES[values.dtype.char]
    how = _NO_VECTORS, _VECTORS if vectors else _NO_VECTORS, n, kind

    def where(matrix: int, found: int, columns: int) -> tuple[int, ...]:
        # Left eigenvectors are not computed.
        return matrix, n, of_values, found, kind, columns, n, kind, columns, n, kind

    places = list(zip(*map(_starts, (stack, values, right)), strict=True))
    with _Parameters("Params") as parameters:
        sizes = cusolver.xgeev_bufferSize(handle, parameters, *how, *where(*places[0]))
        work = _room(sizes[0], np.dtype(np.uint8))
        of_host = _host_room(handle, sizes[1])
        rooms = address_of(work), sizes[0], of_host, sizes[1]
        for place, status in zip(places, _starts(info), strict=True):
            cusolver.xgeev(handle, parameters, *how, *where(*place), *rooms, status)


# By handle (each thread has its own), stream and size.
_host_rooms: Final[dict[tuple[int, int, int], Any]] = {}


def _host_room(handle: int, size: int) -> int:
    """Return the address of pinned memory, the same for all calls of a stream that take about as
    much: they follow each other.
    """
    import cupy

    room = 1 << max(size - 1, 0).bit_length()
    key = handle, int(cupy.cuda.get_current_stream().ptr), room
    if key not in _host_rooms:
        _host_rooms[key] = cupy.cuda.alloc_pinned_memory(room)
    return int(_host_rooms[key].ptr)


def gesvd(stack: Any, left: Any, values: Any, right: Any, info: Any) -> None:
    """Write U, S and V.H of each matrix, over which is written, into left, values and right, or S
    alone where left and right are None.

    Shape   (count, columns, rows), (count, rows or columns, rows), (count, columns),
            (count, columns, columns); there are no fewer rows than columns
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
    """Do as gesvd, for many small matrices at a time."""
    import cupy

    count, columns, rows = stack.shape
    dtype, handle = stack.dtype, _solver_handle()
    # It has room for whole matrices, asked for or not, and V instead of V.H.
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
    """Write R and, below its diagonal, the vectors of the reflections whose product is Q over each
    matrix, and their scales.

    Shape   (count, columns, rows), (count, the smaller one)
    """
    _, columns, rows = stack.shape
    dtype, handle, info = stack.dtype, _solver_handle(), _room(1, np.dtype(np.int32))
    size = _solver("geqrf_bufferSize", dtype)(handle, rows, columns, address_of(stack), rows)
    work = _room(size, dtype)
    one = _solver("geqrf", dtype)
    for matrix, found in zip(_starts(stack), _starts(scales), strict=True):
        one(handle, rows, columns, matrix, rows, found, address_of(work), size, address_of(info))


def orgqr(stack: Any, scales: Any) -> None:
    """Write the columns of Q over the reflections that geqrf left in the first ones.

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
    """Return whether CuPy would factor a stack by one call: its measure of small enough."""
    count, n, _ = stack.shape
    return bool(count > 1 and n * n <= 65536 * count)


def _starts(stack: Any) -> list[int]:
    """Return the address of each matrix, row or number of an array in C order."""
    start, count = address_of(stack), stack.shape[0]
    step = stack.nbytes // count
    return [start + place * step for place in range(count)]


def _pointers(stack: Any) -> Any:
    """Return these addresses on the device, made there."""
    import cupy

    start, count = address_of(stack), stack.shape[0]
    step = stack.nbytes // count
    return cupy.arange(start, start + count * step, step, np.dtype(np.uintp))


def _room(size: int, dtype: Any) -> Any:
    """Return memory to work in: freed in the order of the stream, as all of the pool's."""
    import cupy

    return cupy.empty((max(size, 1),), dtype)


class _Parameters:
    """Parameters of a method other than matrices, such as Jacobi's tolerance and sweeps, as the
    library stores them.
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
    """Return cuSOLVER's function for a dtype; some have another name for complex numbers."""
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

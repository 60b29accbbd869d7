"""cuSOLVER's and cuBLAS's matrix functions, implemented with the CPU's LAPACK and BLAS.

Parameters have CuPy's names and order. As in the real libraries, matrices are column-major, pivots
are counted from 1, and functions with a work area are first queried for its size. Inputs and
outputs must be in memory of the pool, so a wrong leading dimension is detected. Work areas, and
values that the libraries leave undefined, are NaN afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.linalg

from tests.fibre_shim.cupy import Memory, queue, seen

BLAS_HANDLE, SOLVER_HANDLE = 0x88, 0x99
DTYPES = {letter: np.dtype(kind) for letter, kind in zip("sdcz", "fdFD", strict=True)}
MOST_JACOBI = 32


def _at(start: int, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Return an array in Fortran order: its first axis varies fastest."""
    dtype = np.dtype(dtype)
    steps = [dtype.itemsize]
    for length in shape[:-1]:
        steps.append(steps[-1] * length)
    size = int(np.prod(shape)) * dtype.itemsize
    assert Memory.holds(start, size), "memory of the pool"
    return seen(SimpleNamespace(ptr=start), shape, dtype, steps)


def _matrix(start: int, rows: int, columns: int, lead: int, dtype: Any) -> np.ndarray:
    assert lead >= max(1, rows), "a column ends before the next one begins"
    return _at(start, (lead, columns), dtype)[:rows]


def _stack(start: int, rows: int, columns: int, count: int, dtype: Any) -> list[np.ndarray]:
    whole = _at(start, (rows, columns, count), dtype)
    return [whole[..., place] for place in range(count)]


def _pointed(start: int, count: int) -> list[int]:
    return [int(one) for one in _at(start, (count,), np.uintp)]


def _of(name: str, matrix: np.ndarray) -> Callable[..., Any]:
    (found,) = scipy.linalg.get_lapack_funcs((name,), (matrix,))
    return found  # type: ignore[no-any-return]


def _factor(a: np.ndarray, uplo: int) -> int:
    """Write the Cholesky factor into one triangle of `a`; return LAPACK's `info`."""
    assert uplo in (0, 1)
    found, info = _of("potrf", a)(np.asfortranarray(a), lower=uplo == 0, clean=0)
    np.copyto(a, found)
    return int(info)


def _swap_and_factor(a: np.ndarray, pivots: np.ndarray) -> int:
    found, swaps, info = _of("getrf", a)(np.asfortranarray(a))
    np.copyto(a, found)
    np.copyto(pivots, swaps + 1)
    return int(info)


def _solve(a: np.ndarray, pivots: np.ndarray, b: np.ndarray, trans: int) -> None:
    given = np.asfortranarray(a)
    with np.errstate(all="ignore"):
        found, _ = _of("getrs", a)(given, pivots - 1, np.asfortranarray(b), trans=trans)
    np.copyto(b, found)


def _factor_of(alpha: int, dtype: np.dtype[Any]) -> Any:
    """Return a scalar in host memory, which is read during the call."""
    return seen(SimpleNamespace(ptr=alpha), (1,), dtype, (dtype.itemsize,))[0]


def _spectrum(a: np.ndarray, values: np.ndarray, uplo: int, jobz: int) -> int:
    """Write eigenvalues to `values`, and eigenvectors or NaN to `a`; return `info`."""
    assert np.isfinite(a).all(), "a method that goes on until it is done"
    found, vectors = np.linalg.eigh(a, "U" if uplo else "L")
    np.copyto(values, found)
    np.copyto(a, vectors if jobz else np.nan)
    return 0


def _decompose(a: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    assert np.isfinite(a).all(), "a method that goes on until it is done"
    found = np.linalg.svd(a)
    a[...] = np.nan
    return found


class _Functions:
    """The functions of both libraries for one dtype."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype, self.real = dtype, np.dtype(dtype.char.lower())

    def _worked(self, work: int, lwork: int, needed: int) -> None:
        assert lwork >= needed, "the buffer must have the queried size"
        _at(work, (lwork,), self.dtype)[...] = np.nan

    def _infos(self, start: int, count: int = 1) -> np.ndarray:
        return _at(start, (count,), np.int32)

    # cuSOLVER

    def potrf_bufferSize(self, handle: int, uplo: int, n: int, A: int, lda: int) -> int:
        assert handle == SOLVER_HANDLE and lda >= n
        return 3 * n

    def potrf(
        self, handle: int, uplo: int, n: int, A: int, lda: int, work: int, lwork: int, devInfo: int
    ) -> None:
        a, info = _matrix(A, n, n, lda, self.dtype), self._infos(devInfo)
        self._worked(work, lwork, self.potrf_bufferSize(handle, uplo, n, A, lda))
        queue(lambda: info.fill(_factor(a, uplo)))

    def potrfBatched(
        self, handle: int, uplo: int, n: int, Aarray: int, lda: int, infoArray: int, batchSize: int
    ) -> None:
        assert handle == SOLVER_HANDLE
        infos = self._infos(infoArray, batchSize)

        def factor() -> None:
            for place, one in enumerate(_pointed(Aarray, batchSize)):
                infos[place] = _factor(_matrix(one, n, n, lda, self.dtype), uplo)

        queue(factor)

    def getrf_bufferSize(self, handle: int, m: int, n: int, A: int, lda: int) -> int:
        assert handle == SOLVER_HANDLE and lda >= m
        return m + 2 * n

    def getrf(
        self, handle: int, m: int, n: int, A: int, lda: int, work: int, devIpiv: int, devInfo: int
    ) -> None:
        size = self.getrf_bufferSize(handle, m, n, A, lda)
        self._worked(work, size, size)
        a, info = _matrix(A, m, n, lda, self.dtype), self._infos(devInfo)
        pivots = _at(devIpiv, (min(m, n),), np.int32)
        queue(lambda: info.fill(_swap_and_factor(a, pivots)))

    def getrs(
        self, handle: int, trans: int, n: int, nrhs: int, A: int, lda: int, devIpiv: int, B: int,
        ldb: int, devInfo: int,
    ) -> None:  # fmt: skip
        assert handle == SOLVER_HANDLE
        a, b = _matrix(A, n, n, lda, self.dtype), _matrix(B, n, nrhs, ldb, self.dtype)
        pivots, info = _at(devIpiv, (n,), np.int32), self._infos(devInfo)
        queue(lambda: (info.fill(0), _solve(a, pivots, b, trans)))

    def syevd_bufferSize(
        self, handle: int, jobz: int, uplo: int, n: int, A: int, lda: int, W: int
    ) -> int:
        assert handle == SOLVER_HANDLE and lda >= n and jobz in (0, 1) and uplo in (0, 1)
        return 2 * n + 1

    def syevd(
        self, handle: int, jobz: int, uplo: int, n: int, A: int, lda: int, W: int, work: int,
        lwork: int, info: int,
    ) -> None:  # fmt: skip
        size = self.syevd_bufferSize(handle, jobz, uplo, n, A, lda, W)
        self._worked(work, lwork, size)
        a, values = _matrix(A, n, n, lda, self.dtype), _at(W, (n,), self.real)
        told = self._infos(info)
        queue(lambda: told.fill(_spectrum(a, values, uplo, jobz)))

    def syevjBatched_bufferSize(
        self, handle: int, jobz: int, uplo: int, n: int, A: int, lda: int, W: int, params: int,
        batchSize: int,
    ) -> int:  # fmt: skip
        assert params == PARAMETERS["SyevjInfo"], "made, and not destroyed"
        return batchSize * self.syevd_bufferSize(handle, jobz, uplo, n, A, lda, W)

    def syevjBatched(
        self, handle: int, jobz: int, uplo: int, n: int, A: int, lda: int, W: int, work: int,
        lwork: int, info: int, params: int, batchSize: int,
    ) -> None:  # fmt: skip
        size = self.syevjBatched_bufferSize(handle, jobz, uplo, n, A, lda, W, params, batchSize)
        self._worked(work, lwork, size)
        assert n == lda <= MOST_JACOBI
        stack = _stack(A, n, n, batchSize, self.dtype)
        values, infos = _at(W, (n, batchSize), self.real), self._infos(info, batchSize)
        each = list(zip(stack, values.T, strict=True))
        queue(lambda: np.copyto(infos, [_spectrum(a, w, uplo, jobz) for a, w in each]))

    def gesvd_bufferSize(self, handle: int, m: int, n: int) -> int:
        assert handle == SOLVER_HANDLE and m >= n, "gesvd needs at least as many rows as columns"
        return 5 * m

    def gesvd(
        self, handle: int, jobu: int, jobvt: int, m: int, n: int, A: int, lda: int, S: int, U: int,
        ldu: int, VT: int, ldvt: int, Work: int, lwork: int, rwork: int, devInfo: int,
    ) -> None:  # fmt: skip
        self._worked(Work, lwork, self.gesvd_bufferSize(handle, m, n))
        assert jobu == jobvt and chr(jobu) in "ASN" and rwork == 0
        a, values = _matrix(A, m, n, lda, self.dtype), _at(S, (n,), self.real)
        info = self._infos(devInfo)
        places = []
        if jobu != ord("N"):
            columns = m if jobu == ord("A") else n
            places = [_matrix(U, m, columns, ldu, self.dtype), _matrix(VT, n, n, ldvt, self.dtype)]

        def decompose() -> None:
            u, s, right = _decompose(a)
            np.copyto(values, s)
            info.fill(0)
            for place, found in zip(places, (u, right), strict=False):
                np.copyto(place, found[:, : place.shape[1]])

        queue(decompose)

    def gesvdjBatched_bufferSize(
        self, handle: int, jobz: int, m: int, n: int, A: int, lda: int, S: int, U: int, ldu: int,
        V: int, ldv: int, params: int, batchSize: int,
    ) -> int:  # fmt: skip
        assert handle == SOLVER_HANDLE and jobz in (0, 1)
        assert params == PARAMETERS["GesvdjInfo"], "made, and not destroyed"
        return batchSize * (m + n)

    def gesvdjBatched(
        self, handle: int, jobz: int, m: int, n: int, A: int, lda: int, S: int, U: int, ldu: int,
        V: int, ldv: int, work: int, lwork: int, info: int, params: int, batchSize: int,
    ) -> None:  # fmt: skip
        where = A, lda, S, U, ldu, V, ldv, params, batchSize
        self._worked(work, lwork, self.gesvdjBatched_bufferSize(handle, jobz, m, n, *where))
        assert max(m, n) <= MOST_JACOBI and (lda, ldu, ldv) == (m, m, n)
        stack = _stack(A, m, n, batchSize, self.dtype)
        values = _at(S, (min(m, n), batchSize), self.real)
        lefts = _stack(U, m, m, batchSize, self.dtype)
        rights = _stack(V, n, n, batchSize, self.dtype)
        infos = self._infos(info, batchSize)

        def decompose() -> None:
            for a, sizes, left, right in zip(stack, values.T, lefts, rights, strict=True):
                u, s, turned = _decompose(a)
                np.copyto(sizes, s)
                np.copyto(left, u if jobz else np.nan)
                np.copyto(right, turned.T.conj() if jobz else np.nan)
            infos.fill(0)

        queue(decompose)

    def geqrf_bufferSize(self, handle: int, m: int, n: int, A: int, lda: int) -> int:
        assert handle == SOLVER_HANDLE and lda >= m
        return 4 * n

    def geqrf(
        self, handle: int, m: int, n: int, A: int, lda: int, tau: int, work: int, lwork: int,
        devInfo: int,
    ) -> None:  # fmt: skip
        self._worked(work, lwork, self.geqrf_bufferSize(handle, m, n, A, lda))
        a, scales = _matrix(A, m, n, lda, self.dtype), _at(tau, (min(m, n),), self.dtype)
        info = self._infos(devInfo)

        def factor() -> None:
            found, factors, _, told = _of("geqrf", a)(np.asfortranarray(a))
            np.copyto(a, found)
            np.copyto(scales, factors)
            info.fill(told)

        queue(factor)

    def orgqr_bufferSize(
        self, handle: int, m: int, n: int, k: int, A: int, lda: int, tau: int
    ) -> int:
        assert handle == SOLVER_HANDLE and lda >= m >= n >= k
        return 4 * n

    def orgqr(
        self, handle: int, m: int, n: int, k: int, A: int, lda: int, tau: int, work: int,
        lwork: int, devInfo: int,
    ) -> None:  # fmt: skip
        self._worked(work, lwork, self.orgqr_bufferSize(handle, m, n, k, A, lda, tau))
        a, scales = _matrix(A, m, n, lda, self.dtype), _at(tau, (k,), self.dtype)
        info = self._infos(devInfo)

        def multiply() -> None:
            name = "ungqr" if self.dtype.kind == "c" else "orgqr"
            found, _, told = _of(name, a)(np.asfortranarray(a), scales)
            np.copyto(a, found)
            info.fill(told)

        queue(multiply)

    # cuBLAS

    def getrfBatched(
        self, handle: int, n: int, Aarray: int, lda: int, PivotArray: int, infoArray: int,
        batchSize: int,
    ) -> None:  # fmt: skip
        assert handle == BLAS_HANDLE
        pivots = _at(PivotArray, (n, batchSize), np.int32).T
        infos = self._infos(infoArray, batchSize)

        def factor() -> None:
            for place, one in enumerate(_pointed(Aarray, batchSize)):
                a = _matrix(one, n, n, lda, self.dtype)
                infos[place] = _swap_and_factor(a, pivots[place])

        queue(factor)

    def getrsBatched(
        self, handle: int, trans: int, n: int, nrhs: int, Aarray: int, lda: int, devIpiv: int,
        Barray: int, ldb: int, info: int, batchSize: int,
    ) -> None:  # fmt: skip
        assert handle == BLAS_HANDLE
        pivots = _at(devIpiv, (n, batchSize), np.int32).T
        # info is in host memory, and set immediately.
        seen(SimpleNamespace(ptr=info), (1,), np.dtype(np.int32), (4,))[...] = 0

        def solve() -> None:
            both = zip(_pointed(Aarray, batchSize), _pointed(Barray, batchSize), strict=True)
            for swaps, (a, b) in zip(pivots, both, strict=True):
                sought = _matrix(b, n, nrhs, ldb, self.dtype)
                _solve(_matrix(a, n, n, lda, self.dtype), swaps, sought, trans)

        queue(solve)

    def trsm(
        self, handle: int, side: int, uplo: int, trans: int, diag: int, m: int, n: int, alpha: int,
        A: int, lda: int, B: int, ldb: int,
    ) -> None:  # fmt: skip
        assert handle == BLAS_HANDLE
        factor = _factor_of(alpha, self.dtype)
        how = side, uplo, trans, diag, m, n, factor
        queue(lambda: self._solve_triangle(*how, A, lda, B, ldb))

    def trsmBatched(
        self, handle: int, side: int, uplo: int, trans: int, diag: int, m: int, n: int, alpha: int,
        Aarray: int, lda: int, Barray: int, ldb: int, batchCount: int,
    ) -> None:  # fmt: skip
        factor = _factor_of(alpha, self.dtype)

        def solve() -> None:
            for a, b in zip(
                _pointed(Aarray, batchCount), _pointed(Barray, batchCount), strict=True
            ):
                self._solve_triangle(side, uplo, trans, diag, m, n, factor, a, lda, b, ldb)

        assert handle == BLAS_HANDLE
        queue(solve)

    def _solve_triangle(
        self, side: int, uplo: int, trans: int, diag: int, m: int, n: int, factor: Any,
        A: int, lda: int, B: int, ldb: int,
    ) -> None:  # fmt: skip
        inner = n if side else m
        a, b = _matrix(A, inner, inner, lda, self.dtype), _matrix(B, m, n, ldb, self.dtype)
        (solve,) = scipy.linalg.get_blas_funcs(("trsm",), (a, b))
        given, right = np.asfortranarray(a), np.asfortranarray(b)
        np.copyto(b, solve(factor, given, right, side, uplo == 0, trans, diag))


DATA_TYPES = {0: np.dtype("f"), 1: np.dtype("d"), 4: np.dtype("F"), 5: np.dtype("D")}


def _xgeev_bufferSize(
    handle: int, params: int, jobvl: int, jobvr: int, n: int, dataTypeA: int, A: int, lda: int,
    dataTypeW: int, W: int, dataTypeVL: int, VL: int, ldvl: int, dataTypeVR: int, VR: int,
    ldvr: int, computeType: int,
) -> tuple[int, int]:  # fmt: skip
    assert handle == SOLVER_HANDLE and params == PARAMETERS["Params"], "made, and not destroyed"
    assert jobvl == 0 and jobvr in (0, 1), "vectors on the right, or none"
    assert dataTypeA == dataTypeVL == dataTypeVR == computeType
    assert DATA_TYPES[dataTypeW] == np.dtype(DATA_TYPES[dataTypeA].char.upper())
    return 8 * n + 3, 40 * n + 1


def _xgeev(
    handle: int, params: int, jobvl: int, jobvr: int, n: int, dataTypeA: int, A: int, lda: int,
    dataTypeW: int, W: int, dataTypeVL: int, VL: int, ldvl: int, dataTypeVR: int, VR: int,
    ldvr: int, computeType: int, bufferOnDevice: int, sizeOnDevice: int, bufferOnHost: int,
    sizeOnHost: int, info: int,
) -> None:  # fmt: skip
    sizes = _xgeev_bufferSize(
        handle, params, jobvl, jobvr, n, dataTypeA, A, lda, dataTypeW, W, dataTypeVL, VL, ldvl,
        dataTypeVR, VR, ldvr, computeType,
    )  # fmt: skip
    assert (sizeOnDevice, sizeOnHost) == sizes, "the buffer must have the queried size"
    a, values = _matrix(A, n, n, lda, DATA_TYPES[dataTypeA]), _at(W, (n,), DATA_TYPES[dataTypeW])
    right = _matrix(VR, n, n, ldvr, DATA_TYPES[dataTypeVR])
    told, work = _at(info, (1,), np.int32), _at(bufferOnDevice, (sizeOnDevice,), np.uint8)
    of_host = seen(SimpleNamespace(ptr=bufferOnHost), (sizeOnHost,), np.dtype(np.uint8), (1,))

    def decompose() -> None:
        assert np.isfinite(a).all(), "a method that goes on until it is done"
        # For a real matrix, LAPACK returns a complex eigenvector as two real columns, like
        # cuSOLVER.
        *found, _, vectors, failed = _of("geev", a)(np.asfortranarray(a), compute_vl=0)
        np.copyto(values, found[0] if len(found) == 1 else found[0] + 1j * found[1])
        np.copyto(right, vectors if jobvr else np.nan)
        a[...] = np.nan
        for room in (work, of_host):
            room.fill(0xFF)
        told.fill(failed)

    queue(decompose)


# The number of live parameter objects, by kind.
PARAMETERS: dict[str, int] = {}


def _make(kind: str) -> int:
    assert kind not in PARAMETERS, "one at a time"
    return PARAMETERS.setdefault(kind, 0x70 + len(kind))


def _destroy(kind: str, made: int) -> None:
    assert PARAMETERS.pop(kind) == made


def _names(*functions: str) -> dict[str, Callable[..., Any]]:
    """Return functions by their full names, for each dtype.

    For complex dtypes, syevd and orgqr have other names.
    """
    others = {"syev": "heev", "orgqr": "ungqr"}
    found = {}
    for letter, dtype in DTYPES.items():
        all_of_it = _Functions(dtype)
        for name in functions:
            other = name
            for real, of_complex in others.items():
                other = other.replace(real, of_complex) if dtype.kind == "c" else other
            found[letter + other] = getattr(all_of_it, name)
    return found


cusolver = SimpleNamespace(
    **_names("potrf_bufferSize", "potrf", "potrfBatched", "getrf_bufferSize", "getrf", "getrs"),
    **_names("syevd_bufferSize", "syevd", "syevjBatched_bufferSize", "syevjBatched"),
    **_names("gesvd_bufferSize", "gesvd", "gesvdjBatched_bufferSize", "gesvdjBatched"),
    **_names("geqrf_bufferSize", "geqrf", "orgqr_bufferSize", "orgqr"),
    xgeev_bufferSize=_xgeev_bufferSize,
    xgeev=_xgeev,
    createParams=lambda: _make("Params"),
    destroyParams=lambda made: _destroy("Params", made),
    createSyevjInfo=lambda: _make("SyevjInfo"),
    createGesvdjInfo=lambda: _make("GesvdjInfo"),
    destroySyevjInfo=lambda made: _destroy("SyevjInfo", made),
    destroyGesvdjInfo=lambda made: _destroy("GesvdjInfo", made),
)
cublas = _names("getrfBatched", "getrsBatched", "trsm", "trsmBatched")

"""LDL factors of symmetric matrices with NumPy alone, for devices whose libraries have no LDL.

Source  Bunch and Kaufman 1977, "Some stable methods for calculating inertia and solving symmetric
        linear systems"; the result is stored as by LAPACK's sytrf and hetrf, in the lower
        triangle
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]

_ALPHA: Final = (1 + 17**0.5) / 8


def valid_pivots(pivots: Array) -> bool:
    """Return whether the pivots of one matrix are, up to their signs, row numbers counted from 1,
    and negative pivots come in pairs. LAPACK uses pivots as indices and does not check them.
    """
    n, k = len(pivots), 0
    sizes = np.abs(pivots.astype(np.int64))
    if sizes.min(initial=1) < 1 or sizes.max(initial=0) > n:
        return False
    while k < n:
        if pivots[k] > 0:
            k += 1
        elif k + 1 < n and pivots[k + 1] < 0:
            k += 2
        else:
            return False
    return True


def factor(x: Array, hermitian: bool) -> tuple[Array, Array, int]:
    """Return the LDL factors of one matrix, the pivots, and the number of the first zero pivot (0
    if there is none). The factors are one array: L, with D on and next to L's diagonal. Only the
    lower triangle of the matrix is read.
    """
    with np.errstate(all="ignore"):
        return _factor(np.tril(x), hermitian and np.iscomplexobj(x))


def _factor(a: Array, hermitian: bool) -> tuple[Array, Array, int]:
    n, k, info = len(a), 0, 0
    pivots = np.zeros(n, np.int32)
    if hermitian:
        np.fill_diagonal(a, a.diagonal().real)
    while k < n:
        place, step = _pivot(a, k)
        if place < 0:
            info, place = info or k + 1, k
            pivots[k] = k + 1
            k += 1
            continue
        row = k + step - 1
        if place != row:
            _swap(a, k, row, place, hermitian)
        if step == 1:
            pivots[k] = place + 1
        else:
            pivots[k : k + 2] = -(place + 1)
        _eliminate(a, k, step, hermitian)
        k += step
    return a, pivots, info


def _size(x: Array) -> Array:
    found: Array = np.abs(x.real) + np.abs(x.imag)
    return found


def _pivot(a: Array, k: int) -> tuple[int, int]:
    """Return the row of the next pivot and the size of the pivot's block, 1 or 2. The row is
    negative if there is no pivot.
    """
    first = float(_size(a[k, k]))
    column = _size(a[k + 1 :, k])
    largest = float(column.max()) if len(column) else 0.0
    if not max(first, largest) > 0:
        return -1, 1
    if first >= _ALPHA * largest:
        return k, 1
    row = k + 1 + int(column.argmax())
    others = float(np.append(_size(a[row, k:row]), _size(a[row + 1 :, row])).max())
    if first * others >= _ALPHA * largest * largest:
        return k, 1
    if float(_size(a[row, row])) >= _ALPHA * others:
        return row, 1
    return row, 2


def _swap(a: Array, k: int, row: int, place: int, hermitian: bool) -> None:
    """Swap two rows and the same two columns of `a`, from index k on."""
    a[place + 1 :, [row, place]] = a[place + 1 :, [place, row]]
    below, beside = a[row + 1 : place, row].copy(), a[place, row + 1 : place].copy()
    if hermitian:
        below, beside = below.conj(), beside.conj()
        a[place, row] = a[place, row].conj()
    a[row + 1 : place, row], a[place, row + 1 : place] = beside, below
    a[row, row], a[place, place] = a[place, place], a[row, row]
    if row > k:
        a[row, k], a[place, k] = a[place, k], a[row, k]


def _eliminate(a: Array, k: int, step: int, hermitian: bool) -> None:
    after = k + step
    left = a[after:, k:after]
    by = _times_inverse(left, a[k:after, k:after], hermitian)
    turned = left.conj().T if hermitian else left.T
    a[after:, after:] -= np.tril(by @ turned)
    if hermitian:
        rest = a[after:, after:]
        np.fill_diagonal(rest, rest.diagonal().real)
    a[after:, k:after] = by


def _block(d: Array, hermitian: bool) -> Array:
    """Return a block of D with both triangles, given the block's lower triangle `d`."""
    if len(d) == 1:
        return d
    above = d[1, 0].conj() if hermitian else d[1, 0]
    return np.array([[d[0, 0], above], [d[1, 0], d[1, 1]]])


def _times_inverse(x: Array, d: Array, hermitian: bool) -> Array:
    whole = _block(d, hermitian)
    return x / whole[0, 0] if len(d) == 1 else np.linalg.solve(whole.T, x.T).T


def solve(factors: Array, pivots: Array, b: Array, hermitian: bool) -> Array:
    """Return the solution x of a @ x = b, given the results of factor(a); NaN for a zero pivot."""
    if not valid_pivots(pivots):
        return np.full_like(b, np.nan)
    with np.errstate(all="ignore"):
        return _solve(factors, pivots, b.copy(), hermitian and np.iscomplexobj(factors))


def _solve(a: Array, pivots: Array, x: Array, hermitian: bool) -> Array:
    starts, k = [], 0
    while k < len(pivots):
        step = 1 if pivots[k] > 0 else 2
        starts.append((k, step))
        last = k + step - 1
        _swap_rows(x, last, abs(int(pivots[last])) - 1)
        after = k + step
        x[after:] -= a[after:, k:after] @ x[k:after]
        d = _block(a[k:after, k:after], hermitian)
        x[k:after] = x[k:after] / d[0, 0] if step == 1 else _solved(d, x[k:after])
        k = after
    for k, step in reversed(starts):
        after = k + step
        turned = a[after:, k:after].T
        x[k:after] -= (turned.conj() if hermitian else turned) @ x[after:]
        last = k + step - 1
        _swap_rows(x, last, abs(int(pivots[last])) - 1)
    return x


def _solved(d: Array, b: Array) -> Array:
    try:
        return np.linalg.solve(d, b)
    except np.linalg.LinAlgError:
        return np.full_like(b, np.nan)


def _swap_rows(x: Array, one: int, other: int) -> None:
    if one != other:
        x[[one, other]] = x[[other, one]]

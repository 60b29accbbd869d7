"""The loops over rows of scores in attention: those that kernels of whole rows run, and NumPy's.

NumPy's loops and products are used while the loops of attention_loops are being compiled.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from fastdist.random_numbers import philox

from ..rows import numpy_rows
from ..silence import silent

Array = np.ndarray[Any, Any]
# The types of two functions. Run is a loop over whole rows, with the arguments (operands, rows, row
# length). Hide overwrites the elements of keys that a row does not see.
Run = Callable[[tuple[Array, ...], int, int], None]
Hide = Callable[[Array, int, float], None]


class Tools(NamedTuple):
    """The functions that attention uses. `loop` returns a loop by its name: attention_kernels.loop
    describes the loops. The others are single-threaded matrix products, as in `product`.
    `serves_threads` is whether several threads may use these functions.
    """

    loop: Callable[[str], Callable[..., Any]]
    multiply: Callable[..., None]
    lay: Callable[..., Any]
    multiply_laid: Callable[[Array, Any, Array], None]
    serves_threads: bool


def _weights(run: Run, hide: Hide) -> Callable[..., None]:
    def weights(scores: Array, first: int, share: Array, log_sum: Array) -> None:
        rows, keys = scores.shape
        if first < keys:
            hide(scores, first, -math.inf)
        run((scores, share, log_sum), rows, keys)

    return weights


def _scaled(run: Run, hide: Hide) -> Callable[..., None]:
    def scaled(x: Array, share: Array) -> None:
        rows, columns = x.shape
        run((x, share), rows, columns)

    return scaled


def _slopes(run: Run, hide: Hide) -> Callable[..., None]:
    def slopes(scores: Array, first: int, log_sum: Array, by_weights: Array) -> None:
        rows, keys = scores.shape
        if first < keys:
            hide(scores, first, -math.inf)
        run((scores, by_weights, log_sum), rows, keys)
        if first < keys:
            hide(by_weights, first, 0.0)

    return slopes


def _slopes_of_kept(run: Run, hide: Hide) -> Callable[..., None]:
    def slopes_of_kept(weights: Array, first: int, by_weights: Array) -> None:
        rows, keys = weights.shape
        run((by_weights, weights, by_weights), rows, keys)
        if first < keys:
            hide(by_weights, first, 0.0)

    return slopes_of_kept


# For each name: the kernel of row_steps, and the function that makes the loop from this kernel.
OF_ROWS: Final[dict[str, tuple[str, Callable[[Run, Hide], Callable[..., None]]]]] = {
    "weights": ("weights", _weights),
    "scaled": ("scaled", _scaled),
    "slopes": ("slopes", _slopes),
    "slopes_of_kept": ("softmax_gradient", _slopes_of_kept),
}


def _hide(matrix: Array, first: int, value: float) -> None:
    rows, keys = matrix.shape
    matrix[np.arange(keys) >= first + np.arange(rows)[:, None]] = value


@silent
def _masked(scores: Array, mask: Array, blind: Array) -> None:
    given = np.where(mask, 0.0, -np.inf).astype(scores.dtype) if mask.dtype == bool else mask
    np.add(scores, given, out=scores)
    blind[:] = (given == -np.inf).all(1)
    scores[blind] = 0


_OF_ROWS: Final = {
    name: make(functools.partial(numpy_rows.run, kernel), _hide)
    for name, (kernel, make) in OF_ROWS.items()
}


def _stays(
    shape: tuple[int, int], place: int, room: Array, words: Array, seed: int, below: int,
    scale: float,
) -> Array:  # fmt: skip
    """Return the dropout factors of the weights of some rows."""
    rows, keys = shape
    drawn = philox.words32(seed, place, rows * words.size).reshape(rows, -1)[:, :keys]
    return np.where(drawn >= below, scale, 0.0)


@silent
def _thinning(out: Array, *drawn: Any) -> None:
    np.copyto(out, _stays(out.shape, *drawn), casting="unsafe")


@silent
def _thinned_weights(scores: Array, first: int, share: Array, log_sum: Array, *drawn: Any) -> None:
    _OF_ROWS["weights"](scores, first, share, log_sum)
    np.multiply(scores, _stays(scores.shape, *drawn), out=scores, casting="unsafe")


@silent
def _thinned_slopes(
    scores: Array, first: int, log_sum: Array, even: Array, by_weights: Array, *drawn: Any
) -> None:
    stays = _stays(scores.shape, *drawn)
    weights = np.exp(scores - log_sum[:, None])
    np.copyto(scores, weights * stays, casting="unsafe")
    np.copyto(by_weights, weights * (by_weights * stays - even[:, None]), casting="unsafe")
    for one in (scores, by_weights):
        _hide(one, first, 0.0)


_LOOPS: Final[dict[str, Callable[..., Any]]] = {
    **_OF_ROWS,
    "masked": _masked,
    "masked_by_bool": _masked,
    "thinning": _thinning,
    "thinned_weights": _thinned_weights,
    "thinned_slopes": _thinned_slopes,
}


@silent
def _multiply(a: Array, b: Array, to: Array, *, adds: bool = False) -> None:
    if adds:
        np.add(to, np.matmul(a, b), out=to)
    else:
        np.matmul(a, b, out=to)


def _lay(b: Array, *, turned: bool = False) -> Array:
    return b.T if turned else b


@silent
def _multiply_laid(a: Array, b: Array, to: Array) -> None:
    np.matmul(a, b[: a.shape[1], : to.shape[1]], out=to)


BY_NUMPY: Final = Tools(_LOOPS.__getitem__, _multiply, _lay, _multiply_laid, False)

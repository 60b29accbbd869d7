"""The compiled loops of attention by name: loaded without Numba where the cache has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..jit.kernel_cache import find_function
from ..jit.waiting import compiling
from ..rows.row_kernels import row_loop
from .attention_rows import OF_ROWS

_found: dict[tuple[str, str], Callable[..., Any]] = {}


def loop(name: str, dtype: str) -> Callable[..., Any]:
    """Return the loop of a name, for float32 or float64.

    weights(scores, first, share, log_sum) writes exp(score - highest of its row) over scores, into
    share the factors of the rows' weights, and the logarithms of the sums of exp(score).
    scaled(x, share) multiplies rows by the numbers of share.
    slopes(scores, first, log_sum, by_weights) writes weights over scores, and their slopes by
    scores over those of the loss by weights.
    slopes_of_kept(weights, first, by_weights) writes the same slopes, from weights that are kept.
    masked(scores, mask, blind) adds a mask of numbers, of as many rows or of one for all, and
    reports the rows in which it is -inf throughout: their scores become 0. masked_by_bool takes
    -inf for False.
    hide(matrix, first, value) puts value where row i sees nothing.
    thinned_weights and thinned_slopes write weights after dropout; the latter also takes, after
    log_sum, the term that all slopes of a row share. thinning(out) writes the factors of dropout,
    for rows that see all keys.
    """
    found = _found.get((name, dtype))
    if found is None:
        with compiling(f"{name} of attention in {dtype}"):
            found = _found.get((name, dtype))
            if found is None:
                make = _of_rows if name in OF_ROWS else _entry
                found = _found[name, dtype] = make(name, dtype)
    return found


def _of_rows(name: str, dtype: str) -> Callable[..., None]:
    kernel, make = OF_ROWS[name]

    def hide(matrix: Any, first: int, value: float) -> None:
        loop("hide", dtype)(matrix, first, value)

    return make(row_loop(kernel, dtype).alone, hide)  # type: ignore[attr-defined]


def _entry(name: str, dtype: str) -> Callable[..., Any]:
    return find_function("nn.attention_loops", "entry", name, dtype)

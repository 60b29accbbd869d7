"""The compiled loops of attention by name, loaded without Numba if they are stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..jit.kernel_cache import find_function
from ..jit.waiting import compiling
from ..rows.row_kernels import row_loop
from .attention_rows import OF_ROWS

_found: dict[tuple[str, str], Callable[..., Any]] = {}


def loop(name: str, dtype: str) -> Callable[..., Any]:
    """Return the loop with this name, for float32 or float64.

    weights(scores, first, share, log_sum) overwrites scores with exp(score - maximum of its row).
    It writes the factor that turns a row into weights into share, and log(sum(exp(score))) into
    log_sum. scaled(x, share) multiplies each row of x by its number in share.

    slopes(scores, first, log_sum, by_weights) overwrites scores with the weights. It overwrites
    by_weights, which has the gradients by the weights, with the gradients by the scores.
    slopes_of_kept(weights, first, by_weights) writes the same gradients into by_weights, from
    weights that were kept.

    masked(scores, mask, blind) adds a mask that has one row, or as many rows as scores. If the
    mask is -inf in a whole row, `masked` sets blind to True and the scores to 0 for this row.
    masked_by_bool treats False as -inf. hide(matrix, first, value) writes value at all keys that
    a row does not see.

    thinned_weights and thinned_slopes write weights after dropout; thinned_slopes also takes,
    after log_sum, the term that all gradients of a row share. thinning(out) writes the dropout
    factors, for rows that see all keys.
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

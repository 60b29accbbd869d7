"""The compiled loops over rows of scores: weights from scores, and gradients from weights.

These loops handle the causal mask and dropout; the kernels of row_steps do the work for whole rows,
see attention_rows. Row i of a block sees the first `first + i` keys, or all keys if there are
fewer. Keys that a row does not see have the score -inf, and the weight 0.

With dropout, loops draw the random words of a row before they use the words: see Note [Dropout by
counting] in random_numbers/philox.py. Such a loop takes six more arguments: the block number of the
first row's words, memory for the words of one row as blocks, the same memory as a vector, the
stream's seed, the word below which a weight is dropped, and the factor for the other weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numba
import numpy as np

from ..create.philox_loops import block
from ..jit import machine
from ..jit.compiler import compiled, entry_point
from ..jit.machine import select
from ..pointwise.vector_math import functions

_SUMS: Final = {"reassoc", "contract"}


def entry(name: str, dtype: str) -> Callable[..., Any]:
    """Return the compiled loop with this name; attention_kernels.loop describes it."""
    number = getattr(numba, dtype)
    matrix, row = number[:, ::1], number[::1]
    kind = name.removeprefix("thinned_")
    given = {
        "hide": (matrix, numba.int64, number),
        "weights": (matrix, numba.int64, row, row),
        "slopes": (matrix, numba.int64, row, row, matrix),
        "thinning": (matrix,),
        "masked": (matrix, matrix, numba.boolean[::1]),
        "masked_by_bool": (matrix, numba.boolean[:, ::1], numba.boolean[::1]),
    }[kind]
    if kind != name or name == "thinning":
        word = numba.uint32
        given = (*given, numba.uint64, word[:, ::1], word[::1], numba.uint64, word, number)
    return entry_point(_MAKERS[name](dtype), given)


@compiled(inline=True)
def _draw(place: Any, seed: Any, room: Any, count: Any) -> None:
    """Write the random words of a row's first `count` weights into room."""
    for at in range((count + 3) // 4):
        block(place + np.uint64(at), seed, np.uint64(0), room, at)


@compiled(inline=True, fastmath=_SUMS)
def _sum(row: Any) -> Any:
    total = 0.0
    for j in range(len(row)):
        total += row[j]
    return total


def _hide(dtype: str) -> Any:
    @compiled("scaled_dot_product_attention")
    def hide(matrix: Any, first: Any, value: Any) -> None:
        for i in range(matrix.shape[0]):
            row = matrix[i]
            for j in range(first + i, len(row)):
                row[j] = value

    return hide


def _thinned_weights(dtype: str) -> Any:
    exp, log = functions(dtype)["exp"], functions(dtype)["log"]
    is_32 = dtype == "float32"
    number, integer = (np.float32, np.int32) if is_32 else (np.float64, np.int64)
    bits_of = machine.bits_of_float32 if is_32 else machine.bits_of_float64
    of_bits = machine.float32_of_bits if is_32 else machine.float64_of_bits
    sign, zero, one = integer(31 if is_32 else 63), number(0), number(1)
    rest, least = integer(np.iinfo(integer).max), integer(np.iinfo(integer).min)

    @compiled(inline=True)
    def as_integer(bits: Any) -> Any:
        """Map the bits of floats to integers of the same order; the map is its own inverse."""
        return integer(bits ^ integer(integer(bits >> sign) & rest))

    @compiled(inline=True)
    def of_row(row: Any, hidden: Any) -> Any:
        # LLVM vectorizes the maximum of integers; as integers, NaN are ordered as well.
        highest = least
        for j in range(len(row)):
            highest = max(highest, as_integer(bits_of(row[j])))
        top = of_bits(as_integer(highest))
        for j in range(len(row)):
            row[j] = exp(row[j] - top)
        for j in range(len(hidden)):
            hidden[j] = zero
        total = number(_sum(row))
        return one / total, top + log(total)

    @compiled("scaled_dot_product_attention with dropout")
    def thinned_weights(
        scores: Any, first: Any, share: Any, log_sum: Any, place: Any, room: Any, words: Any,
        seed: Any, below: Any, scale: Any,
    ) -> None:  # fmt: skip
        for i in range(scores.shape[0]):
            whole = scores[i]
            row = whole[: first + i]
            share[i], log_sum[i] = of_row(row, whole[first + i :])
            _draw(place + np.uint64(i * len(room)), seed, room, len(row))
            for j in range(len(row)):
                row[j] *= select(words[j] >= below, scale, zero)

    return thinned_weights


def _thinned_slopes(dtype: str) -> Any:
    exp, zero = functions(dtype)["exp"], np.dtype(dtype).type(0)

    @compiled("the gradient of scaled_dot_product_attention with dropout")
    def thinned_slopes(
        scores: Any, first: Any, log_sum: Any, even: Any, by_weights: Any, place: Any, room: Any,
        words: Any, seed: Any, below: Any, scale: Any,
    ) -> None:  # fmt: skip
        for i in range(scores.shape[0]):
            whole, towards = scores[i], by_weights[i]
            row, hidden = whole[: first + i], whole[first + i :]
            known, unknown = towards[: first + i], towards[first + i :]
            most, common = log_sum[i], even[i]
            _draw(place + np.uint64(i * len(room)), seed, room, len(row))
            for j in range(len(row)):
                weight, kept = exp(row[j] - most), select(words[j] >= below, scale, zero)
                row[j] = weight * kept
                known[j] = weight * (known[j] * kept - common)
            for j in range(len(hidden)):
                hidden[j] = zero
                unknown[j] = zero

    return thinned_slopes


def _thinning(dtype: str) -> Any:
    zero = np.dtype(dtype).type(0)

    @compiled("scaled_dot_product_attention with dropout")
    def thinning(
        out: Any, place: Any, room: Any, words: Any, seed: Any, below: Any, scale: Any
    ) -> None:
        for i in range(out.shape[0]):
            row = out[i]
            _draw(place + np.uint64(i * len(room)), seed, room, len(row))
            for j in range(len(row)):
                row[j] = select(words[j] >= below, scale, zero)

    return thinning


def _masked(dtype: str, by_bool: bool = False) -> Any:
    number = np.dtype(dtype).type
    zero, low, closed, one = number(0), number(-np.inf), np.int32(0), np.int32(1)

    @compiled(inline=True)
    def added(given: Any) -> Any:
        return select(given, zero, low) if by_bool else given

    @compiled("scaled_dot_product_attention with a mask")
    def masked(scores: Any, mask: Any, blind: Any) -> None:
        several = len(mask) > 1
        for i in range(scores.shape[0]):
            row, given = scores[i], mask[i if several else 0]
            # An integer instead of a bool, so that LLVM vectorizes the sum.
            seen = closed
            for j in range(len(row)):
                more = added(given[j])
                seen += select(more == low, closed, one)
                row[j] += more
            blind[i] = seen == closed
            if seen == closed:
                for j in range(len(row)):
                    row[j] = zero

    return masked


_MAKERS: Final[dict[str, Callable[[str], Any]]] = {
    "hide": _hide,
    "thinned_weights": _thinned_weights,
    "thinned_slopes": _thinned_slopes,
    "thinning": _thinning,
    "masked": _masked,
    "masked_by_bool": lambda dtype: _masked(dtype, by_bool=True),
}

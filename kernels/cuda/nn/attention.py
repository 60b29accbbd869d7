"""Scaled dot-product attention and its gradient, on CUDA arrays.

If the inputs fit the tiles of attention_tiles.py, attention is one launch, and its gradient is two,
unless the gradient by a mask is needed. Other inputs are processed in blocks of queries: cuBLAS
computes the products of all heads together, and one launch over the rows of scores runs between two
products. A block's scores fit a GPU's L2 cache, so they are hardly written to memory, and no matrix
of all queries by all keys is made. For half types, scores and products that are summed are float32,
because in float16 they may exceed 65504.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from fastdist.core.dtypes import WIDE
from fastdist.language.scalar import parse
from fastdist.random_numbers import philox

from ..launch import C_TYPES, Launch, computing_type, int64_fields, launch, text_of
from ..layout import element_strides
from ..linalg.library_product import laid_out, transposed
from ..linalg.product import multiply_wide
from ..pointwise.pointwise import pointwise
from ..prepared import PreparedTable, on_device_of_out, only_launches
from ..reduce import reductions
from ..rows import rows_header, shared
from .attention_tiles import BY_KEY, BY_QUERY, TILES, Numbers, plan_attend, plan_gradient, tiles_for

# The number of scores in a block, for all heads: 32 MiB of float32. A block has at least _FEWEST
# rows of each head, so that each product is worth its launch.
_BLOCK: Final = 1 << 23
_FEWEST: Final = 64
_SCALED: Final = parse("x * y", ("x", "y"))
_SUM: Final = parse("x + y", ("x", "y"))
_SAME: Final = parse("x", ("x",))


class _Block(NamedTuple):
    """Some queries of each head, and the keys that the last of these queries sees."""

    rows: slice
    keys: slice

    @property
    def height(self) -> int:
        return int(self.rows.stop - self.rows.start)


class _Task(NamedTuple):
    """The arguments that all blocks of a call share; see attention for the shapes."""

    query: Any
    key: Any
    value: Any
    mask: Any | None
    seed: Any | None
    factor: float
    is_causal: bool
    dropout: float
    learns: bool = False

    def blocks(self) -> Iterator[_Block]:
        """Yield the blocks. The last queries come first. If is_causal, they see the most keys, so
        the first term of a sum over blocks has all the rows that the sum needs.
        """
        n, heads, queries, _ = self.query.shape
        keys = self.key.shape[2]
        height = max(_BLOCK // (n * heads * keys), _FEWEST)
        for end in range(queries, 0, -height):
            seen = min(end, keys) if self.is_causal else keys
            yield _Block(slice(max(end - height, 0), end), slice(seen))

    def of_block(self, x: Any, block: _Block, factor: float | None = None) -> Any:
        """Return the rows of x in a block, times factor, as (n, k, rows, columns) in C order. The
        heads of query that share a head of key are joined: their rows are one after the other.
        """
        import cupy

        rows = x[:, :, block.rows]
        made = cupy.empty(rows.shape, x.dtype)
        if factor is None:
            pointwise(_SAME, [rows], made)
        else:
            pointwise(_SCALED, [rows, _number(factor, x)], made)
        n, heads, height, columns = rows.shape
        kept = self.key.shape[1]
        return made.reshape((n, kept, heads // kept * height, columns))

    def scores(self, block: _Block) -> tuple[Any, Any]:
        """Return the scores (n, k, rows, keys) and the queries of a block. Either the queries are
        multiplied by `factor`, or the products are.
        """
        is_later = self.of_products != 1.0
        query = self.of_block(self.query, block, None if is_later else self.factor)
        keys = transposed(self.key[:, :, block.keys])
        return multiply_wide(query, keys, self.of_products), query

    @property
    def of_products(self) -> float:
        """Return the factor for products with queries. For half types it is `factor`, because
        multiplying the queries would round them. For other types it is 1.
        """
        return self.factor if self.query.dtype in WIDE else 1.0

    def numbers(self, scores: Any, block: _Block) -> tuple[Any, int]:
        """Return the arguments of kernels over the rows of a block, and the number of rows."""
        _, heads, queries, _ = self.query.shape
        keys = scores.shape[3]
        rows, lanes = scores.size // keys, shared(keys).lanes
        steps = [0] * 4
        if self.mask is not None:
            counts = zip(element_strides(self.mask), self.mask.shape, strict=True)
            steps = [step if count > 1 else 0 for step, count in counts]
        start = block.rows.start
        of_heads = queries, block.height, start, heads
        flags = self.is_causal, self.mask is not None, self.value.shape[3], self.learns
        drops = _drops(self.key.shape[2], self.dropout)
        return int64_fields(rows, keys, lanes, *of_heads, *flags, *drops, *steps), rows

    def source(self, keys: int) -> str:
        """Return the CUDA source of the kernels for rows of this many keys."""
        mask, drops = None if self.mask is None else self.mask.dtype, self.seed is not None
        return source_of_attention(self.query.dtype, mask, shared(keys).held, drops=drops)


def _drops(keys: int, dropout: float) -> tuple[int, int, int]:
    """Return the dropout arguments of kernels."""
    below, scale = philox.drops_below(dropout)
    return keys, below, int(np.float64(scale).view(np.int64))


@on_device_of_out
def attention(
    query: Any,
    key: Any,
    value: Any,
    mask: Any | None,
    seed: Any | None,
    out: Any,
    log_sum: Any,
    kept: Any,
    factor: float,
    is_causal: bool,
    dropout: float,
) -> None:
    """Write dropout(softmax(query @ key.T * factor + mask)) @ value into out. Write the logarithms
    of the sums of exp(score) into log_sum, which is float32 if the other arrays have a half type.

    query: (n, h, l, e); key: (n, k, s, e); value: (n, k, s, v); mask: broadcasts to (n, h, l, s),
    and is bool or is added; seed: (1,), int64, or None without dropout; out: (n, h, l, v);
    log_sum: (n, h, l); kept: unused here (the CPU stores weights in it), because a GPU recomputes
    weights about as fast as it reads them. Each head of key is used by h / k heads of query. A
    query for which the mask hides all keys gives zeros in out, and inf in log_sum.

    Thread  any; queued on the current stream of out's device
    """
    if not (log_sum.size and key.shape[2]):
        out.fill(0)
        log_sum.fill(math.inf)
        return
    mask = _in_four_axes(mask)
    if tiles_for(TILES, query, key, value) is not None:
        numbers = Numbers(factor, is_causal, dropout)
        attending(numbers).run(query, key, value, mask, seed, out, log_sum)
        return
    key, value = laid_out(key), laid_out(value)
    task = _Task(query, key, value, mask, seed, factor, is_causal, dropout)
    for block in task.blocks():
        scores, _ = task.scores(block)
        weights = _stored(scores, query)
        launch(plan_weights(task, scores, weights, log_sum, block))
        made = multiply_wide(weights, value[:, :, block.keys])
        some = out[:, :, block.rows]
        pointwise(_SAME, [made.reshape(some.shape)], some)


@functools.lru_cache(maxsize=256)
def attending(numbers: Numbers) -> PreparedTable:
    """Return the prepared launches of attention in tiles, for these scalar arguments."""

    @only_launches
    def kernel(query: Any, key: Any, value: Any, mask: Any, seed: Any, *into: Any) -> None:
        out, log_sum = into
        launch(plan_attend(query, key, value, mask, seed, (out, log_sum), numbers))

    return PreparedTable(kernel)


@functools.lru_cache(maxsize=256)
def going_back(numbers: Numbers) -> PreparedTable:
    """Return the prepared launches of attention's gradient in tiles, for these scalar arguments."""

    @only_launches
    def kernel(g: Any, query: Any, key: Any, value: Any, mask: Any, seed: Any, *rest: Any) -> None:
        result, log_sum, *into = rest
        given, made, (out, by_key, by_value) = (query, key, value), (result, log_sum), into
        launch(plan_gradient(g, given, mask, seed, made, (out, by_key, by_value), numbers))

    return PreparedTable(kernel)


def _in_four_axes(mask: Any) -> Any:
    """Return a mask with leading axes of size 1 added, up to four axes."""
    return mask if mask is None or mask.ndim == 4 else mask[(None,) * (4 - mask.ndim)]


def _stored(scores: Any, like: Any) -> Any:
    """Return memory for scores in the dtype of `like`, in which they are operands of products:
    `scores` if it has this dtype, otherwise new memory.
    """
    import cupy

    return scores if scores.dtype == like.dtype else cupy.empty(scores.shape, like.dtype)


def plan_weights(
    task: _Task, scores: Any, weights: Any, log_sum: Any, block: _Block
) -> list[Launch]:
    """Return the launch that computes weights from the scores of a block."""
    fields, rows = task.numbers(scores, block)
    keys = scores.shape[3]
    arguments = scores, weights, *_given(task, log_sum), log_sum, fields
    return [Launch(task.source(keys), "weights", shared(keys).grid(rows), arguments)]


def _given(task: _Task, other: Any) -> list[Any]:
    # A missing array is not read, but a pointer must be passed for it.
    return [other if one is None else one for one in (task.mask, task.seed)]


@on_device_of_out
def attention_gradient(
    g: Any,
    query: Any,
    key: Any,
    value: Any,
    mask: Any | None,
    seed: Any | None,
    result: Any,
    log_sum: Any,
    kept: Any,
    out: Any,
    by_key: Any,
    by_value: Any,
    by_mask: Any,
    factor: float,
    is_causal: bool,
    dropout: float,
) -> None:
    """Write the gradients of attention by query, key, value and mask into out, by_key, by_value and
    by_mask.

    Shapes as in attention; g has the shape of result, which is in C order; by_mask has the shape of
    mask, or is empty if the gradient by the mask is not needed.

    Thread  any; queued on the current stream of out's device
    """
    if not (log_sum.size and key.shape[2]):
        for one in (out, by_key, by_value, by_mask):
            one.fill(0)
        return
    learns, mask, by_mask = by_mask.size > 0, *map(_in_four_axes, (mask, by_mask))
    fits = all(tiles_for(kinds, query, key, value) is not None for kinds in (BY_QUERY, BY_KEY))
    if fits and not learns:
        numbers, arrays = Numbers(factor, is_causal, dropout), (g, query, key, value, mask, seed)
        going_back(numbers).run(*arrays, result, log_sum, out, by_key, by_value)
        return
    key, value = laid_out(key), laid_out(value)
    task = _Task(query, key, value, mask, seed, factor, is_causal, dropout, learns)
    sums = _Sum(by_key), _Sum(by_value)
    by_mask.fill(0)
    for block in task.blocks():
        scores, queries = task.scores(block)
        towards = task.of_block(g, block)
        by_weights = multiply_wide(towards, transposed(value[:, :, block.keys]))
        made = _stored(scores, query), _stored(by_weights, query)
        launch(plan_slopes(task, (scores, by_weights), made, (towards, result), log_sum, block))
        if task.learns:
            _add_slopes(by_weights.reshape((*out.shape[:2], block.height, -1)), by_mask, block)
        weights, slopes = made
        found = multiply_wide(slopes, key[:, :, block.keys])
        some = out[:, :, block.rows]
        pointwise(_SCALED, [found.reshape(some.shape), _number(factor, some)], some)
        sums[0].add(multiply_wide(transposed(slopes), queries, task.of_products))
        sums[1].add(multiply_wide(transposed(weights), towards))
    for one in sums:
        one.store()


def plan_slopes(
    task: _Task, scores: Any, made: Any, rows_of: Any, log_sum: Any, block: _Block
) -> list[Launch]:
    """Return the launch that computes the weights of a block from its scores, and the gradients by
    the scores from the gradients by the weights. `rows_of` has the block's rows of g, and the
    result of attention.
    """
    fields, rows = task.numbers(scores[0], block)
    keys = scores[0].shape[3]
    arguments = *scores, *made, *rows_of, *_given(task, log_sum), log_sum, fields
    return [Launch(task.source(keys), "slopes", shared(keys).grid(rows), arguments)]


def _add_slopes(slopes: Any, by_mask: Any, block: _Block) -> None:
    """Add the gradients of a block's scores, (n, h, rows, keys), to by_mask, which may have size 1
    along any axis. If by_mask has one row, all blocks add to the same elements.
    """
    import cupy

    to = by_mask if by_mask.shape[2] == 1 else by_mask[:, :, block.rows]
    axes = tuple([axis for axis in range(4) if to.shape[axis] < slopes.shape[axis]])
    if axes:
        kept = [slopes.shape[axis] for axis in range(4) if axis not in axes]
        found = cupy.empty(tuple(kept), to.dtype)
        reductions.sum(slopes, found, axes)
        slopes = found.reshape(to.shape)
    pointwise(_SUM, [to, slopes], to)


@only_launches
def thinning(seed: Any, out: Any, dropout: float) -> None:
    """Write the dropout factors of weights, 0 or 1 / (1 - dropout), into out, (..., l, s).

    Thread  any; queued on the current stream of out's device
    """
    launch(plan_thinning(seed, out, dropout))


def plan_thinning(seed: Any, out: Any, dropout: float) -> list[Launch]:
    """Return the launch of thinning; no launch if out is empty."""
    if not out.size:
        return []
    keys = out.shape[-1]
    rows, sharing = out.size // keys, shared(keys)
    fields = int64_fields(rows, keys, sharing.lanes, *[0] * 8, *_drops(keys, dropout), *[0] * 4)
    source = source_of_attention(out.dtype, drops=True)
    return [Launch(source, "thinning", sharing.grid(rows), (out, seed, fields))]


class _Sum:
    """The sum of one matrix per block, rounded only when it is stored in an array at the end."""

    def __init__(self, to: Any) -> None:
        self._to = to
        self._so_far: Any = None

    def add(self, matrix: Any) -> None:
        """Add a matrix to the first rows of the sum; the first matrix has all rows."""
        if self._so_far is None:
            self._so_far = matrix
            return
        some = self._so_far[:, :, : matrix.shape[2]]
        pointwise(_SUM, [some, matrix], some)

    def store(self) -> None:
        """Write the sum to the array, and zeros to the rows of keys that no query sees."""
        rows = self._so_far.shape[2]
        pointwise(_SAME, [self._so_far], self._to[:, :, :rows])
        if rows < self._to.shape[2]:
            self._to[:, :, rows:].fill(0)


def _number(number: float, like: Any) -> Any:
    return np.asarray(number, WIDE.get(like.dtype, like.dtype))


@functools.lru_cache(maxsize=128)
def source_of_attention(
    dtype: np.dtype[Any],
    mask: np.dtype[Any] | None = None,
    held: int = 0,
    *,
    drops: bool = False,
) -> str:
    """Return the CUDA source for dtypes of weights and masks. A thread holds `held` elements of a
    row in registers; `drops` says whether there is dropout.
    """
    kinds = [dtype] if mask is None or mask == np.bool_ else [dtype, mask]
    real = computing_type(dtype)
    return f"""{rows_header(kinds, real, held)}
typedef {C_TYPES[dtype]} Stored;
typedef {real if mask is None else C_TYPES[mask]} Mask;
constexpr bool DROPS = {str(drops).lower()};
{text_of("headers/philox.cuh", "nn/attention.cuh", "nn/attention.cu")}"""

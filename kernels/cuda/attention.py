"""Scaled dot product attention and its gradient, on CUDA arrays, a block of queries at a time.

Products are cuBLAS's, of all heads at once; what lies between them is one launch over the rows of
scores. A block's scores fit the second-level cache of a GPU, so that they hardly reach memory, and
no matrix of all queries by all keys is made.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from fastdist.core.dtypes import WIDE
from fastdist.core.scalar import parse

from .launch import C_TYPES, Launch, computing_type, int64_fields, launch, text_of
from .layout import element_strides
from .pointwise import pointwise
from .prepared import on_device_of_out
from .rows import rows_header, shared

# Numbers of a block of scores, of all heads: 32 MiB of float32. At least _FEWEST rows of each head,
# for which a product is worth its start.
_BLOCK: Final = 1 << 23
_FEWEST: Final = 64
_SCALED: Final = parse("x * y", ("x", "y"))
_SUM: Final = parse("x + y", ("x", "y"))
_SAME: Final = parse("x", ("x",))


class _Block(NamedTuple):
    """Some queries of each head, and the keys that the last of them sees."""

    rows: slice
    keys: slice

    @property
    def height(self) -> int:
        return int(self.rows.stop - self.rows.start)


class _Task(NamedTuple):
    """What all blocks of a call have in common; see the shapes of attention."""

    query: Any
    key: Any
    value: Any
    mask: Any | None
    factor: float
    is_causal: bool

    def blocks(self) -> Iterator[_Block]:
        """Yield the blocks, the last queries first: they see the most keys if is_causal, so that a
        sum of blocks begins with one that has all that it will have.
        """
        n, heads, queries, _ = self.query.shape
        keys = self.key.shape[2]
        height = max(_BLOCK // (n * heads * keys), _FEWEST)
        for end in range(queries, 0, -height):
            seen = min(end, keys) if self.is_causal else keys
            yield _Block(slice(max(end - height, 0), end), slice(seen))

    def of_block(self, x: Any, block: _Block, factor: float | None = None) -> Any:
        """Return x's rows of a block, times factor, those of heads that share one of key below each
        other: (n, k, rows, columns) in C order.
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
        """Return the scores of a block, (n, k, rows, keys), and the queries that they are of."""
        import cupy

        query = self.of_block(self.query, block, self.factor)
        return cupy.matmul(query, _turned(self.key[:, :, block.keys])), query

    def numbers(self, scores: Any, block: _Block) -> tuple[Any, int]:
        """Return what kernels over the rows of a block are told, and how many are a grid."""
        _, heads, queries, _ = self.query.shape
        keys = scores.shape[3]
        rows, lanes = scores.size // keys, shared(keys).lanes
        steps = (0, 0, 0, 0) if self.mask is None else element_strides(self.mask)
        start = block.rows.start
        of_heads = queries, block.height, start, heads
        flags = self.is_causal, self.mask is not None, self.value.shape[3]
        return int64_fields(rows, keys, lanes, *of_heads, *flags, *steps), rows

    def source(self, keys: int) -> str:
        """Return the text of the kernels over rows of so many keys."""
        mask = None if self.mask is None else self.mask.dtype
        return source_of_attention(self.query.dtype, mask, shared(keys).held)


@on_device_of_out
def attention(
    query: Any,
    key: Any,
    value: Any,
    mask: Any | None,
    out: Any,
    log_sum: Any,
    factor: float,
    is_causal: bool,
) -> None:
    """Write softmax(query @ key.T * factor + mask) @ value into out, and the logarithms of the sums
    of exp(score) beside it, in float32 where the others are of a half type.

    query: (n, h, l, e); key: (n, k, s, e); value: (n, k, s, v); mask: (n, h, l, s), of bool or to
    be added; out: (n, h, l, v); log_sum: (n, h, l). A head of key serves h / k heads of query. A
    query that a mask has see nothing gets zeros, and inf for its logarithm.

    Thread  any; queued on the current stream of out's device
    """
    import cupy

    if not (log_sum.size and key.shape[2]):
        out.fill(0)
        log_sum.fill(math.inf)
        return
    task = _Task(query, key, value, mask, factor, is_causal)
    for block in task.blocks():
        scores, _ = task.scores(block)
        launch(plan_weights(task, scores, log_sum, block))
        made = cupy.matmul(scores, value[:, :, block.keys])
        some = out[:, :, block.rows]
        pointwise(_SAME, [made.reshape(some.shape)], some)


def plan_weights(task: _Task, scores: Any, log_sum: Any, block: _Block) -> list[Launch]:
    """Return the launch that makes weights of the scores of a block."""
    fields, rows = task.numbers(scores, block)
    keys = scores.shape[3]
    # What is not there is not read, but something must stand for it.
    mask = log_sum if task.mask is None else task.mask
    arguments = scores, mask, log_sum, fields
    return [Launch(task.source(keys), "weights", shared(keys).grid(rows), arguments)]


@on_device_of_out
def attention_gradient(
    g: Any,
    query: Any,
    key: Any,
    value: Any,
    mask: Any | None,
    result: Any,
    log_sum: Any,
    out: Any,
    by_key: Any,
    by_value: Any,
    factor: float,
    is_causal: bool,
) -> None:
    """Write the gradient of attention by query into out, those by key and value beside it.

    Shapes as there; g as result, which is in C order.

    Thread  any; queued on the current stream of out's device
    """
    import cupy

    if not (log_sum.size and key.shape[2]):
        for one in (out, by_key, by_value):
            one.fill(0)
        return
    task = _Task(query, key, value, mask, factor, is_causal)
    sums = _Sum(by_key), _Sum(by_value)
    for block in task.blocks():
        weights, queries = task.scores(block)
        towards = task.of_block(g, block)
        slopes = cupy.matmul(towards, _turned(value[:, :, block.keys]))
        launch(plan_slopes(task, weights, slopes, towards, result, log_sum, block))
        made = cupy.matmul(slopes, key[:, :, block.keys])
        some = out[:, :, block.rows]
        pointwise(_SCALED, [made.reshape(some.shape), _number(factor, some)], some)
        sums[0].add(cupy.matmul(_turned(slopes), queries))
        sums[1].add(cupy.matmul(_turned(weights), towards))
    for one in sums:
        one.store()


def plan_slopes(
    task: _Task, scores: Any, towards: Any, g: Any, result: Any, log_sum: Any, block: _Block
) -> list[Launch]:
    """Return the launch that makes weights of the scores of a block, and slopes of `towards`."""
    fields, rows = task.numbers(scores, block)
    keys = scores.shape[3]
    mask = log_sum if task.mask is None else task.mask
    arguments = scores, towards, g, result, mask, log_sum, fields
    return [Launch(task.source(keys), "slopes", shared(keys).grid(rows), arguments)]


class _Sum:
    """The sum of blocks' matrices, which goes to an array: of a half type not before the end."""

    def __init__(self, to: Any) -> None:
        self._to = to
        self._so_far: Any = None

    def add(self, matrix: Any) -> None:
        """Add a matrix to the first rows; the first one has all of them."""
        if self._so_far is None:
            self._so_far = matrix
            return
        import cupy

        wide = WIDE.get(matrix.dtype, matrix.dtype)
        if self._so_far.dtype != wide:
            self._so_far = self._so_far.astype(wide)
        some = self._so_far[:, :, : matrix.shape[2]]
        matrix = matrix if matrix.dtype == wide else cupy.ascontiguousarray(matrix).astype(wide)
        pointwise(_SUM, [some, matrix], some)

    def store(self) -> None:
        """Write the sum to where it goes, and zeros below: keys that no query sees."""
        rows = self._so_far.shape[2]
        pointwise(_SAME, [self._so_far], self._to[:, :, :rows])
        if rows < self._to.shape[2]:
            self._to[:, :, rows:].fill(0)


def _turned(x: Any) -> Any:
    return x.transpose((0, 1, 3, 2))


def _number(number: float, like: Any) -> Any:
    return np.asarray(number, WIDE.get(like.dtype, like.dtype))


@functools.lru_cache(maxsize=64)
def source_of_attention(
    dtype: np.dtype[Any], mask: np.dtype[Any] | None = None, held: int = 0
) -> str:
    """Return the text for scores of a floating dtype, masks of one, and so many elements of a row
    in the registers of a thread.
    """
    kinds = [dtype] if mask is None or mask == np.bool_ else [dtype, mask]
    real = computing_type(dtype)
    return f"""{rows_header(kinds, real, held)}
typedef {C_TYPES[dtype]} Stored;
typedef {real if mask is None else C_TYPES[mask]} Mask;
{text_of("attention.cu")}"""

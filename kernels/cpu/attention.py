"""Scaled dot product attention and its gradient, on the CPU, a block of queries at a time.

The scores of a block lie in memory that stays in cache and serves the next block, so no matrix of
all queries by all keys is made: beside its results a call needs what one block does. Products are
those of `product`; what lies between them are loops over rows, in attention_loops. Threads take
whole heads of key, and all heads that share a mask whose gradient is wanted, so results are the
same for any number of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from fastdist.core import philox

from .product import multiply, multiply_turned
from .silence import silent

Array = np.ndarray[Any, Any]

# Numbers of a block of scores: 256 KiB of float32, which the second-level cache holds beside the
# keys and values of a head. At least _FEWEST rows, for which the products are worth their start.
_BLOCK: Final = 65536
_FEWEST: Final = 16
# Multiply-adds of one product from which on heads are shared among threads.
_FOR_THREADS: Final = 1 << 25


class _Block(NamedTuple):
    """Some queries of one head: their rows, which keys they see, and how many the first does."""

    rows: slice
    keys: slice
    first: int


def _blocks(queries: int, keys: int, is_causal: bool) -> Iterator[_Block]:
    """Yield the blocks of a head, the last queries first: they see the most keys if is_causal."""
    height = max(_BLOCK // max(keys, 1), _FEWEST)
    for end in range(queries, 0, -height):
        begin = max(end - height, 0)
        seen = min(end, keys) if is_causal else keys
        yield _Block(slice(begin, end), slice(seen), begin + 1 if is_causal else keys)


def _lots(samples: int, kept: int, by_mask: Array | None = None) -> list[list[tuple[int, int]]]:
    """Return the heads of key, as sample and head, in lots that threads may take at once: alone, or
    with all others that add to the same numbers of by_mask.
    """
    lots: dict[tuple[int, int], list[tuple[int, int]]] = {}
    apart = [1, 1]
    if by_mask is not None and by_mask.size:
        apart = [int(count > 1) for count in by_mask.shape[:2]]
    for n in range(samples):
        for mine in range(kept):
            lots.setdefault((n * apart[0], mine * apart[1]), []).append((n, mine))
    return list(lots.values())


def _heads(lots: list[list[tuple[int, int]]], groups: int) -> Iterator[tuple[int, int, int]]:
    """Yield sample, head of key and head of query."""
    for lot in lots:
        for n, mine in lot:
            for h in range(mine * groups, (mine + 1) * groups):
                yield n, mine, h


def _matrix_in(room: Array, rows: int, columns: int) -> Array:
    """Return a matrix in the first numbers of room."""
    return room[: rows * columns].reshape(rows, columns)


class _Thinner:
    """What loops are told of the dropout of a call's weights."""

    def __init__(self, seed: Array, dropout: float, keys: int, dtype: np.dtype[Any]) -> None:
        room = np.empty((philox.blocks_for(keys, 1), philox.WORDS), np.uint32)
        below, scale = philox.drops_below(dropout)
        self._blocks, words = len(room), room.reshape(-1)
        self._rest = room, words, int(seed.item()) % (1 << 64), below, float(dtype.type(scale))

    def of(self, row: int) -> tuple[Any, ...]:
        """Return what is told of rows from one of all heads' on."""
        return (row * self._blocks, *self._rest)


class _Given(NamedTuple):
    """What a call is given beside values; see attention for the shapes."""

    query: Array
    key: Array
    mask: Array | None
    seed: Array | None
    factor: float
    dropout: float

    def loop(self, name: str) -> Callable[..., Any]:
        """Return the compiled loop over rows of a name."""
        from .attention_loops import loop

        thinned = "" if self.seed is None else "thinned_"
        return loop(thinned + name, self.query.dtype.name)


class _Scores:
    """Scores of blocks, one after another in the same memory."""

    def __init__(self, given: _Given, alone: bool) -> None:
        self._query, self._key, mask, seed, factor, dropout = given
        query, keys, self._alone = self._query, self._key.shape[2], alone
        self._mask = None if mask is None else np.broadcast_to(mask, (*query.shape[:3], keys))
        self._factor = query.dtype.type(factor)
        count = max(_BLOCK, _FEWEST * keys)
        self.room = np.empty(min(count, query.shape[2] * keys), query.dtype)
        self._thin = None if seed is None else _Thinner(seed, dropout, keys, query.dtype).of

    def thinning(self, n: int, h: int, block: _Block) -> tuple[Any, ...]:
        """Return what a loop over a block's rows is told of dropout."""
        _, heads, queries, _ = self._query.shape
        row = (n * heads + h) * queries + block.rows.start
        return () if self._thin is None else self._thin(row)

    @silent
    def of(self, n: int, h: int, kept: int, block: _Block) -> tuple[Array, Array, Array | None]:
        """Return the scores of a block of head h, whose keys are head kept's, the queries by which
        they were made, and which of these see nothing, if any may not.
        """
        query = np.multiply(self._query[n, h, block.rows], self._factor)
        key = self._key[n, kept, block.keys]
        scores = _matrix_in(self.room, len(query), len(key))
        multiply_turned(query, key, scores, alone=self._alone)
        if self._mask is None:
            return scores, query, None
        mask = self._mask[n, h, block.rows, block.keys]
        if mask.dtype == np.bool_:
            mask = np.where(mask, scores.dtype.type(0), scores.dtype.type(-np.inf))
        blind: Any = np.equal(mask, -np.inf).all(1)
        np.add(scores, mask, out=scores, casting="unsafe")
        scores[blind] = 0
        return scores, query, blind


@silent
def _add_product(a: Array, b: Array, to: Array, room: Array, is_new: bool, alone: bool) -> None:
    """Add a @ b to the first rows of `to`, or, if it is new, write it there and zeros below."""
    some = to[: len(a)]
    if is_new:
        multiply(a, b, some, alone=alone)
        to[len(a) :] = 0
    else:
        multiply(a, b, room[: len(a)], alone=alone)
        np.add(some, room[: len(a)], out=some)


def _share(work: Callable[[range], None], heads: int, cost: int) -> None:
    """Do work for so many heads of key; on several threads where so many multiply-adds pay."""
    threads = 1
    if heads > 1 and cost > _FOR_THREADS:
        from .launch import get_num_threads

        threads = min(get_num_threads(), heads)
    if threads > 1:
        from .launch import share_out

        share_out(work, heads, threads)
    else:
        work(range(heads))


def _add_slopes(slopes: Array, by_mask: Array, n: int, h: int, rows: slice) -> None:
    """Add the slopes of a block of a head to those of a mask, which any axis may share."""
    if not by_mask.size:
        return
    to = by_mask[n % len(by_mask), h % by_mask.shape[1]]
    if len(to) == 1:
        slopes = slopes.sum(0, keepdims=True)
    if to.shape[1] < slopes.shape[1]:
        slopes = slopes.sum(1, keepdims=True)
    some = to if len(to) == 1 else to[rows]
    np.add(some, slopes, out=some)


@silent
def attention(
    query: Array,
    key: Array,
    value: Array,
    mask: Array | None,
    seed: Array | None,
    out: Array,
    log_sum: Array,
    factor: float,
    is_causal: bool,
    dropout: float,
) -> None:
    """Write dropout(softmax(query @ key.T * factor + mask)) @ value into out, and the logarithms of
    the sums of exp(score) beside it.

    query: (n, h, l, e); key: (n, k, s, e); value: (n, k, s, v); mask: broadcasts to (n, h, l, s),
    of bool or to be added; seed: (1,), int64, of what is dropped, None for nothing;
    out: (n, h, l, v); log_sum: (n, h, l). A head of key serves h / k heads of query. A query that a
    mask has see nothing gets zeros, and inf for its logarithm.
    """
    if not (log_sum.size and key.shape[2]):
        out.fill(0)
        log_sum.fill(np.inf)
        return
    given = _Given(query, key, mask, seed, factor, dropout)
    weigh = given.loop("weights")
    (_, heads, queries, width), (samples, kept, keys, _) = query.shape, key.shape
    groups, lots = heads // kept, _lots(samples, kept)
    alone = len(lots) > 1

    def work(part: range) -> None:
        scores_of = _Scores(given, alone)
        share = np.empty(queries, query.dtype)
        for n, mine, h in _heads(lots[part.start : part.stop], groups):
            for block in _blocks(queries, keys, is_causal):
                scores, _, blind = scores_of.of(n, h, mine, block)
                some, to = share[block.rows], out[n, h, block.rows]
                thin = scores_of.thinning(n, h, block)
                weigh(scores, block.first, some, log_sum[n, h, block.rows], *thin)
                if blind is not None:
                    some[blind] = 0
                    log_sum[n, h, block.rows][blind] = np.inf
                multiply(scores, value[n, mine, block.keys], to, alone=alone)
                np.multiply(to, some[:, None], out=to)

    _share(work, len(lots), log_sum.size * keys * width)


@silent
def attention_gradient(
    g: Array,
    query: Array,
    key: Array,
    value: Array,
    mask: Array | None,
    seed: Array | None,
    result: Array,
    log_sum: Array,
    out: Array,
    by_key: Array,
    by_value: Array,
    by_mask: Array,
    factor: float,
    is_causal: bool,
    dropout: float,
) -> None:
    """Write the gradient of attention by query into out, those by key, value and mask beside it.

    Shapes as there; g as result; by_mask as mask, or of no elements where it is not wanted.
    """
    if not (log_sum.size and key.shape[2]):
        for one in (out, by_key, by_value, by_mask):
            one.fill(0)
        return
    given = _Given(query, key, mask, seed, factor, dropout)
    slope = given.loop("slopes")
    (_, heads, queries, width), (samples, kept, keys, _) = query.shape, key.shape
    groups, lots = heads // kept, _lots(samples, kept, by_mask)
    alone = len(lots) > 1
    by_mask.fill(0)

    def work(part: range) -> None:
        scores_of = _Scores(given, alone)
        room, even = np.empty_like(scores_of.room), np.empty(queries, query.dtype)
        more_keys, more_values = np.empty_like(by_key[0, 0]), np.empty_like(by_value[0, 0])
        for n, mine, h in _heads(lots[part.start : part.stop], groups):
            is_new = h == mine * groups
            for block in _blocks(queries, keys, is_causal):
                scores, scaled, _ = scores_of.of(n, h, mine, block)
                towards, to = g[n, h, block.rows], out[n, h, block.rows]
                slopes = _matrix_in(room, *scores.shape)
                multiply_turned(towards, value[n, mine, block.keys], slopes, alone=alone)
                common = even[block.rows]
                np.einsum("ij,ij->i", towards, result[n, h, block.rows], out=common)
                thin = scores_of.thinning(n, h, block)
                slope(scores, block.first, log_sum[n, h, block.rows], common, slopes, *thin)
                _add_slopes(slopes, by_mask, n, h, block.rows)
                _add_product(scores.T, towards, by_value[n, mine], more_values, is_new, alone)
                _add_product(slopes.T, scaled, by_key[n, mine], more_keys, is_new, alone)
                multiply(slopes, key[n, mine, block.keys], to, alone=alone)
                np.multiply(to, to.dtype.type(factor), out=to)
                is_new = False

    _share(work, len(lots), 2 * log_sum.size * keys * width)


@silent
def thinning(seed: Array, out: Array, dropout: float) -> None:
    """Write what dropout multiplies weights by into out, (..., l, s): 0, or 1 / (1 - dropout)."""
    if out.size:
        from .attention_loops import loop

        rows = out.reshape(-1, out.shape[-1])
        thinner = _Thinner(seed, dropout, rows.shape[1], out.dtype)
        loop("thinning", out.dtype.name)(rows, *thinner.of(0))

"""Scaled dot product attention and its gradient, on the CPU, a block of queries at a time.

The scores of a block lie in memory that stays in cache and serves the next block, so no matrix of
all queries by all keys is made: beside its results a call needs what one block does. Products are
those of one thread in `product`; what lies between them are loops over rows, in attention_loops.
Threads take blocks, and of a gradient pieces of which each adds up its own sums, so results are the
same for any number of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from fastdist.core import philox

from .memory import empty
from .product import Laid, lay_turned, multiply_alone, multiply_laid_alone
from .silence import silent

Array = np.ndarray[Any, Any]

# Numbers of a block of scores: 512 KiB of float32, half of a second-level cache. 1 x 8 x 2048 x 64
# there and back takes 336 ms so, 348 with half as many (one core of an AMD EPYC, Zen 4). At least
# _FEWEST rows, for which the products are worth their start.
_BLOCK: Final = 131072
_FEWEST: Final = 16
# Blocks into which queries that see those before them are cut at most, lest each block reckon much
# that it hides, and of how many queries more blocks would take longer than they save: 4 x 8 x 256 x
# 64 there and back takes 24.1 ms in one block a head, 22.1 in two, 22.7 in four.
_STEPS: Final = 8
_FEW: Final = 128
# Multiply-adds of one product from which on work is shared among threads.
_FOR_THREADS: Final = 1 << 25
# Pieces of a gradient that are made of few heads of key. Not the number of threads: the order in
# which sums are added must not depend on it.
_PIECES: Final = 4


class _Block(NamedTuple):
    """Some queries of one head: their rows, which keys they see, and how many the first does."""

    rows: slice
    keys: slice
    first: int


def _blocks(queries: int, keys: int, is_causal: bool) -> Iterator[_Block]:
    """Yield the blocks of a head, the last queries first: they see the most keys if is_causal."""
    height = max(_BLOCK // max(keys, 1), _FEWEST)
    if is_causal:
        height = min(height, max(queries // _STEPS, _FEW))
    for end in range(queries, 0, -height):
        begin = max(end - height, 0)
        seen = min(end, keys) if is_causal else keys
        yield _Block(slice(begin, end), slice(seen), begin + 1 if is_causal else keys)


class _Unit(NamedTuple):
    """A block of a sample and head of query, and which head of key that reads."""

    n: int
    kept: int
    h: int
    block: _Block


def _units(query: Array, key: Array, is_causal: bool) -> list[list[_Unit]]:
    """Return all blocks, those that read a head of key together."""
    (samples, heads, queries, _), (_, kept, keys, _) = query.shape, key.shape
    groups, blocks = heads // kept, list(_blocks(queries, keys, is_causal))
    return [
        [_Unit(n, of, h, one) for h in range(of * groups, (of + 1) * groups) for one in blocks]
        for n in range(samples)
        for of in range(kept)
    ]


def _pieces(units: list[list[_Unit]], by_mask: Array) -> tuple[list[tuple[int, list[_Unit]]], int]:
    """Return pieces of a gradient that may be made at once, each with the number of the sums that
    it adds to, and how many sums there are: each head of key is cut into as many pieces as make up
    enough, or, where a mask's gradient is wanted, joined with all that add to the same numbers.
    """
    if by_mask.size:
        lots: dict[tuple[int, int], list[_Unit]] = {}
        apart = [int(count > 1) for count in by_mask.shape[:2]]
        for some in units:
            lot = some[0].n * apart[0], some[0].kept * apart[1]
            lots.setdefault(lot, []).extend(some)
        return [(0, lot) for lot in lots.values()], 1
    count = min(-(-_PIECES // len(units)), len(units[0]))
    size = -(-len(units[0]) // count)
    cuts = [(i // size, i) for i in range(0, len(units[0]), size)]
    return [(at, some[i : i + size]) for some in units for at, i in cuts], len(cuts)


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


class _Turned:
    """Products with the heads of an array turned round: once for all blocks of a head."""

    def __init__(self, heads: Array) -> None:
        self._heads, self._at = heads, (-1, -1)
        self._laid: Laid | None = None

    def multiply(self, a: Array, unit: _Unit, to: Array) -> None:
        """Write a @ x.T into `to`, of the keys x that a block sees."""
        at = unit.n, unit.kept
        if self._laid is None or self._at != at:
            self._at, self._laid = at, lay_turned(self._heads[at])
        multiply_laid_alone(a, self._laid, to)


class _Mask:
    """A mask, of which each axis may have the size 1."""

    def __init__(self, mask: Array, keys: int, dtype: np.dtype[Any]) -> None:
        from .attention_loops import loop

        is_bool = mask.dtype == np.bool_
        self._mask, self._keys = _in_four_axes(mask), keys
        self._dtype = mask.dtype if is_bool else dtype
        self._add = loop("masked_by_bool" if is_bool else "masked", dtype.name)

    def add_to(self, scores: Array, unit: _Unit) -> Array:
        """Add a block's part to its scores; return which queries see nothing, whose scores become
        0.
        """
        of_head = self._mask[unit.n % len(self._mask), unit.h % self._mask.shape[1]]
        some = of_head[unit.block.rows] if len(of_head) > 1 else of_head
        some = np.broadcast_to(some, (len(some), self._keys))[:, unit.block.keys]
        blind = np.empty(len(scores), np.bool_)
        self._add(scores, np.ascontiguousarray(some, self._dtype), blind)
        return blind


def _in_four_axes(mask: Array) -> Array:
    """Return a mask with axes of size 1 before those that it has."""
    return mask[(None,) * (4 - mask.ndim)]


class _Scores:
    """Scores of blocks, one after another in the same memory."""

    def __init__(self, given: _Given) -> None:
        self._query, key, mask, seed, factor, dropout = given
        query, keys = self._query, key.shape[2]
        self._keys = _Turned(key)
        self._mask = None if mask is None else _Mask(mask, keys, query.dtype)
        self._factor = query.dtype.type(factor)
        count = max(_BLOCK, _FEWEST * keys)
        self.room = empty((min(count, query.shape[2] * keys),), query.dtype)
        self._thin = None if seed is None else _Thinner(seed, dropout, keys, query.dtype).of

    def another_room(self) -> Array:
        """Return memory for as many numbers as room has."""
        return empty(self.room.shape, self.room.dtype)

    def thinning(self, unit: _Unit) -> tuple[Any, ...]:
        """Return what a loop over a block's rows is told of dropout."""
        _, heads, queries, _ = self._query.shape
        row = (unit.n * heads + unit.h) * queries + unit.block.rows.start
        return () if self._thin is None else self._thin(row)

    @silent
    def of(self, unit: _Unit) -> tuple[Array, Array, Array | None]:
        """Return the scores of a block, the queries by which they were made, and which of these see
        nothing, if any may not.
        """
        n, _, h, block = unit
        query = np.multiply(self._query[n, h, block.rows], self._factor)
        scores = _matrix_in(self.room, len(query), block.keys.stop)
        self._keys.multiply(query, unit, scores)
        return scores, query, None if self._mask is None else self._mask.add_to(scores, unit)


def _add_product(a: Array, b: Array, to: Array, is_new: bool) -> None:
    """Add a @ b to the first rows of `to`, or, if it is new, write it there and zeros below."""
    multiply_alone(a, b, to[: len(a)], adds=not is_new)
    if is_new:
        to[len(a) :] = 0


def _share(work: Callable[[range], None], count: int, cost: int) -> None:
    """Do work for so many units; on several threads where so many multiply-adds pay."""
    threads = 1
    if count > 1 and cost > _FOR_THREADS:
        from .launch import get_num_threads

        threads = min(get_num_threads(), count)
    if threads > 1:
        from .launch import share_out

        share_out(work, count, threads)
    else:
        work(range(count))


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
    units = [one for some in _units(query, key, is_causal) for one in some]

    def work(part: range) -> None:
        scores_of = _Scores(given)
        share = np.empty(query.shape[2], query.dtype)
        for unit in units[part.start : part.stop]:
            scores, _, blind = scores_of.of(unit)
            n, kept, h, block = unit
            some, to, logs = share[block.rows], out[n, h, block.rows], log_sum[n, h, block.rows]
            weigh(scores, block.first, some, logs, *scores_of.thinning(unit))
            if blind is not None:
                some[blind] = 0
                logs[blind] = np.inf
            multiply_alone(scores, value[n, kept, block.keys], to)
            np.multiply(to, some[:, None], out=to)

    _share(work, len(units), log_sum.size * key.shape[2] * query.shape[3])


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
    by_mask.fill(0)
    by_mask = _in_four_axes(by_mask)
    pieces, count = _pieces(_units(query, key, is_causal), by_mask)
    key_sums, value_sums = (
        [to, *np.empty((count - 1, *to.shape), to.dtype)] for to in (by_key, by_value)
    )

    def work(part: range) -> None:
        scores_of, values = _Scores(given), _Turned(value)
        room, even = scores_of.another_room(), np.empty(query.shape[2], query.dtype)
        for at, units in pieces[part.start : part.stop]:
            before = None
            for unit in units:
                n, kept, h, block = unit
                scores, scaled, _ = scores_of.of(unit)
                towards, to = g[n, h, block.rows], out[n, h, block.rows]
                slopes = _matrix_in(room, *scores.shape)
                values.multiply(towards, unit, slopes)
                common = even[block.rows]
                np.einsum("ij,ij->i", towards, result[n, h, block.rows], out=common)
                logs = log_sum[n, h, block.rows]
                slope(scores, block.first, logs, common, slopes, *scores_of.thinning(unit))
                _add_slopes(slopes, by_mask, n, h, block.rows)
                is_new, before = (n, kept) != before, (n, kept)
                _add_product(scores.T, towards, value_sums[at][n, kept], is_new)
                _add_product(slopes.T, scaled, key_sums[at][n, kept], is_new)
                multiply_alone(slopes, key[n, kept, block.keys], to)
                np.multiply(to, to.dtype.type(factor), out=to)

    _share(work, len(pieces), 2 * log_sum.size * key.shape[2] * query.shape[3])
    for first, *others in (key_sums, value_sums):
        for one in others:
            np.add(first, one, out=first)


@silent
def thinning(seed: Array, out: Array, dropout: float) -> None:
    """Write what dropout multiplies weights by into out, (..., l, s): 0, or 1 / (1 - dropout)."""
    if out.size:
        from .attention_loops import loop

        rows = out.reshape(-1, out.shape[-1])
        thinner = _Thinner(seed, dropout, rows.shape[1], out.dtype)
        loop("thinning", out.dtype.name)(rows, *thinner.of(0))

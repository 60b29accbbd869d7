"""Scaled dot-product attention and its gradient on the CPU, one block of queries at a time.

The scores of a block are in memory that fits the cache and is reused for the next block, so the
matrix of all queries by all keys is never made. In addition to its results, a call needs memory for
one block. One of the results may be the weights; then the gradient does not compute them again.
The single-threaded functions of `product` compute matrix products, and the loops of attention_loops
do the work on rows between the products; or NumPy does both (attention_rows). Threads divide the
blocks. For a gradient, threads divide pieces, which consist of blocks. Each piece has its own sums,
so results are the same for any number of threads.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from fastdist.random_numbers import philox

from ..jit.background import is_numpys_turn
from ..linalg.product import MANY_ROWS, compile_alone, lay, multiply_alone, multiply_laid_alone
from ..memory import empty
from ..silence import silent
from .attention_rows import BY_NUMPY, Tools

Array = np.ndarray[Any, Any]

# The size of a block of scores: 512 KiB of float32, half of an L2 cache. Forward and backward of 1
# x 8 x 2048 x 64 take 336 ms, and 348 with half the size (one core of an AMD EPYC, Zen 4).
_BLOCK: Final = 131072
# Blocks are this many times as large if there is a mask, except where a gradient needs two blocks.
# Reading the mask evicts keys and values from the cache; fewer blocks read them less often. Forward
# of 1 x 8 x 1024 x 64 takes 24.7 ms, and 25.4 with blocks of the normal size.
_MASKED: Final = 2
# The least number of rows of a block: for fewer, starting the products would take too long.
_FEWEST: Final = 16
# _STEPS is the largest number of blocks into which causal queries are cut, so that blocks compute
# few scores that the causal mask hides. With fewer than _FEW queries per block, more blocks would
# cost more than they save. Forward and backward of 1 x 8 x 1024 x 64 take 46.6 ms in 16 blocks per
# head, and 47.8 in 8; those of 4 x 8 x 256 x 64 take 16.0 ms in 4 blocks, 17.2 in 2, and 17.8 in 8.
_STEPS: Final = 16
_FEW: Final = 64
# From this many multiply-adds of one product on, threads divide the work.
_FOR_THREADS: Final = 1 << 25
# The number of pieces of a gradient if there are few heads of key. It is not the number of threads,
# because the order of the additions must not depend on the number of threads.
_PIECES: Final = 4


class _Block(NamedTuple):
    """Some queries of one head: their rows, the keys that they see, and the number of keys that
    the first query sees.
    """

    rows: slice
    keys: slice
    first: int


def _blocks(queries: int, keys: int, is_causal: bool, times: int) -> Iterator[_Block]:
    """Yield the blocks of a head; a block is `times` times as large as usual. The last queries come
    first, because they see the most keys if `is_causal`.
    """
    height = max(times * _BLOCK // max(keys, 1), _FEWEST)
    if is_causal:
        height = min(height, max(queries // _STEPS, _FEW))
    for end in range(queries, 0, -height):
        begin = max(end - height, 0)
        seen = min(end, keys) if is_causal else keys
        yield _Block(slice(begin, end), slice(seen), begin + 1 if is_causal else keys)


class _Unit(NamedTuple):
    """A block of queries of a sample and a head of query, with the head of key that it reads."""

    n: int
    kept: int
    h: int
    block: _Block


def _units(query: Array, key: Array, is_causal: bool, times: int = 1) -> list[list[_Unit]]:
    """Return all blocks, grouped by the head of key that they read."""
    (samples, heads, queries, _), (_, kept, keys, _) = query.shape, key.shape
    groups, blocks = heads // kept, list(_blocks(queries, keys, is_causal, times))
    return [
        [_Unit(n, of, h, one) for h in range(of * groups, (of + 1) * groups) for one in blocks]
        for n in range(samples)
        for of in range(kept)
    ]


def _pieces(units: list[list[_Unit]], by_mask: Array) -> tuple[list[tuple[int, list[_Unit]]], int]:
    """Return the pieces of a gradient that can run in parallel, each with the index of the sums to
    which it adds; also return the number of sums. The blocks of each head of key form several
    pieces if there are few heads. If the gradient of a mask is needed, the blocks that add to the
    same elements of this gradient form one piece.
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


def _pay_to_lay(units: list[list[_Unit]]) -> bool:
    """Return whether packing a head of key once saves time: several blocks use the head, and each
    block is so large that its product would pack the head again. Packing takes 12 us of the 175 us
    of a product 128 x 1024 x 64.
    """
    first, *others = units[0]
    return bool(others) and first.block.rows.stop - first.block.rows.start >= MANY_ROWS


def _matrix_in(room: Array, rows: int, columns: int) -> Array:
    """Return a matrix in the first elements of room."""
    return room[: rows * columns].reshape(rows, columns)


class _Thinner:
    """The dropout arguments of the loops over weights, for one call."""

    def __init__(self, seed: Array, dropout: float, keys: int, dtype: np.dtype[Any]) -> None:
        room = np.empty((philox.blocks_for(keys, 1), philox.WORDS), np.uint32)
        below, scale = philox.drops_below(dropout)
        self._blocks, words = len(room), room.reshape(-1)
        self._rest = room, words, int(seed.item()) % (1 << 64), below, float(dtype.type(scale))

    def of(self, row: int) -> tuple[Any, ...]:
        """Return the arguments for rows that begin at this row, counted over all heads."""
        return (row * self._blocks, *self._rest)


@functools.cache
def _compiled(dtype: str) -> Tools:
    from .attention_kernels import loop

    find = functools.partial(loop, dtype=dtype)
    return Tools(find, multiply_alone, lay, multiply_laid_alone, True)


def _compile(dtype: str, names: tuple[str, ...]) -> None:
    for name in names:
        _compiled(dtype).loop(name)
    compile_alone(dtype)


def _tools(dtype: np.dtype[Any], *names: str) -> Tools:
    """Return the functions for attention: NumPy's while the loops `names` must be compiled first,
    else the compiled ones.
    """
    return BY_NUMPY if is_numpys_turn(_compile, dtype.name, names) else _compiled(dtype.name)


def _tools_for(query: Array, mask: Array | None, is_causal: bool, *names: str) -> Tools:
    if mask is not None:
        names = (*names, "masked_by_bool" if mask.dtype == np.bool_ else "masked")
    return _tools(query.dtype, *names, *(("hide",) if is_causal else ()))


class _Given(NamedTuple):
    """The arguments of a call except `value`; see `attention` for the shapes."""

    query: Array
    key: Array
    mask: Array | None
    seed: Array | None
    factor: float
    dropout: float
    tools: Tools


class _Laid:
    """Multiplies by the heads of an array: by the rows that a block sees, or, if `turned`, by the
    transpose of these rows. If `pays`, a head is packed once for all blocks that use it.
    """

    def __init__(
        self, heads: Array, tools: Tools, *, turned: bool = False, pays: bool = True
    ) -> None:
        self._heads, self._tools, self._turned, self._pays = heads, tools, turned, pays
        self._at = (-1, -1)
        self._laid: Any = None

    def multiply(self, a: Array, unit: _Unit, to: Array) -> None:
        """Write the product of a with the unit's head, or with its transpose, into `to`."""
        at, tools = (unit.n, unit.kept), self._tools
        if not self._pays:
            tools.multiply(a, self._heads[at][unit.block.keys], to)
            return
        if self._laid is None or self._at != at:
            self._at, self._laid = at, tools.lay(self._heads[at], turned=self._turned)
        tools.multiply_laid(a, self._laid, to)


class _Mask:
    """A mask; each of its axes may have the size 1."""

    def __init__(self, mask: Array, keys: int, dtype: np.dtype[Any], tools: Tools) -> None:
        is_bool = mask.dtype == np.bool_
        self._mask, self._keys = _in_four_axes(mask), keys
        self._dtype = mask.dtype if is_bool else dtype
        self._add = tools.loop("masked_by_bool" if is_bool else "masked")

    def add_to(self, scores: Array, unit: _Unit) -> Array | None:
        """Add the part of the mask for a block to the scores of the block. Return flags of the
        queries that see no key, or None if all queries see a key. The scores of queries that see no
        key become 0.
        """
        samples, heads, rows, keys = self._mask.shape
        some: Array = self._mask[unit.n % samples, unit.h % heads]
        if rows > 1:
            some = some[unit.block.rows]
        if keys != self._keys:
            some = np.broadcast_to(some, (len(some), self._keys))
        blind = np.empty(len(scores), np.bool_)
        self._add(scores, np.ascontiguousarray(some[:, unit.block.keys], self._dtype), blind)
        return blind if blind.any() else None


def _in_four_axes(mask: Array) -> Array:
    """Return a mask with leading axes of size 1 added, up to four axes."""
    return mask[(None,) * (4 - mask.ndim)]


class _Scores:
    """Computes the scores of blocks, one block after the other in the same memory. If the weights
    are kept, the scores are computed in the memory of the weights.
    """

    def __init__(self, given: _Given, kept: Array, times: int = 1) -> None:
        self._query, key, mask, seed, factor, dropout, tools = given
        query, keys = self._query, key.shape[2]
        self._length = keys
        self._kept = kept.reshape(*kept.shape[:2], -1) if kept.size else None
        self._keys = _Laid(key, tools, turned=True)
        self._mask = None if mask is None else _Mask(mask, keys, query.dtype, tools)
        self._factor = query.dtype.type(factor)
        self._size = min(max(times * _BLOCK, _FEWEST * keys), query.shape[2] * keys)
        self._room = self.another_room() if self._kept is None else kept
        self._thin = None if seed is None else _Thinner(seed, dropout, keys, query.dtype).of

    def another_room(self) -> Array:
        """Return new memory for the scores of one block."""
        return empty((self._size,), self._query.dtype)

    def thinning(self, unit: _Unit) -> tuple[Any, ...]:
        """Return the dropout arguments for the loop over a block's rows."""
        _, heads, queries, _ = self._query.shape
        row = (unit.n * heads + unit.h) * queries + unit.block.rows.start
        return () if self._thin is None else self._thin(row)

    @silent
    def queries(self, unit: _Unit) -> Array:
        """Return the queries of a block, multiplied by factor."""
        scaled: Array = np.multiply(self._query[unit.n, unit.h, unit.block.rows], self._factor)
        return scaled

    def place(self, unit: _Unit) -> Array:
        """Return the memory for the scores of a block. It has the block's weights if these are
        kept.
        """
        n, _, h, (rows, keys, _) = unit
        room = self._room if self._kept is None else self._kept[n, h, rows.start * self._length :]
        return _matrix_in(room, rows.stop - rows.start, keys.stop)

    def of(self, unit: _Unit, query: Array) -> tuple[Array, Array | None]:
        """Return the scores of a block, computed from its queries, and the flags of queries that
        see no key; None if all queries see a key.
        """
        scores = self.place(unit)
        self._keys.multiply(query, unit, scores)
        return scores, None if self._mask is None else self._mask.add_to(scores, unit)


class _Slopes:
    """Computes the weights of blocks and the gradients of their scores, in reused memory."""

    def __init__(self, given: _Given, value: Array, kept: Array) -> None:
        self._scores, self._values = _Scores(given, kept), _Laid(value, given.tools, turned=True)
        self._slope = given.tools.loop("slopes" if given.seed is None else "thinned_slopes")
        self._room = self._scores.another_room()
        self._drops = given.seed is not None

    @silent
    def of(
        self, unit: _Unit, towards: Array, result: Array, log_sum: Array
    ) -> tuple[Array, Array, Array]:
        """Return the weights of a block, the gradients of its scores, and its scaled queries.

        `towards` is the gradient of the block's result.
        """
        query = self._scores.queries(unit)
        scores, _ = self._scores.of(unit, query)
        slopes = _matrix_in(self._room, *scores.shape)
        self._values.multiply(towards, unit, slopes)
        first = unit.block.first
        if self._drops:
            # For each row, the sum of weights times their gradients. Dropped weights are not
            # stored, so this sum is computed from the result.
            even = np.einsum("ij,ij->i", towards, result)
            self._slope(scores, first, log_sum, even, slopes, *self._scores.thinning(unit))
        else:
            self._slope(scores, first, log_sum, slopes)
        return scores, slopes, query


class _SlopesOfKept:
    """The same as _Slopes if the weights were kept."""

    def __init__(self, given: _Given, value: Array, kept: Array) -> None:
        self._scores, self._values = _Scores(given, kept), _Laid(value, given.tools, turned=True)
        self._slope = given.tools.loop("slopes_of_kept")
        self._room = self._scores.another_room()

    def of(self, unit: _Unit, towards: Array, *_: Array) -> tuple[Array, Array, Array]:
        """Return the same as _Slopes.of."""
        weights = self._scores.place(unit)
        slopes = _matrix_in(self._room, *weights.shape)
        self._values.multiply(towards, unit, slopes)
        self._slope(weights, unit.block.first, slopes)
        return weights, slopes, self._scores.queries(unit)


def _add_product(
    multiply: Callable[..., None], a: Array, b: Array, to: Array, is_new: bool
) -> None:
    """Add a @ b to the first len(a) rows of `to`. If `is_new`, overwrite these rows instead, and
    write zeros into the other rows.
    """
    multiply(a, b, to[: len(a)], adds=not is_new)
    if is_new:
        to[len(a) :] = 0


def _share(work: Callable[[range], None], count: int, cost: int, tools: Tools) -> None:
    """Run `work` for `count` units. `cost` is the number of multiply-adds of the largest product
    over all units. Use several threads if `cost` is above _FOR_THREADS, and if several threads may
    use the functions in `tools`.
    """
    threads = 1
    if count > 1 and cost > _FOR_THREADS and tools.serves_threads:
        from ..jit.launch import get_num_threads

        threads = min(get_num_threads(), count)
    if threads > 1:
        from ..jit.launch import share_out

        share_out(work, count, threads)
    else:
        work(range(count))


def _add_slopes(slopes: Array, by_mask: Array, n: int, h: int, rows: slice) -> None:
    """Add the gradients of a block's scores to `by_mask`, the gradient of the mask. Any axis of the
    mask may have been broadcast.
    """
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
    kept: Array,
    factor: float,
    is_causal: bool,
    dropout: float,
) -> None:
    """Write dropout(softmax(query @ key.T * factor + mask)) @ value into out, and the logarithms of
    the sums of exp(score) into log_sum. Store the weights in `kept`, which only the gradient reads.

    query: (n, h, l, e); key: (n, k, s, e); value: (n, k, s, v); mask: bool, or numbers to add;
    broadcasts to (n, h, l, s); seed: (1,), int64, or None without dropout; out: (n, h, l, v);
    log_sum: (n, h, l); kept: empty, or (n, h, l, s) in a private order, without dropout. Each head
    of key is used by h / k heads of query. A query for which the mask hides all keys gives zeros in
    out, and inf in log_sum.
    """
    if not (log_sum.size and key.shape[2]):
        out.fill(0)
        log_sum.fill(np.inf)
        return
    how = "weights" if seed is None else "thinned_weights"
    tools = _tools_for(query, mask, is_causal, how, "scaled")
    given = _Given(query, key, mask, seed, factor, dropout, tools)
    weigh, scale = tools.loop(how), tools.loop("scaled")
    times = 1 if mask is None else _MASKED
    lots = _units(query, key, is_causal, times)
    units, pays = [one for some in lots for one in some], _pay_to_lay(lots)

    def work(part: range) -> None:
        scores_of = _Scores(given, kept, times)
        values = _Laid(value, tools, pays=pays)
        share = np.empty(query.shape[2], query.dtype)
        for unit in units[part.start : part.stop]:
            scores, blind = scores_of.of(unit, scores_of.queries(unit))
            n, _, h, block = unit
            some, to, logs = share[block.rows], out[n, h, block.rows], log_sum[n, h, block.rows]
            weigh(scores, block.first, some, logs, *scores_of.thinning(unit))
            if blind is not None:
                some[blind] = 0
                logs[blind] = np.inf
            if kept.size:
                scale(scores, some)
            values.multiply(scores, unit, to)
            if not kept.size:
                scale(to, some)

    _share(work, len(units), log_sum.size * key.shape[2] * query.shape[3], tools)


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
    kept: Array,
    out: Array,
    by_key: Array,
    by_value: Array,
    by_mask: Array,
    factor: float,
    is_causal: bool,
    dropout: float,
) -> None:
    """Write the gradients by query, key, value and mask into out, by_key, by_value and by_mask.

    Shapes as for attention; g has the shape of result, and by_mask the shape of mask, or no
    elements if this gradient is not needed.
    """
    if not (log_sum.size and key.shape[2]):
        for one in (out, by_key, by_value, by_mask):
            one.fill(0)
        return
    how = "slopes_of_kept" if kept.size else "slopes" if seed is None else "thinned_slopes"
    tools = _tools_for(query, mask, is_causal, how)
    given = _Given(query, key, mask, seed, factor, dropout, tools)
    by_mask.fill(0)
    by_mask = _in_four_axes(by_mask)
    units = _units(query, key, is_causal)
    pays = _pay_to_lay(units)
    pieces, count = _pieces(units, by_mask)
    key_sums, value_sums = (
        [to, *np.empty((count - 1, *to.shape), to.dtype)] for to in (by_key, by_value)
    )

    def work(part: range) -> None:
        slopes_of = (_SlopesOfKept if kept.size else _Slopes)(given, value, kept)
        keys = _Laid(key, tools, pays=pays)
        for at, some in pieces[part.start : part.stop]:
            before = None
            for unit in some:
                n, of, h, block = unit
                rows = n, h, block.rows
                towards, to = g[rows], out[rows]
                weights, slopes, scaled = slopes_of.of(unit, towards, result[rows], log_sum[rows])
                _add_slopes(slopes, by_mask, n, h, block.rows)
                is_new, before = (n, of) != before, (n, of)
                _add_product(tools.multiply, weights.T, towards, value_sums[at][n, of], is_new)
                _add_product(tools.multiply, slopes.T, scaled, key_sums[at][n, of], is_new)
                keys.multiply(slopes, unit, to)
                np.multiply(to, to.dtype.type(factor), out=to)

    _share(work, len(pieces), 2 * log_sum.size * key.shape[2] * query.shape[3], tools)
    for first, *others in (key_sums, value_sums):
        for one in others:
            np.add(first, one, out=first)


@silent
def thinning(seed: Array, out: Array, dropout: float) -> None:
    """Write the dropout factors of weights, 0 or 1 / (1 - dropout), into out, (..., l, s)."""
    if out.size:
        rows = out.reshape(-1, out.shape[-1])
        thinner = _Thinner(seed, dropout, rows.shape[1], out.dtype)
        _tools(out.dtype, "thinning").loop("thinning")(rows, *thinner.of(0))

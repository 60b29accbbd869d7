"""Philox-4x32-10, a counter-based generator: each number depends only on (seed, position).

Source  Salmon, Moraes, Dror, Shaw 2011, "Parallel Random Numbers: As Easy as 1, 2, 3"
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, Final

import numpy as np

# Note [One stream on every device]
# Block n of a seed is philox(counter (n low, n high, attempt, 0), key (seed low, seed high)): four
# words of 32 bits. A draw uses whole blocks, from its first block on. An element i of 32 bits is
# made from word i % 4 of its block. An element i of 64 bits is made from two words of its block:
# i % 2 * 2 and the next one. So an element depends on its position alone: any number of threads, in
# any order, on any device, computes the same stream. Uniform numbers and integers are equal bit for
# bit. Normal numbers are computed in float64 on all devices, and rounded to their dtype at the end.
# So devices whose logarithms differ in the last bit round only a few numbers differently.

WORDS: Final = 4
_ROUNDS: Final = 10
_MULTIPLIER_0: Final = np.uint64(0xD2511F53)
_MULTIPLIER_1: Final = np.uint64(0xCD9E8D57)
_WEYL_0: Final = 0x9E3779B9
_WEYL_1: Final = 0xBB67AE85
_LOW: Final = np.uint64(0xFFFFFFFF)
_HALF: Final = np.uint64(32)
# Blocks per chunk: the words and the products of a chunk fit in the L2 cache.
_CHUNK: Final = 1 << 13
# From this number of words on, Numba saves more time than its import takes.
LARGE: Final = 1 << 15
_BITS: Final = {"bfloat16": 8, "float16": 11, "float32": 24, "float64": 53}


class Compiled:
    """The compiled versions of this module's functions. The kernels set `find`. It gets the number
    of words, and returns None if Numba would save less time than its import takes.
    """

    find: Callable[[int], Any] = staticmethod(lambda count: None)


def philox(counter: np.ndarray, key: tuple[int, int]) -> np.ndarray:
    """Return four random words for each counter.

    Shape   (4, n) -> (4, n)
    Dtype   uint32 values in uint64 -> the same
    """
    c0, c1, c2, c3 = counter.astype(np.uint64)
    for number in range(_ROUNDS):
        k0 = np.uint64((key[0] + number * _WEYL_0) & 0xFFFFFFFF)
        k1 = np.uint64((key[1] + number * _WEYL_1) & 0xFFFFFFFF)
        product_0, product_1 = c0 * _MULTIPLIER_0, c2 * _MULTIPLIER_1
        c0, c2 = (product_1 >> _HALF) ^ c1 ^ k0, (product_0 >> _HALF) ^ c3 ^ k1
        c1, c3 = product_1 & _LOW, product_0 & _LOW
    return np.stack([c0, c1, c2, c3])


def blocks_for(count: int, words: int) -> int:
    """Return the number of blocks for `count` elements of `words` words each."""
    return -(-count * words // WORDS)


def words32(seed: int, first: int, count: int) -> np.ndarray:
    """Return `count` random words of the stream of `seed`, from block `first` on.

    Dtype   uint32
    """
    blocks = blocks_for(count, 1)
    if blocks <= _MOST_AHEAD // 4:
        return _words_ahead(seed, first, blocks)[:count]
    compiled = Compiled.find(count)
    if compiled is not None:
        found: np.ndarray = compiled.words_from(seed, first, blocks)
        return found.reshape(-1)[:count]
    out = np.empty((blocks, WORDS), np.uint32)
    for start in range(0, len(out), _CHUNK):
        stop = min(start + _CHUNK, len(out))
        out[start:stop] = _words_of(seed, _places(first, np.arange(start, stop)), 0)
    return out.reshape(-1)[:count]


# A program often makes many small draws in sequence, and NumPy needs nearly the same time for one
# block as for 256. `Compiled.find` alone takes longer than computing 64 words. So a small draw also
# computes blocks for later draws: at first _AHEAD blocks in total, and twice as many each time that
# a sequence uses them up (at most _MOST_AHEAD). This changes no result, because an element depends
# on its position alone. Entries of `_ahead` are tuples, so that threads see all of an entry or none
# of it.
_AHEAD: Final = 256
_MOST_AHEAD: Final = 8192
_ahead: list[tuple[int, int, np.ndarray]] = []


def _words_ahead(seed: int, first: int, blocks: int) -> np.ndarray:
    ahead = max(_AHEAD, blocks)
    for kept_seed, kept_first, words in tuple(_ahead):
        start, kept = first - kept_first, len(words) // WORDS
        if seed == kept_seed and 0 <= start <= kept:
            if start <= kept - blocks:
                return words[start * WORDS : (start + blocks) * WORDS]
            ahead = max(min(2 * kept, _MOST_AHEAD), blocks)
    made = _words_of(seed, _places(first, np.arange(ahead)), 0).astype(np.uint32).reshape(-1)
    made.flags.writeable = False
    _ahead[:] = [(seed, first, made)]
    return made[: blocks * WORDS]


def words64(seed: int, first: int, count: int) -> np.ndarray:
    """Return `count` random words of 64 bits; the array may be read-only. Each consists of two
    words of 32 bits: the earlier one is the low half.

    Dtype   uint64
    """
    halves = words32(seed, first, 2 * count)
    if sys.byteorder == "little":
        return halves.view(np.uint64)
    wide = halves.astype(np.uint64)
    return wide[0::2] | wide[1::2] << _HALF


@functools.cache
def _bits_of(dtype: np.dtype[Any]) -> int:
    # Cached, because NumPy composes dtype.name at each access, which takes 1 us.
    return _BITS[dtype.name]


def uniform(seed: int, first: int, count: int, dtype: np.dtype[Any]) -> np.ndarray:
    """Return numbers in [0, 1), multiples of 2**-8, 2**-11, 2**-24 or 2**-53 as in PyTorch.

    Dtype   bfloat16, float16, float32, float64
    """
    if dtype.char == "f" and count <= FEW:
        return few_uniform(seed, first, count)
    bits = _bits_of(dtype)
    compiled = Compiled.find(count) if dtype.char == "f" else None
    if compiled is not None:
        return compiled.uniform(words32(seed, first, count))  # type: ignore[no-any-return]
    kept: np.ndarray
    if dtype.char == "d":
        kept = words64(seed, first, count) >> np.uint64(64 - bits)
    else:
        kept = words32(seed, first, count) >> np.uint32(32 - bits)
    out: np.ndarray = kept.astype(dtype) * dtype.type(2.0**-bits)
    return out


def normal(seed: int, first: int, count: int, dtype: np.dtype[Any]) -> np.ndarray:
    """Return numbers with mean 0 and standard deviation 1; the Box-Muller method makes pairs.

    Dtype   float16, float32, float64
    """
    if dtype.char == "f" and count <= FEW:
        return few_normal(seed, first, count)
    pairs = -(-count // 2)
    if dtype.char == "d":
        words = words64(seed, first, 2 * pairs)
        u, v = words[0::2] >> np.uint64(11), words[1::2] >> np.uint64(11)
        scale = 2.0**-53
    else:
        words = words32(seed, first, 2 * pairs)
        # Compiled code and NumPy may differ in the last bit. The size alone decides between them.
        if count >= LARGE and (compiled := Compiled.find(count)) is not None:
            made: np.ndarray = compiled.normal(words)[:count]
            return made.astype(dtype, copy=False)
        u, v = words[0::2], words[1::2]
        scale = 2.0**-32
    return _of_pairs(u, v, scale)[:count].astype(dtype)


def _of_pairs(u: np.ndarray, v: np.ndarray, scale: float) -> np.ndarray:
    # With 1 added, the scaled u is in (0, 1], where the logarithm is finite.
    radius = np.sqrt(-2.0 * np.log((u + 1.0) * scale))
    angle = (2.0 * np.pi * scale) * v
    out = np.empty((len(u), 2))
    out[:, 0], out[:, 1] = radius * np.cos(angle), radius * np.sin(angle)
    return out.reshape(-1)


# Draws of at most FEW float32 numbers, or FEW // 2 int64 numbers, also compute numbers for later
# draws, like _words_ahead. A draw of 64 normal numbers then takes 1.1 us instead of 9 (AMD EPYC,
# Zen 3).
FEW: Final = 512
# A function of (seed, first block, number of blocks, *key) that returns the numbers of the blocks.
# The key is (low, high) for integers, and empty otherwise.
_Maker = Callable[..., np.ndarray]
# Maps (maker, *key) to the last result: (seed, first block, number of blocks, numbers).
_numbers: dict[Any, tuple[int, int, int, np.ndarray]] = {}
# The largest number of entries in _numbers. Each range of integers needs a separate entry.
_MOST_KINDS: Final = 64
_MOST_BLOCKS: Final = 2048


def _numbers_ahead(seed: int, first: int, count: int, make: _Maker, *key: Any) -> np.ndarray:
    """Return a copy of `count` numbers that `make` computes, from block `first` on."""
    kept_seed, kept_first, blocks, made = _numbers.get((make, *key), _NOTHING)
    skipped = first - kept_first
    start = skipped * (len(made) // blocks)
    if seed != kept_seed or skipped < 0 or start + count > len(made):
        goes_on = seed == kept_seed and 0 <= skipped <= blocks
        blocks = min(2 * blocks, _MOST_BLOCKS) if goes_on else _AHEAD
        made, start = make(seed, first, blocks, *key), 0
        if len(_numbers) >= _MOST_KINDS:
            _numbers.clear()
        _numbers[(make, *key)] = seed, first, blocks, made
    return made[start : start + count].copy()


_NOTHING: Final = (-1, 0, _AHEAD, np.empty(0, np.float32))


def few_uniform(seed: int, first: int, count: int) -> np.ndarray:
    """Return the same float32 numbers as `uniform`; count must be at most FEW."""
    return _numbers_ahead(seed, first, count, _even)


def few_normal(seed: int, first: int, count: int) -> np.ndarray:
    """Return the same float32 numbers as `normal`; count must be at most FEW."""
    return _numbers_ahead(seed, first, count, _normals)


def _even(seed: int, first: int, blocks: int) -> np.ndarray:
    words = words32(seed, first, WORDS * blocks)
    found: np.ndarray = (words >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)
    return found


def _normals(seed: int, first: int, blocks: int) -> np.ndarray:
    words = words32(seed, first, WORDS * blocks)
    return _of_pairs(words[0::2], words[1::2], 2.0**-32).astype(np.float32)


def open_uniform(seed: int, first: int, count: int, dtype: np.dtype[Any]) -> np.ndarray:
    """Return float64 numbers in (0, 1); each uses as many words as a number of `dtype`.

    Their logarithms are finite.
    """
    if dtype.char == "d":
        kept = words64(seed, first, count) >> np.uint64(12)
        return (kept + 0.5) * 2.0**-52
    return (words32(seed, first, count) + 0.5) * 2.0**-32


# Note [Dropout by counting]
# The mask of dropout is not stored for the backward pass: it is computed again from one random
# number. This number is the seed of a separate stream. Every row uses whole blocks of that stream,
# four elements per block, so that each row begins with a new block. An element is kept if its word
# is at least the bound that `drops_below` returns.


def drops_below(p: float) -> tuple[int, float]:
    """Return the bound and the factor of dropout with probability p. An element is dropped if its
    word is below the bound; kept elements are multiplied by the factor.
    """
    return min(round(p * 2.0**32), (1 << 32) - 1), 1.0 / (1.0 - p) if p < 1.0 else 0.0


def words_at(seed: int, first: int, elements: np.ndarray, attempt: int) -> np.ndarray:
    """For each element of `elements`, return the four words of block `first` + element.

    Shape   (n,) -> (4, n)
    """
    return _words_of(seed, _places(first, elements), attempt).T


def words_each(dtype: np.dtype[Any]) -> int:
    """Return the number of words from which one number of `uniform` or `normal` is made."""
    return 2 if dtype.char == "d" else 1


def integers(seed: int, first: int, count: int, low: int, high: int) -> np.ndarray:
    """Return integers in [low, high), each with the same probability.

    Dtype   int64
    Note    a word that would bias the result is rejected. It is drawn again at the same position
            with the next attempt number, so that the positions of other elements do not change
    """
    if count <= FEW // 2:
        return _numbers_ahead(seed, first, count, _integers_of, low, high)
    return _integers(seed, first, count, low, high)


def _integers_of(seed: int, first: int, blocks: int, low: int, high: int) -> np.ndarray:
    return _integers(seed, first, blocks * WORDS // 2, low, high)


def _integers(seed: int, first: int, count: int, low: int, high: int) -> np.ndarray:
    least, span, last = _range(low, high)
    out = words64(seed, first, count)
    if span is not None:
        if count and np.maximum.reduce(out) > last:
            out = _without_favour(seed, first, out.copy(), last)
        out = out % span
    # The sum is modulo 2**64, so its bits are those of the signed result.
    return (out + least if least else out).view(np.int64)


@functools.lru_cache(maxsize=64)
def _range(low: int, high: int) -> tuple[np.uint64, np.uint64 | None, np.uint64]:
    """Return `low` modulo 2**64, the number of integers in the range (None for 2**64), and the
    largest accepted word. This word is the largest multiple of that number up to 2**64, minus one.
    """
    span, all_words = high - low, 1 << 64
    least = np.uint64(low & all_words - 1)
    if span == all_words:
        return least, None, np.uint64(0)
    return least, np.uint64(span), np.uint64(all_words - all_words % span - 1)


def _without_favour(seed: int, first: int, out: np.ndarray, last: np.uint64) -> np.ndarray:
    """Return random words that are at most `last`; larger ones are rejected and drawn again."""
    attempt = 0
    while (rejected := np.flatnonzero(out > last)).size:
        attempt += 1
        out[rejected] = _draw_again(seed, first, rejected, attempt)
    return out


def permutation(seed: int, first: int, count: int) -> np.ndarray:
    """Return 0 ... count-1 in random order: the order that sorts random words of 64 bits.

    Dtype   int64
    """
    is_few = 0 < count <= FEW // 2
    words = (
        _numbers_ahead(seed, first, count, _words64_of) if is_few else words64(seed, first, count)
    )
    return words.argsort(kind="stable").astype(np.int64, copy=False)


def _words64_of(seed: int, first: int, blocks: int) -> np.ndarray:
    return words64(seed, first, 2 * blocks)


def _draw_again(seed: int, first: int, elements: np.ndarray, attempt: int) -> np.ndarray:
    words = _words_of(seed, _places(first, elements // 2), attempt)
    low, high = np.where(elements % 2, words[:, 2:].T, words[:, :2].T)
    again: np.ndarray = low | high << _HALF
    return again


def _places(first: int, blocks: np.ndarray) -> np.ndarray:
    """Return the numbers first + blocks; block numbers wrap around at 2**64."""
    places: np.ndarray = blocks.astype(np.uint64) + np.uint64(first & (1 << 64) - 1)
    return places


def _words_of(seed: int, places: np.ndarray, attempt: int) -> np.ndarray:
    """Return the four words of each block. Shape (n,) -> (n, 4)."""
    compiled = Compiled.find(WORDS * len(places))
    if compiled is not None:
        return compiled.words_of(seed, places, attempt)  # type: ignore[no-any-return]
    counter = np.zeros((WORDS, len(places)), np.uint64)
    counter[0], counter[1], counter[2] = places & _LOW, places >> _HALF, attempt
    return philox(counter, (seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF)).T

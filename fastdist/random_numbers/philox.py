"""Random numbers by counting: Philox-4x32-10, a function of (seed, position) and nothing else.

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
# words of 32 bits. A draw takes whole blocks from its first one on, and element i of the draw is
# made from word i % 4 (or words i % 2 * 2 and the next, where 64 bits are wanted) of its block. So
# an element depends on its place alone: any number of threads, in any order, on any device, gives
# the same stream. Uniform numbers and integers agree bit for bit. Normal ones are computed in
# float64 everywhere and rounded last, so devices whose logarithms differ in the last bit agree in
# all but a few roundings.

WORDS: Final = 4
_ROUNDS: Final = 10
_MULTIPLIER_0: Final = np.uint64(0xD2511F53)
_MULTIPLIER_1: Final = np.uint64(0xCD9E8D57)
_WEYL_0: Final = 0x9E3779B9
_WEYL_1: Final = 0xBB67AE85
_LOW: Final = np.uint64(0xFFFFFFFF)
_HALF: Final = np.uint64(32)
# Blocks at a time: their words and the products among them stay within a second-level cache.
_CHUNK: Final = 1 << 13
# From so many words on Numba is worth its import.
LARGE: Final = 1 << 15
_BITS: Final = {"bfloat16": 8, "float16": 11, "float32": 24, "float64": 53}


class Compiled:
    """The same functions compiled, which kernels bring; `find` is given how many words are wanted
    and returns None where that is not worth loading Numba.
    """

    find: Callable[[int], Any] = staticmethod(lambda count: None)


def philox(counter: np.ndarray, key: tuple[int, int]) -> np.ndarray:
    """Return the random words of counters.

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
    """Return how many blocks a draw of `count` elements takes, of so many words each."""
    return -(-count * words // WORDS)


def words32(seed: int, first: int, count: int) -> np.ndarray:
    """Return `count` random words, from block `first` of a seed on.

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


# Small draws follow each other, and a hundred calls of NumPy make the words of one block or of 256
# in nearly the same time; and a search for compiled code takes longer than 64 words. So they are
# made ahead; as an element depends on its place alone, nobody can tell: more and more, where one
# run of draws goes on. A tuple: threads see all of it or none.
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
    """Return `count` random words of 64 bits, the earlier half lowest; they may be read-only.

    Dtype   uint64
    """
    halves = words32(seed, first, 2 * count)
    if sys.byteorder == "little":
        return halves.view(np.uint64)
    wide = halves.astype(np.uint64)
    return wide[0::2] | wide[1::2] << _HALF


@functools.cache
def _bits_of(dtype: np.dtype[Any]) -> int:
    # NumPy composes a dtype's name at each access: 1 us.
    return _BITS[dtype.name]


def uniform(seed: int, first: int, count: int, dtype: np.dtype[Any]) -> np.ndarray:
    """Return numbers in [0, 1), evenly 2**-8, 2**-11, 2**-24 or 2**-53 apart, as PyTorch's are.

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
    """Return numbers of mean 0 and deviation 1, two by two, by the method of Box and Muller.

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
        # By size alone: in the last bit of float64 the two may differ.
        if count >= LARGE and (compiled := Compiled.find(count)) is not None:
            made: np.ndarray = compiled.normal(words)[:count]
            return made.astype(dtype, copy=False)
        u, v = words[0::2], words[1::2]
        scale = 2.0**-32
    return _of_pairs(u, v, scale)[:count].astype(dtype)


def _of_pairs(u: np.ndarray, v: np.ndarray, scale: float) -> np.ndarray:
    # One is added so that u lies in (0, 1], where the logarithm is finite.
    radius = np.sqrt(-2.0 * np.log((u + 1.0) * scale))
    angle = (2.0 * np.pi * scale) * v
    out = np.empty((len(u), 2))
    out[:, 0], out[:, 1] = radius * np.cos(angle), radius * np.sin(angle)
    return out.reshape(-1)


# Numbers of float32 and int64 are made ahead as well, for draws of so many: see _words_ahead. 64
# normal numbers take 1.1 us instead of 9 (AMD EPYC, Zen 3).
FEW: Final = 512
# Makes the numbers of some blocks, of (seed, first block, how many blocks, the rest of its key).
_Maker = Callable[..., np.ndarray]
# The maker and the rest of its key -> seed, first block, number of blocks, and their numbers.
_numbers: dict[Any, tuple[int, int, int, np.ndarray]] = {}
# Each range of integers is a kind.
_MOST_KINDS: Final = 64
_MOST_BLOCKS: Final = 2048


def _numbers_ahead(seed: int, first: int, count: int, make: _Maker, *key: Any) -> np.ndarray:
    """Return new memory with count of the numbers that make makes from a block on."""
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
    """Return `uniform` of at most FEW float32."""
    return _numbers_ahead(seed, first, count, _even)


def few_normal(seed: int, first: int, count: int) -> np.ndarray:
    """Return `normal` of at most FEW float32."""
    return _numbers_ahead(seed, first, count, _normals)


def _even(seed: int, first: int, blocks: int) -> np.ndarray:
    words = words32(seed, first, WORDS * blocks)
    found: np.ndarray = (words >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)
    return found


def _normals(seed: int, first: int, blocks: int) -> np.ndarray:
    words = words32(seed, first, WORDS * blocks)
    return _of_pairs(words[0::2], words[1::2], 2.0**-32).astype(np.float32)


def open_uniform(seed: int, first: int, count: int, dtype: np.dtype[Any]) -> np.ndarray:
    """Return numbers in (0, 1), for logarithms; from dtype's words, as float64."""
    if dtype.char == "d":
        kept = words64(seed, first, count) >> np.uint64(12)
        return (kept + 0.5) * 2.0**-52
    return (words32(seed, first, count) + 0.5) * 2.0**-32


# Note [Dropout by counting]
# The weights that dropout keeps are not stored for the backward pass: they follow from one number
# that was drawn for all of them. It is the seed of a separate stream, from which every row takes as
# many whole blocks as it has weights, four to a block, so that each row begins with a new block; a
# weight stays if its word is at least `drops_below`.


def drops_below(p: float) -> tuple[int, float]:
    """Return below which word an element is dropped with probability p, and what others are
    multiplied by.
    """
    return min(round(p * 2.0**32), (1 << 32) - 1), 1.0 / (1.0 - p) if p < 1.0 else 0.0


def words_at(seed: int, first: int, elements: np.ndarray, attempt: int) -> np.ndarray:
    """Return the four words of blocks first + elements: one block for each element.

    Shape   (n,) -> (4, n)
    """
    return _words_of(seed, _places(first, elements), attempt).T


def words_each(dtype: np.dtype[Any]) -> int:
    """Return how many words an element of `uniform` and of `normal` takes."""
    return 2 if dtype.char == "d" else 1


def integers(seed: int, first: int, count: int, low: int, high: int) -> np.ndarray:
    """Return integers in [low, high), each equally likely.

    Dtype   int64
    Note    a word that would favour the small ones is thrown away and drawn again from the same
            place with the next attempt, so that no element moves another
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
    # Arithmetic modulo 2**64 is what brings [0, 2**64) back to signed numbers.
    return (out + least if least else out).view(np.int64)


@functools.lru_cache(maxsize=64)
def _range(low: int, high: int) -> tuple[np.uint64, np.uint64 | None, np.uint64]:
    """Return low, how many integers there are (None for 2**64), and the largest word that has a
    full round of them: the largest multiple of their number below 2**64, less one.
    """
    span, all_words = high - low, 1 << 64
    least = np.uint64(low & all_words - 1)
    if span == all_words:
        return least, None, np.uint64(0)
    return least, np.uint64(span), np.uint64(all_words - all_words % span - 1)


def _without_favour(seed: int, first: int, out: np.ndarray, last: np.uint64) -> np.ndarray:
    """Return random words of at most last; larger ones are drawn again."""
    attempt = 0
    while (rejected := np.flatnonzero(out > last)).size:
        attempt += 1
        out[rejected] = _draw_again(seed, first, rejected, attempt)
    return out


def permutation(seed: int, first: int, count: int) -> np.ndarray:
    """Return 0 ... count-1 in random order: sorted by a random word of 64 bits each.

    Dtype   int64
    """
    return np.argsort(words64(seed, first, count), kind="stable").astype(np.int64)


def _draw_again(seed: int, first: int, elements: np.ndarray, attempt: int) -> np.ndarray:
    words = _words_of(seed, _places(first, elements // 2), attempt)
    low, high = np.where(elements % 2, words[:, 2:].T, words[:, :2].T)
    again: np.ndarray = low | high << _HALF
    return again


def _places(first: int, blocks: np.ndarray) -> np.ndarray:
    """Return the places of blocks in the stream of a seed, which wraps around after 2**64."""
    places: np.ndarray = blocks.astype(np.uint64) + np.uint64(first & (1 << 64) - 1)
    return places


def _words_of(seed: int, places: np.ndarray, attempt: int) -> np.ndarray:
    """Return the words of blocks. Shape (n,) -> (n, 4)."""
    compiled = Compiled.find(WORDS * len(places))
    if compiled is not None:
        return compiled.words_of(seed, places, attempt)  # type: ignore[no-any-return]
    counter = np.zeros((WORDS, len(places)), np.uint64)
    counter[0], counter[1], counter[2] = places & _LOW, places >> _HALF, attempt
    return philox(counter, (seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF)).T

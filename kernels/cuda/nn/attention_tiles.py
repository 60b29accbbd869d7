"""Attention of float32 and float64 on CUDA arrays, and its gradient, with scores in registers.

Attention is one launch. Its gradient is two: by queries, and by keys and values.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from fastdist.random_numbers import philox

from ..launch import C_TYPES, Launch, Scratch, Struct, headers_for, int64_fields, text_of
from ..layout import element_strides
from ..rows import pack_of


class Tiles(NamedTuple):
    """The sizes of a kernel's tiles: threads of a block (threads), threads that share a row
    (lanes), rows of queries (rows) and of keys (keys), the longest row (width), resident blocks per
    multiprocessor (blocks), and unrolled steps of a product (steps).

    A tile takes at most 48 KiB of shared memory, the limit for kernels that do not opt in to more.
    """

    threads: int
    lanes: int
    rows: int
    keys: int
    width: int
    blocks: int = 4
    steps: int = 1


_Kinds = Mapping[int, tuple[Tiles, ...]]
# The size of an element in bytes -> tiles. The first Tiles is used whose `width` is at least the
# length of the rows.
TILES: Final[_Kinds] = {
    4: (
        Tiles(128, 8, 64, 64, 32, 3),
        Tiles(128, 8, 64, 64, 64),
        Tiles(128, 8, 32, 32, 96),
        Tiles(128, 8, 32, 32, 128),
    ),
    8: (Tiles(128, 8, 32, 32, 32), Tiles(128, 8, 32, 32, 64)),
}
BY_QUERY: Final[_Kinds] = {
    4: (Tiles(128, 8, 64, 32, 32), Tiles(128, 8, 64, 32, 64)),
    8: (Tiles(128, 8, 32, 32, 32),),
}
BY_KEY: Final[_Kinds] = {
    4: (Tiles(128, 8, 32, 64, 32), Tiles(64, 8, 32, 32, 64, 6)),
    8: (Tiles(128, 8, 16, 64, 32, 3),),
}
# Kernels count positions in a head, and blocks of a grid, in 32 bits.
_MOST_ROWS: Final = 1 << 30
_MOST_BLOCKS: Final = 1 << 31


def tiles_for(kinds: _Kinds, query: Any, key: Any, value: Any) -> Tiles | None:
    """Return the first tiles that fit the arrays of an attention call; None if there are none."""
    n, heads, queries, width = query.shape
    longest = max(queries, key.shape[2])
    if query.dtype.kind != "f" or longest >= _MOST_ROWS or n * heads * longest >= _MOST_BLOCKS:
        return None
    fitting = kinds.get(query.dtype.itemsize, ())
    return next((one for one in fitting if max(width, value.shape[3]) <= one.width), None)


class Numbers(NamedTuple):
    """The scalar arguments of kernels; see `attention`."""

    factor: float
    is_causal: bool
    dropout: float


def plan_attend(
    query: Any,
    key: Any,
    value: Any,
    mask: Any | None,
    seed: Any | None,
    into: tuple[Any, Any],
    numbers: Numbers,
) -> list[Launch]:
    """Return the launch of attention, which writes out and log_sum (`into`). Arrays are as in
    `attention`, but the mask has four axes.
    """
    out, log_sum = into
    tiles = tiles_for(TILES, query, key, value)
    assert tiles is not None, f"no tiles for {query.dtype} and {query.shape}"
    given = query, key, value
    packed = _lie_in_packs(*given, out)
    source = _source("nn/attention_tiles.cu", tiles, query, mask, seed, packed=packed)
    n, heads, queries, _ = query.shape
    count = -(-queries // tiles.rows)
    task = _task(given, (out,), mask, numbers, count)
    arguments = *given, *_or(log_sum, mask, seed), out, log_sum, task
    return [Launch(source, "attend", (count * n * heads, 1), arguments, tiles.threads)]


def plan_gradient(
    g: Any,
    given: tuple[Any, Any, Any],
    mask: Any | None,
    seed: Any | None,
    made: tuple[Any, Any],
    into: tuple[Any, Any, Any],
    numbers: Numbers,
) -> list[Launch]:
    """Return the launches of the gradients by query, key and value. `made` are attention's result
    and log_sum; the mask has four axes.
    """
    query, key, _ = given
    (result, log_sum), (out, by_key, by_value) = made, into
    of_query, of_key = (tiles_for(kinds, *given) for kinds in (BY_QUERY, BY_KEY))
    assert of_query and of_key, f"no tiles for {query.dtype} and {query.shape}"
    packed, slopes = _lie_in_packs(*given, *into), _lie_in_packs(g)
    evens = Scratch(log_sum.shape, log_sum.dtype)

    def step(name: str, tiles: Tiles, heads: int, count: int, *arguments: Any) -> Launch:
        text = f"nn/attention_{name}.cu"
        source = _source(text, tiles, query, mask, seed, packed=packed, slopes=slopes)
        task = _task(given, (out, g, result, by_key, by_value), mask, numbers, count)
        whole = g, *given, *_or(log_sum, mask, seed), *arguments, task
        return Launch(source, name, (count * query.shape[0] * heads, 1), whole, tiles.threads)

    counts = -(-query.shape[2] // of_query.rows), -(-key.shape[2] // of_key.keys)
    return [
        step("by_query", of_query, query.shape[1], counts[0], result, log_sum, evens, out),
        step("by_key", of_key, key.shape[1], counts[1], log_sum, evens, by_key, by_value),
    ]


def _or(other: Any, *arrays: Any) -> list[Any]:
    # A missing array is not read, but a pointer must be passed for it.
    return [other if one is None else one for one in arrays]


def _lie_in_packs(*arrays: Any) -> bool:
    """Return whether the rows of all arrays can be read 16 bytes at a time."""
    return all(pack_of(array.shape[3], array) > 1 for array in arrays)


def _task(
    given: tuple[Any, Any, Any],
    others: tuple[Any, ...],
    mask: Any | None,
    numbers: Numbers,
    count: int,
) -> Struct:
    """Return the kernel argument that describes the arrays. `count` is the number of tiles of a
    head; the first of `others` is the kernel's out.
    """
    query, key, value = given
    _, heads, queries, width = query.shape
    lengths = queries, key.shape[2], width, value.shape[3]
    small = *lengths, heads, heads // key.shape[1], count, numbers.is_causal
    below, scale = philox.drops_below(numbers.dropout)
    return int64_fields(
        *np.array(small, np.int32).view(np.int64).tolist(),
        *(_bits(numbers.factor), key.shape[2], below, _bits(scale)),
        *[step for one in (*given, others[0]) for step in element_strides(one)],
        *_steps_of_mask(mask),
        *[step for one in others[1:] for step in element_strides(one)],
    )


def _steps_of_mask(mask: Any | None) -> list[int]:
    if mask is None:
        return [0] * 4
    counts = zip(element_strides(mask), mask.shape, strict=True)
    return [step if count > 1 else 0 for step, count in counts]


def _bits(number: float) -> int:
    """Return the bits of a float64, which a kernel takes as an integer."""
    return int(np.float64(number).view(np.int64))


def _source(
    text: str,
    tiles: Tiles,
    query: Any,
    mask: Any | None,
    seed: Any | None,
    *,
    packed: bool,
    slopes: bool = True,
) -> str:
    kind = None if mask is None else mask.dtype
    drops = seed is not None
    return source_of_tiles(
        text, tiles, query.dtype, kind, drops=drops, packed=packed, slopes=slopes
    )


@functools.lru_cache(maxsize=128)
def source_of_tiles(
    text: str,
    tiles: Tiles,
    dtype: np.dtype[Any],
    mask: np.dtype[Any] | None,
    *,
    drops: bool = False,
    packed: bool = False,
    slopes: bool = False,
) -> str:
    """Return the CUDA source for attention in tiles, or for one of its gradients. `drops` says
    whether there is dropout. `packed` says whether rows can be read 16 bytes at a time; `slopes`
    says the same of the rows of gradients.
    """
    real = C_TYPES[dtype]
    threads, lanes, rows, keys, width, blocks, steps = tiles
    if mask is not None or drops or not packed:
        # Masks and dropout need more registers. Each thread has more registers if fewer blocks are
        # resident.
        blocks = max(blocks - 1 - drops, 1)
    flags = {"MASKED": mask is not None, "DROPS": drops, "PACKED": packed, "PACKED_SLOPES": slopes}
    told = ", ".join(f"{name} = {str(flag).lower()}" for name, flag in flags.items())
    return f"""{headers_for([dtype])}
typedef {real} Real;
typedef {real if mask is None else C_TYPES[mask]} Mask;
constexpr bool {told};
constexpr int PACK = {16 // dtype.itemsize};
constexpr int THREADS = {threads}, LANES = {lanes}, BLOCKS = {blocks}, STEPS = {steps};
constexpr int ROWS = {rows}, KEYS = {keys}, WIDTH = {width};
{text_of("headers/philox.cuh", "nn/attention.cuh", "nn/attention_tiles.cuh", text)}"""

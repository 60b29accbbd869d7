"""Attention of float32 and float64 on CUDA arrays in one launch: scores stay in registers."""

from __future__ import annotations

import functools
from typing import Any, Final, NamedTuple

import numpy as np

from fastdist.core import philox

from .launch import C_TYPES, Launch, headers_for, int64_fields, text_of
from .layout import element_strides
from .rows import pack_of


class Tiles(NamedTuple):
    """The shape of the tiles of a kernel: threads of a block, and those that share a row; rows of
    queries and of keys; numbers of a row; blocks that a multiprocessor is to hold at once; steps of
    a product that are written out one after the other.

    Together they take at most 48 KiB, which a kernel may have of shared memory without asking.
    """

    threads: int
    lanes: int
    rows: int
    keys: int
    width: int
    blocks: int = 4
    steps: int = 1


# By the bytes of a number, for rows of up to so many of them: the first one that they fit.
TILES: Final = {
    4: (
        Tiles(128, 8, 64, 64, 32, 3),
        Tiles(128, 8, 64, 64, 64),
        Tiles(128, 8, 32, 32, 96),
        Tiles(128, 8, 32, 32, 128),
    ),
    8: (Tiles(128, 8, 32, 32, 32), Tiles(128, 8, 32, 32, 64)),
}
# Places in a head, and blocks of a grid, are 32 bits wide in the kernel.
_MOST_ROWS: Final = 1 << 30
_MOST_BLOCKS: Final = 1 << 31


def tiles_for(query: Any, key: Any, value: Any) -> Tiles | None:
    """Return the tiles for arrays as `attention` takes them; None where there are none."""
    n, heads, queries, width = query.shape
    fits = query.dtype.kind == "f" and max(queries, key.shape[2]) < _MOST_ROWS
    for tiles in TILES.get(query.dtype.itemsize, ()) if fits else ():
        if max(width, value.shape[3]) <= tiles.width:
            return tiles if _blocks(tiles, n * heads, queries) < _MOST_BLOCKS else None
    return None


def _blocks(tiles: Tiles, heads: int, queries: int) -> int:
    return heads * -(-queries // tiles.rows)


def plan_attend(
    query: Any,
    key: Any,
    value: Any,
    mask: Any | None,
    seed: Any | None,
    into: tuple[Any, Any],
    factor: float,
    is_causal: bool,
    dropout: float,
) -> list[Launch]:
    """Return the launch of attention into result and logarithms, of arrays as `attention` takes
    them; the mask has four axes.
    """
    out, log_sum = into
    tiles = tiles_for(query, key, value)
    assert tiles is not None, f"no tiles for {query.dtype} and {query.shape}"
    kind, drops = None if mask is None else mask.dtype, seed is not None
    packed = _lie_in_packs(query, key, value, out)
    source = source_of_tiles(query.dtype, kind, tiles, drops=drops, packed=packed)
    n, heads, queries, width = query.shape
    blocks, keys = _blocks(tiles, n * heads, queries), key.shape[2]
    counts = queries, keys, width, value.shape[3], heads, heads // key.shape[1]
    task = int64_fields(
        *np.array([*counts, blocks // (n * heads), is_causal], np.int32).view(np.int64),
        *(_bits(factor), *_drops(keys, dropout)),
        *[step for one in (query, key, value, out) for step in element_strides(one)],
        *_steps_of_mask(mask),
    )
    # What is not there is not read, but something must stand for it.
    given = [log_sum if one is None else one for one in (mask, seed)]
    arguments = query, key, value, *given, out, log_sum, task
    return [Launch(source, "attend", (blocks, 1), arguments, tiles.threads)]


def _lie_in_packs(*arrays: Any) -> bool:
    """Return whether the rows of all arrays can be read 16 bytes at a time."""
    return all(pack_of(array.shape[3], array) > 1 for array in arrays)


def _steps_of_mask(mask: Any | None) -> list[int]:
    if mask is None:
        return [0] * 4
    counts = zip(element_strides(mask), mask.shape, strict=True)
    return [step if count > 1 else 0 for step, count in counts]


def _drops(keys: int, dropout: float) -> tuple[int, int, int]:
    below, scale = philox.drops_below(dropout)
    return keys, below, _bits(scale)


def _bits(number: float) -> int:
    """Return the bits of a number of float64, as which a kernel is told it among integers."""
    return int(np.float64(number).view(np.int64))


@functools.lru_cache(maxsize=128)
def source_of_tiles(
    dtype: np.dtype[Any],
    mask: np.dtype[Any] | None,
    tiles: Tiles,
    *,
    drops: bool = False,
    packed: bool = False,
) -> str:
    """Return the text for attention in tiles of a dtype, with masks of one, thinned out or not,
    whose rows can be read 16 bytes at a time or not.
    """
    real = C_TYPES[dtype]
    threads, lanes, rows, keys, width, blocks, steps = tiles
    if mask is not None or drops or not packed:
        # What goes on besides needs registers, of which fewer blocks leave more to each thread.
        blocks = max(blocks - 1 - drops, 1)
    return f"""{headers_for([dtype])}
typedef {real} Real;
typedef {real if mask is None else C_TYPES[mask]} Mask;
constexpr int PACK = {16 // dtype.itemsize};
constexpr bool MASKED = {str(mask is not None).lower()}, DROPS = {str(drops).lower()};
constexpr bool PACKED = {str(packed).lower()};
constexpr int THREADS = {threads}, LANES = {lanes}, BLOCKS = {blocks}, STEPS = {steps};
constexpr int ROWS = {rows}, KEYS = {keys}, WIDTH = {width};
{text_of("philox.cuh", "attention.cuh", "attention_tiles.cu")}"""

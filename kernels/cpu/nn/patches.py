"""The patches of images under a sliding kernel as columns (im2col), and sums of columns (col2im).

A convolution is a matrix product with these columns. The columns of a kernel with k elements take k
times the memory of the images, so columns are made in blocks that are small enough to stay in a
cache.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..jit.array_objects import require_arrays
from ..jit.background import is_numpys_turn
from ..jit.kernel_cache import find_function
from ..silence import silent

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]

# The size of a block of columns in bytes. Among sizes from 0.5 to 4 MiB, 4 MiB is fastest: by 5 %
# for 64 channels, and by a third for 16 channels (AMD EPYC, Zen 3, with caches of 512 KiB and 32
# MiB). The matrix product packs its operands anyway, and is faster for wide operands. Matrix
# products with fewer columns than _FEWEST run at half speed.
_BLOCK_BYTES: Final = 1 << 22
_FEWEST: Final = 64
# If a block has fewer numbers, NumPy copies its columns, and Numba is not loaded.
_SMALL: Final = 1 << 12
COMPILED: Final = (np.dtype(np.float32), np.dtype(np.float64))
# The lanes of a vector in thin_loops. A vector may extend past the end of the channels by up to
# this many grid positions.
LANES: Final = 16


class Sliding(NamedTuple):
    """How a kernel slides over an image, along three axes.

    `image`, `kernel` and `grid` are sizes; `grid` is the size of the output. `padding` is the
    padding before an image; the padding after it follows from the grid.
    """

    image: Sizes
    kernel: Sizes
    grid: Sizes
    stride: Sizes
    padding: Sizes
    dilation: Sizes

    @classmethod
    def of(cls, *given: Sizes) -> Sliding:
        """Return a Sliding from tuples for one to three axes, in the order of the fields."""
        more = 3 - len(given[0])
        fills = (1, 1, 1, 1, 0, 1)
        return cls(*[(fill,) * more + tuple(one) for fill, one in zip(fills, given, strict=True)])

    @property
    def taps(self) -> int:
        """The number of elements of the kernel."""
        return math.prod(self.kernel)

    @property
    def places(self) -> int:
        """The number of columns of one image, one per position of the grid."""
        return math.prod(self.grid)

    @property
    def is_identity(self) -> bool:
        """Whether the columns of an image are the image itself."""
        return self.taps == 1 and (self.image, self.stride, self.padding) == (
            self.grid, (1, 1, 1), (0, 0, 0),
        )  # fmt: skip

    @property
    def seen(self) -> Sizes:
        """The size of the part of the padded image that the kernel covers."""
        axes = zip(self.grid, self.stride, self.kernel, self.dilation, strict=True)
        return tuple([(n - 1) * step + (k - 1) * wide + 1 for n, step, k, wide in axes])

    def inner(self) -> tuple[Any, Any]:
        """Return the index of the image within the covered part, and the index of the covered part
        within the image.
        """
        axes = zip(self.padding, self.image, self.seen, strict=True)
        lengths = [max(min(n, seen - before), 0) for before, n, seen in axes]
        pairs = zip(self.padding, lengths, strict=True)
        inside = tuple([slice(before, before + n) for before, n in pairs])
        return (..., *inside), (..., *[slice(n) for n in lengths])


class Block(NamedTuple):
    """Some columns: all columns of some images, or some columns of one image.

    A line of the grid extends along the last axis. The block has `lines` lines; from each line it
    has the `width` positions from `begin` on.
    """

    first: int
    images: int
    line: int
    lines: int
    begin: int
    width: int

    @property
    def columns(self) -> int:
        """The number of columns."""
        return self.images * self.lines * self.width


class Patches:
    """The columns of a batch of images, (n, channels, *image): to read them, or to add columns to
    the images.

    A column has channels * taps elements. All blocks use the same memory, which is allocated once.
    """

    def __init__(self, sliding: Sliding, images: Array) -> None:
        self.sliding, self.images = sliding, images
        n, self.channels = images.shape[:2]
        self.length = self.channels * sliding.taps
        self._has_loops = images.dtype in COMPILED and not is_numpys_turn(_loops, images.dtype)
        self.blocks = list(_blocks(sliding, n, self.length * images.itemsize, self._has_loops))
        self._image = images.reshape(n, self.channels, *sliding.image)
        self._inside, self._part = sliding.inner()
        self._lies_bare = (
            sliding.seen == sliding.image and not any(sliding.padding) and images.flags.c_contiguous
        )
        if sliding.is_identity or not self.blocks:
            return
        most = max(block.images for block in self.blocks)
        self._columns = np.empty(self.length * max(b.columns for b in self.blocks), images.dtype)
        room = (0 if self._lies_bare else most, self.channels, *sliding.seen)
        self._padded = np.zeros(room, images.dtype)

    def gather(self, block: Block) -> Array:
        """Return a block of columns, valid until the next call. Blocks must be given in order."""
        last = block.first + block.images
        if self.sliding.is_identity:
            return matrix_of(self.images, block, self.sliding)
        if self._lies_bare:
            seen = self._image[block.first : last]
        else:
            seen = self._padded[: block.images]
            if block.line == block.begin == 0:
                seen[self._inside] = self._image[block.first : last][self._part]
        columns = self._columns[: self.length * block.columns]
        self.lay_out(seen, columns, block)
        return columns.reshape(self.length, block.columns)

    def lay_out(self, seen: Array, columns: Array, block: Block) -> None:
        """Write a block's columns of `seen`, padded images, into the contiguous array `columns`."""
        if columns.size < _SMALL or not self._has_loops:
            view = _seen_as_columns(seen, self.sliding, block)
            np.copyto(columns.reshape(view.shape), view)
        else:
            _loop("gather", columns.dtype)(seen.reshape(-1), columns, self._words(block))

    def clear(self) -> None:
        """Write zeros to all images, unless scatter overwrites them completely."""
        whole = self._image[self._part].shape == self._image.shape
        if self._lies_bare or not whole or not self.blocks:
            self.images[...] = 0

    def room(self, block: Block) -> Array:
        """Return memory for a block of columns that scatter will add to the images."""
        return self._columns[: self.length * block.columns].reshape(self.length, block.columns)

    def scatter(self, columns: Array, block: Block) -> None:
        """Add a block of columns to the images, after clear. Blocks must be given in order."""
        last = block.first + block.images
        if self._lies_bare:
            seen = self._image[block.first : last]
        else:
            seen = self._padded[: block.images]
            if block.line == block.begin == 0:
                seen.fill(0)
        if columns.size < _SMALL or not self._has_loops:
            view = _seen_as_columns(seen, self.sliding, block)
            given = columns.reshape(view.shape)
            _add_taps(view, given, self.sliding.kernel)
        else:
            _loop("scatter", columns.dtype)(
                seen.reshape(-1), columns.reshape(-1), self._words(block)
            )
        done = block.line * self.sliding.grid[2] + block.begin + block.lines * block.width
        if not self._lies_bare and done == self.sliding.places:
            self._image[block.first : last][self._part] = seen[self._inside]

    def _words(self, block: Block) -> Array:
        sliding = self.sliding
        _, height, width = sliding.seen
        steps = (height * width, width, 1)
        strides = [one * step for one, step in zip(sliding.stride, steps, strict=True)]
        taps = [one * step for one, step in zip(sliding.dilation, steps, strict=True)]
        slab, line = divmod(block.line, sliding.grid[1])
        start = slab * strides[0] + line * strides[1] + block.begin * strides[2]
        return np.array(
            [
                (self.channels, *sliding.seen),
                (block.images, *sliding.kernel),
                (0, *strides),
                (0, *taps),
                (start, line, sliding.grid[1], block.lines),
                (block.width, 0, 0, 0),
            ],
            np.int64,
        )


def _blocks(sliding: Sliding, images: int, column_bytes: int, may_split: bool) -> Iterator[Block]:
    lines, width = math.prod(sliding.grid[:2]), sliding.grid[2]
    columns = max(_BLOCK_BYTES // max(column_bytes, 1), _FEWEST)
    if not sliding.places:
        return
    if sliding.places <= columns or not may_split:
        for first, count in _shares(images, max(columns // sliding.places, 1)):
            yield Block(first, count, 0, lines, 0, width)
        return
    for image in range(images):
        if lines == 1 or width > columns:
            for line in range(lines):
                for begin, count in _shares(width, columns):
                    yield Block(image, 1, line, 1, begin, count)
        else:
            for line, count in _shares(lines, columns // width):
                yield Block(image, 1, line, count, 0, width)


def _shares(length: int, most: int) -> Iterator[tuple[int, int]]:
    """Split `length` into nearly equal shares of at most `most`; yield each start and length."""
    pieces = -(-length // most)
    for i in range(pieces):
        start = length * i // pieces
        yield start, length * (i + 1) // pieces - start


def matrix_of(array: Array, block: Block, sliding: Sliding) -> Array:
    """Return the part of an array (n, channels, *grid) that belongs to a block's columns, as a
    matrix. The matrix is a view if the block has one image.
    """
    channels, last = array.shape[1], block.first + block.images
    flat = array.reshape(len(array), channels, sliding.places)
    if block.images == 1:
        start = block.line * sliding.grid[2] + block.begin
        return flat[block.first, :, start : start + block.columns]
    return flat[block.first : last].swapaxes(0, 1).reshape(channels, block.columns)


@silent
def _add_taps(view: Array, given: Array, kernel: Sizes) -> None:
    for tap in np.ndindex(kernel):
        view[:, *tap] += given[:, *tap]


def _seen_as_columns(seen: Array, sliding: Sliding, block: Block) -> Array:
    """Return the columns of whole padded images, as a view of the shape (channels, *kernel, images,
    *grid).
    """
    steps = seen.strides
    strides = [step * by for step, by in zip(steps[2:], sliding.stride, strict=True)]
    taps = [step * by for step, by in zip(steps[2:], sliding.dilation, strict=True)]
    shape = (seen.shape[1], *sliding.kernel, block.images, *sliding.grid)
    return as_strided(seen, shape, (steps[1], *taps, steps[0], *strides))


@cache
def _loop(name: str, dtype: Any) -> Any:
    """Return gather or scatter of patch_loops.entry as a function of arrays instead of ids."""
    run = find_function("nn.patch_loops", "entry", name, dtype.name)

    def lay(padded: Array, columns: Array, words: Array) -> None:
        # See Note [Reading array objects] in array_objects.py.
        require_arrays(padded, columns, words)
        run(id(padded), id(columns), id(words))

    return lay


def _loops(dtype: Any) -> None:
    for name in ("gather", "scatter"):
        _loop(name, dtype)


def unfold(
    x: Array, out: Array, kernel: Sizes, grid: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes
) -> None:
    """Write the columns of x, (n, c, *image), into out, (n, c * prod(kernel), prod(grid))."""
    sliding = Sliding.of(x.shape[2:], kernel, grid, stride, padding, dilation)
    patches = Patches(sliding, x)
    for block in patches.blocks:
        found = patches.gather(block)
        whole = out[block.first : block.first + block.images]
        if block.images == 1:
            start = block.line * sliding.grid[2] + block.begin
            whole[0, :, start : start + block.columns] = found
        else:
            parts = found.reshape(patches.length, block.images, sliding.places)
            whole[...] = parts.swapaxes(0, 1)


def fold(
    x: Array, out: Array, kernel: Sizes, grid: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes
) -> None:
    """Sum the columns of x, each at its position in the images, into out: the adjoint of unfold.

    x: (n, c * prod(kernel), prod(grid)); out: (n, c, *image).
    """
    sliding = Sliding.of(out.shape[2:], kernel, grid, stride, padding, dilation)
    patches = Patches(sliding, out)
    patches.clear()
    for block in patches.blocks:
        columns = matrix_of(x, block, sliding)
        patches.scatter(np.ascontiguousarray(columns), block)

"""Generators: each has a seed, and the used length of the seed's stream of random numbers."""

from __future__ import annotations

import operator
import os
import sys
import threading
from collections.abc import Callable, Sequence
from math import prod
from operator import index
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np

from ..core.device import CPU, Device
from ..core.errors import DTypeError
from ..core.folded_frames import folds
from ..system.forked_locks import renew_in_children
from . import philox

DEFAULT_SEED: Final = 67280421310721
_STATE_BYTES: Final = 16


# Note [Draws in a graph]
# A replayed CUDA graph must draw new numbers at each replay, but the arguments of its kernels are
# fixed at the capture. So captured kernels read the seed and the first block of a replay from an
# array in the device's memory. Their arguments are only offsets from that block. Each replay
# reserves as many blocks of the generator as the capture counted, and writes the seed and the first
# of these blocks to that array. A replay thus draws the same numbers as the program without a
# graph.


class CapturedDraws:
    """The number of blocks that a graph draws from a generator, and the array from which the
    graph's kernels read the seed and the first block.

    Thread  only the capturing thread
    """

    def __init__(self, place: Any) -> None:
        self.place, self.blocks = place, 0

    def reserve(self, blocks: int) -> tuple[Any, int]:
        """Count blocks. Return the array that replaces the seed, and the offset of the first block
        from the start of a replay.
        """
        first, self.blocks = self.blocks, self.blocks + operator.index(blocks)
        return self.place, first


class Bookmark(NamedTuple):
    """The position of a Generator: its seed, and its next block (`offset`). In a captured graph,
    `offset` is relative to the first block of a replay.
    """

    seed: int | None
    offset: int
    captured: CapturedDraws | None = None


class Generator:
    """A stream of random numbers. Each draw reserves a part of it, so threads never share numbers.

    Thread  any; the program must order the draws of two threads if the order matters
    Note    devices call `reserve`, and give the seed and the first block to their kernels, which
            compute the same numbers as `philox`
    Raises  DeviceError if the device is unknown

    Args:
        device: The device on which numbers are drawn.

    Example:
        >>> generator = torch.Generator().manual_seed(1)
        >>> torch.rand(2, generator=generator).shape
        fastdist.Size([2])
    """

    # Guards _seed and _offset of all generators. It is held for a few assignments, without any
    # call: a signal handler could run during a call, and handlers may draw numbers or save the
    # state. From Python 3.14 on, a handler may run right after the lock is taken, before any
    # assignment. So the lock is reentrant.
    _stream_lock = threading.RLock()

    # Defaults for subclasses whose __init__ does not call this one: such generators are on the CPU.
    device: Device = CPU
    # The draws of the graph that is being captured, if any. See Note [Draws in a graph].
    captured: CapturedDraws | None = None
    _seed = DEFAULT_SEED
    _offset = 0

    @folds
    def __init__(self, device: str | Device = CPU) -> None:
        self.device = Device.parse(device)

    @folds
    def manual_seed(self, seed: int) -> Generator:
        """Restart the stream from a seed.

        Raises  RuntimeError for a seed outside of -2**63 ... 2**64 - 1
        """
        self._require_no_capture("manual_seed")
        seed = index(seed)
        if not -(1 << 63) <= seed < 1 << 64:
            raise RuntimeError(f"manual_seed: {seed} is not in -2**63 ... 2**64 - 1")
        with self._stream_lock:
            self._seed, self._offset = seed % (1 << 64), 0
        return self

    def seed(self) -> int:
        """Restart the stream from an unpredictable seed, and return that seed."""
        seed = int.from_bytes(os.urandom(8), "little")
        self.manual_seed(seed)
        return seed

    def initial_seed(self) -> int:
        """Return the seed of this stream."""
        return self._seed

    # Converts an array to the Tensor that get_state returns. ops/create/random.py sets it.
    as_tensor: ClassVar[Callable[[np.ndarray], Any]] = staticmethod(lambda array: array)

    def get_state(self) -> Any:
        """Return the position in the stream as a Tensor that any generator's `set_state` accepts.

        Shape   (16,)
        Dtype   uint8
        """
        return type(self).as_tensor(self._state())

    def _require_no_capture(self, function: str) -> None:
        if self.captured is not None:
            raise RuntimeError(
                f"Cannot call {function} during CUDA graph capture: the offset of the random "
                "numbers is known only at a replay; call it before the capture"
            )

    def _state(self) -> np.ndarray:
        self._require_no_capture("get_state")
        with self._stream_lock:
            state = [self._seed, self._offset]
        return np.array(state, "<u8").view(np.uint8)

    @folds
    def set_state(self, new_state: Any) -> Generator:
        """Continue from the position in `new_state`, and return this generator.

        Raises  RuntimeError for a value that get_state cannot have returned
        """
        self._require_no_capture("set_state")
        state = np.asarray(new_state)
        if state.dtype != np.uint8 or state.shape != (_STATE_BYTES,):
            raise DTypeError(
                f"RNG state must be a torch.ByteTensor: expected {_STATE_BYTES} bytes of dtype "
                f"uint8, as from get_state; got shape {state.shape} of {state.dtype}"
            )
        seed, offset = np.ascontiguousarray(state).view("<u8").tolist()
        with self._stream_lock:
            self._seed, self._offset = seed, offset
        return self

    def bookmark(self) -> Bookmark:
        """Return the position in the stream. During a capture, return the number of blocks that the
        graph has drawn so far.
        """
        if (captured := self.captured) is not None:
            return Bookmark(None, captured.blocks, captured)
        with self._stream_lock:
            return Bookmark(self._seed, self._offset)

    def go_to(self, mark: Bookmark) -> None:
        """Continue from a bookmark.

        Raises  RuntimeError if the bookmark was made in one capture, and this generator is in
                another capture or in none; or if the bookmark was made outside of captures, and
                this generator is in a capture. A graph draws new numbers at each replay, so numbers
                from elsewhere cannot be repeated in it
        """
        if mark.captured is not self.captured:
            raise RuntimeError(
                f"random numbers of {self.device} drawn in one CUDA graph, or outside of all, "
                "cannot be drawn again in another: capture forward and backward as one graph, or "
                "give the checkpoint preserve_rng_state=False"
            )
        if mark.captured is not None:
            mark.captured.blocks = mark.offset
            return
        with self._stream_lock:
            self._seed, self._offset = mark.seed or 0, mark.offset

    def reserve(self, blocks: int) -> tuple[int, int]:
        """Reserve blocks of the stream; return the seed and the first of these blocks."""
        blocks = operator.index(blocks)  # a non-integer would spoil all later draws
        with self._stream_lock:
            seed, first = self._seed, self._offset
            self._offset = (first + blocks) % (1 << 64)
        return seed, first

    def uniform(self, shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray:
        """Return numbers in [0, 1)."""
        part = self.reserve_uniform(shape, dtype)
        return philox.uniform(*part, prod(shape), dtype).reshape(shape)

    def reserve_uniform(
        self, shape: Sequence[int], dtype: np.dtype[Any], *, of: CapturedDraws | None = None
    ) -> tuple[Any, int]:
        """Reserve the blocks that `uniform` needs, for a kernel that computes the numbers. With
        `of`, reserve blocks of that captured graph.
        """
        return (of or self).reserve(philox.blocks_for(prod(shape), philox.words_each(dtype)))

    def normal(self, shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray:
        """Return numbers with mean 0 and standard deviation 1."""
        part = self.reserve_normal(shape, dtype)
        return philox.normal(*part, prod(shape), dtype).reshape(shape)

    def reserve_normal(
        self, shape: Sequence[int], dtype: np.dtype[Any], *, of: CapturedDraws | None = None
    ) -> tuple[Any, int]:
        """Reserve the blocks that `normal` needs, like reserve_uniform."""
        count = prod(shape)
        return (of or self).reserve(philox.blocks_for(count + count % 2, philox.words_each(dtype)))

    def open_uniform(self, shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray:
        """Return float64 numbers in (0, 1); each uses as many words as a number of `dtype`."""
        part = self.reserve_uniform(shape, dtype)
        return philox.open_uniform(*part, prod(shape), dtype).reshape(shape)

    def integers(self, low: int, high: int, shape: Sequence[int]) -> np.ndarray:
        """Return integers in [low, high), as int64.

        Raises  RuntimeError if the range is empty, or does not fit in int64
        """
        count = prod(shape)
        seed, first, low, high = self.reserve_integers(low, high, (count,))
        return philox.integers(seed, first, count, low, high).reshape(shape)

    def reserve_integers(
        self, low: int, high: int, shape: Sequence[int], *, of: CapturedDraws | None = None
    ) -> tuple[Any, int, int, int]:
        """Reserve the blocks that `integers` needs, like reserve_uniform; return the kernel's
        arguments: seed, first block, low and high.

        Raises  RuntimeError for the same ranges as `integers`
        """
        if low >= high:
            raise RuntimeError(
                f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"
            )
        if low < -(1 << 63) or high > 1 << 63:
            raise RuntimeError(f"random_: {low} ... {high - 1} does not fit int64")
        return *(of or self).reserve(philox.blocks_for(prod(shape), 2)), low, high

    def permutation(self, count: int) -> np.ndarray:
        """Return 0 ... count-1 in random order, as int64."""
        return philox.permutation(*self.reserve(philox.blocks_for(count, 2)), count)

    def __repr__(self) -> str:
        return f"<Generator of {self.device}, seed {self._seed}, {self._offset} blocks used>"

    def __reduce__(self) -> tuple[object, ...]:
        return _restore, (self.device, self._state())


def _restore(device: Device, state: np.ndarray) -> Generator:
    return Generator(device).set_state(state)


# Guards _defaults and _default_seed. It is reentrant, because a finalizer or a signal handler may
# draw numbers while its thread holds the lock.
_defaults_lock = threading.RLock()
_defaults: Final[dict[Device, Generator]] = {}
renew_in_children(sys.modules[__name__], "_defaults_lock")
renew_in_children(Generator, "_stream_lock")
# Different in every process: workers that set no seed must not draw the same numbers.
_default_seed = int.from_bytes(os.urandom(8), "little")


def default_generator_of(device: Device) -> Generator:
    """Return the default generator of a device, and create it on the first call."""
    generator = _defaults.get(device)
    if generator is not None:
        return generator  # entries are never removed; a call without the lock takes 1/5 the time
    with _defaults_lock:
        generator = _defaults.get(device)
        if generator is None:
            generator = _defaults[device] = Generator(device).manual_seed(_default_seed)
        return generator


def default_generators() -> tuple[Generator, ...]:
    """Return the default generators of all devices that have one so far."""
    with _defaults_lock:
        return tuple(_defaults.values())


def bookmarks(*more: Generator) -> list[tuple[Generator, Bookmark]]:
    """Return the positions of the default generators, and of the generators in `more`."""
    return [(one, one.bookmark()) for one in (*default_generators(), *more)]


def go_to_all(marks: list[tuple[Generator, Bookmark]]) -> None:
    """Continue from the positions that `bookmarks` returned."""
    for generator, mark in marks:
        generator.go_to(mark)


@folds
def manual_seed(seed: int) -> Generator:
    """Seed the default generators of all devices.

    Raises  RuntimeError if seed is below -2**63 or above 2**64 - 1

    Args:
        seed: An integer of at most 64 bits.

    Returns:
        The CPU's default generator.

    Example:
        >>> generator = torch.manual_seed(3)
        >>> first = torch.rand(2)
        >>> generator = torch.manual_seed(3)
        >>> torch.equal(first, torch.rand(2))
        True
    """
    global _default_seed
    seed = int(seed)  # as in PyTorch, only this function also accepts a string of digits
    default = default_generator_of(CPU)
    with _defaults_lock:
        # Seed each generator only once: if another thread drew numbers between two seedings, the
        # generator would draw the same numbers again.
        for generator in tuple(_defaults.values()):
            generator.manual_seed(seed)
        _default_seed = seed
    return default


def seed() -> int:
    """Seed the default generators with an unpredictable seed, and return it."""
    fresh = int.from_bytes(os.urandom(8), "little")
    manual_seed(fresh)
    return fresh


def initial_seed() -> int:
    """Return the seed of the CPU's default generator."""
    return default_generator_of(CPU).initial_seed()


default_generator: Final = default_generator_of(CPU)

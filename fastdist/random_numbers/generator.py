"""Generators: a seed, and how far its stream of random numbers has been used."""

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
from ..system.forked_locks import renew_in_children
from . import philox

DEFAULT_SEED: Final = 67280421310721
_STATE_BYTES: Final = 16


# Note [Draws in a graph]
# Kernels that a graph replays must not draw the same each time, and get their start in the stream
# by value. So captured kernels count from 0, from a place that they read in the device's memory,
# its seed and its first block. Each replay takes as many blocks out of the generator as the capture
# counted, and writes their start there: it draws what the program would have drawn at that point
# without a graph.


class CapturedDraws:
    """How many blocks a graph draws of a generator, and the array in which its kernels find from
    where.

    Thread  the one that captures
    """

    def __init__(self, place: Any) -> None:
        self.place, self.blocks = place, 0

    def reserve(self, blocks: int) -> tuple[Any, int]:
        """Count blocks; return what stands for a seed, and the first of them behind the place."""
        first, self.blocks = self.blocks, self.blocks + operator.index(blocks)
        return self.place, first


class Bookmark(NamedTuple):
    """Where a Generator stands: its seed, and its first block; of a captured graph, behind what it
    reads at a replay.
    """

    seed: int | None
    offset: int
    captured: CapturedDraws | None = None


class Generator:
    """A stream of random numbers. Each draw reserves its part, so threads never share numbers.

    Thread  any; the program must order draws of two threads if their order matters
    Note    `reserve` is for devices: their kernels make the numbers of `philox` from (seed, first
            block)

    Args:
        device: Where numbers are drawn.

    Example:
        >>> generator = torch.Generator().manual_seed(1)
        >>> torch.rand(2, generator=generator).shape
        fastdist.Size([2])
    """

    # Guards _seed and _offset, of all generators: it is held for a few assignments. Nothing is
    # called under it: the handler of a signal, which may draw, or save the state, would come in
    # there. From Python 3.14 on it may come in right behind its taking, where nothing has begun: so
    # it can be taken twice.
    _stream_lock = threading.RLock()

    # For a subclass that skips __init__; it is on the CPU as well.
    device: Device = CPU
    # While a graph is captured: where its kernels draw. See Note [Draws in a graph].
    captured: CapturedDraws | None = None
    _seed = DEFAULT_SEED
    _offset = 0

    def __init__(self, device: str | Device = CPU) -> None:
        self.device = Device.parse(device)

    def manual_seed(self, seed: int) -> Generator:
        """Begin the stream of a seed.

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
        """Begin the stream of a seed that nobody can foresee, and return that seed."""
        seed = int.from_bytes(os.urandom(8), "little")
        self.manual_seed(seed)
        return seed

    def initial_seed(self) -> int:
        """Return the seed of this stream."""
        return self._seed

    # Makes the Tensor that get_state returns of an array; set by ops/create/random.py.
    as_tensor: ClassVar[Callable[[np.ndarray], Any]] = staticmethod(lambda array: array)

    def get_state(self) -> Any:
        """Return where the stream stands, as a Tensor for set_state of any generator.

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

    def set_state(self, new_state: Any) -> Generator:
        """Go on from where another stream stood, and return this generator.

        Raises  RuntimeError for what get_state cannot have returned
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
        """Return where the stream stands, or a graph's part of it that is being captured."""
        if (captured := self.captured) is not None:
            return Bookmark(None, captured.blocks, captured)
        with self._stream_lock:
            return Bookmark(self._seed, self._offset)

    def go_to(self, mark: Bookmark) -> None:
        """Draw from a bookmark on.

        Raises  RuntimeError for one of a graph that is not being captured now, or while one is that
                the bookmark knows nothing of: its numbers come with each replay
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
        """Take blocks out of the stream; return its seed and the first of them."""
        blocks = operator.index(blocks)  # of a shape that is none, it would spoil all later draws
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
        """Take the blocks of uniform out of the stream, or of a graph's part of it, for a kernel
        that makes its numbers.
        """
        return (of or self).reserve(philox.blocks_for(prod(shape), philox.words_each(dtype)))

    def normal(self, shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray:
        """Return numbers of mean 0 and deviation 1."""
        part = self.reserve_normal(shape, dtype)
        return philox.normal(*part, prod(shape), dtype).reshape(shape)

    def reserve_normal(
        self, shape: Sequence[int], dtype: np.dtype[Any], *, of: CapturedDraws | None = None
    ) -> tuple[Any, int]:
        """Take the blocks of normal, as reserve_uniform."""
        count = prod(shape)
        return (of or self).reserve(philox.blocks_for(count + count % 2, philox.words_each(dtype)))

    def open_uniform(self, shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray:
        """Return numbers in (0, 1) as float64, as fine as dtype has words."""
        part = self.reserve_uniform(shape, dtype)
        return philox.open_uniform(*part, prod(shape), dtype).reshape(shape)

    def integers(self, low: int, high: int, shape: Sequence[int]) -> np.ndarray:
        """Return integers in [low, high), as int64.

        Raises  RuntimeError if there is none, or int64 does not hold them
        """
        count = prod(shape)
        seed, first, low, high = self.reserve_integers(low, high, (count,))
        return philox.integers(seed, first, count, low, high).reshape(shape)

    def reserve_integers(
        self, low: int, high: int, shape: Sequence[int], *, of: CapturedDraws | None = None
    ) -> tuple[Any, int, int, int]:
        """Take the blocks of integers, as reserve_uniform; return the kernel's arguments: seed,
        first block, low and high.

        Raises  RuntimeError as integers does
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


# Guards the two below; re-entered by finalizers and handlers of signals that draw.
_defaults_lock = threading.RLock()
_defaults: Final[dict[Device, Generator]] = {}
renew_in_children(sys.modules[__name__], "_defaults_lock")
renew_in_children(Generator, "_stream_lock")
# Another in every process: workers that nobody has seeded must not draw the same noise.
_default_seed = int.from_bytes(os.urandom(8), "little")


def default_generator_of(device: Device) -> Generator:
    """Return the generator that draws on a device use unless they are given another."""
    generator = _defaults.get(device)
    if generator is not None:
        return generator  # entries stay, and without the lock it takes a fifth of the time
    with _defaults_lock:
        generator = _defaults.get(device)
        if generator is None:
            generator = _defaults[device] = Generator(device).manual_seed(_default_seed)
        return generator


def default_generators() -> tuple[Generator, ...]:
    """Return the generators that default_generator_of has returned, of all devices."""
    with _defaults_lock:
        return tuple(_defaults.values())


def manual_seed(seed: int) -> Generator:
    """Restart the default generators of all devices from a seed.

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
    seed = int(seed)  # of a number or of digits, as PyTorch takes them here alone
    default = default_generator_of(CPU)
    with _defaults_lock:
        # Each once: what another thread draws meanwhile must not be drawn again.
        for generator in tuple(_defaults.values()):
            generator.manual_seed(seed)
        _default_seed = seed
    return default


def seed() -> int:
    """Let the default generators begin the stream of a seed that nobody can foresee; return it."""
    fresh = int.from_bytes(os.urandom(8), "little")
    manual_seed(fresh)
    return fresh


def initial_seed() -> int:
    """Return the seed of the CPU's default generator."""
    return default_generator_of(CPU).initial_seed()


default_generator: Final = default_generator_of(CPU)

"""Random arguments for guarded calls: shapes, layouts and indices, some of them invalid."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

import fastdist as fd

T = TypeVar("T")

# Numbers that are invalid as an index, size or stride in most calls.
EXTREMES = (
    -1, -2, 0, 1, 2, 1000, 4095, 4096, 65536, 10**6, 10**9, 2**31 - 1, 2**31, -(2**31), 2**32,
    2**33 + 1, -(2**33), 2**62, -(2**62), 2**63 - 1, -(2**63), -(2**63) + 1,
)  # fmt: skip


class WrongResult(Exception):
    """A call returned an impossible result."""


class Call(NamedTuple):
    """A call, and whether invalid numbers must make it raise; None means that it may raise."""

    run: Callable[[], Any]
    is_wrong: bool | None = None


KINDS: dict[str, Callable[[Draw], Call]] = {}


def kind(make: Callable[[Draw], Call]) -> Callable[[Draw], Call]:
    """Register a function that creates calls, by the name of the function."""
    KINDS[make.__name__] = make
    return make


class Draw:
    """Random choices for one call, reproducible from its name and number."""

    def __init__(self, name: str, number: int, *, only_right: bool = False) -> None:
        self.random = random.Random(f"{name} {number}")
        self.numpy = np.random.default_rng(self.random.getrandbits(63))
        self._only_right = only_right
        # The first calls, which ordinary runs make, use one dtype only, since the kernels must be
        # compiled for each dtype.
        self._dtypes = ["f4"] if number < 30 else ["f4", "f4", "f4", "f8"]

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick(self, values: Sequence[T]) -> T:
        return self.random.choice(values)

    def number(self, low: int, high: int) -> int:
        """Return an integer from low to high, inclusive."""
        return self.random.randint(low, high)

    def length(self, *, large: bool | None = None) -> int:
        """Return an axis length: small, or large enough for a kernel's vectors and threads."""
        large = self.chance(0.35) if large is None else large
        return self.number(60, 260) if large else self.number(1, 9)

    def lengths(self, count: int) -> tuple[int, ...]:
        large = self.chance(0.35)
        return tuple(self.length(large=large) for _ in range(count))

    def wrong_or(self, value: int, probability: float = 0.3) -> int:
        """Return value, or an invalid number with this probability."""
        if self._only_right or not self.chance(probability):
            return value
        return self.pick((*EXTREMES, -value, value + 1, value - 1))

    def array(self, shape: Sequence[int], dtype: str) -> np.ndarray:
        """Return integers from 1 to 7, in one of several layouts."""
        count = int(np.prod(shape))
        return self.laid_out((np.arange(count) % 7 + 1).astype(dtype).reshape(shape))

    def laid_out(self, array: np.ndarray) -> np.ndarray:
        """Return the same numbers with other strides."""
        choice = self.random.random()
        if choice < 0.6 or array.ndim == 0:
            return np.array(array)
        if choice < 0.75:
            return np.asfortranarray(array)
        if choice < 0.9:
            wide = np.ones([2 * n for n in array.shape], array.dtype)
            view = wide[tuple(slice(None, None, 2) for _ in array.shape)]
            view[...] = array
            return view
        return np.array(array[..., ::-1])[..., ::-1]

    def tensor(self, *shape: int, dtype: str = "", grad: float = 0.0) -> fd.Tensor:
        """Return a tensor that requires a gradient with probability `grad`."""
        made = fd.from_numpy(self.array(shape, dtype or self.pick(self._dtypes)))
        return made.requires_grad_() if self.chance(grad) else made

    def indices(
        self, shape: Sequence[int], high: int, low: int = 0, dtype: str = "i8", wrong: float = 0.5
    ) -> fd.Tensor:
        """Return indices in [low, high); with probability `wrong`, one of them is out of range."""
        array = np.zeros(shape, dtype)
        if array.size:
            array[...] = self.numpy.integers(low, max(high, low + 1), shape)
            if not self._only_right and self.chance(wrong):
                limits = np.iinfo(dtype)
                value = self.pick((*EXTREMES, high, high + 1, -high, -high - 1, high - 1))
                place = self.random.randrange(array.size)
                array.reshape(-1)[place] = min(max(value, limits.min), limits.max)
        if array.ndim and array.shape[0] > 1 and self.chance(0.1):
            return fd.from_numpy(np.array(array[:1])).expand(*array.shape)
        return fd.from_numpy(self.laid_out(array))

    def index_dtype(self) -> str:
        return self.pick(["i8", "i8", "i8", "i4"])


def outside(indices: fd.Tensor, high: int, low: int = 0) -> bool:
    """Return whether any index is outside [low, high)."""
    array = indices.numpy()
    return bool(((array < low) | (array >= high)).any())


def outside_both_ways(indices: fd.Tensor, length: int) -> bool:
    """Return whether an index is out of range, if negative indices count from the end."""
    return outside(indices, length, -length)


def with_backward(run: Callable[[], Any], *leaves: fd.Tensor) -> Callable[[], Any]:
    """Return a call that also computes gradients of those leaves that require them."""
    wanted = [leaf for leaf in leaves if leaf.requires_grad]

    def run_both() -> Any:
        found = run()
        first = found[0] if isinstance(found, tuple) else found
        if not wanted or not isinstance(first, fd.Tensor) or not first.requires_grad:
            return found
        first.sum().backward()
        return [first.detach(), *[leaf.grad for leaf in wanted]]

    return run_both


def tensors_in(found: Any) -> Iterator[fd.Tensor]:
    """Yield the tensors in a result."""
    if isinstance(found, fd.Tensor):
        yield found
    elif isinstance(found, (list, tuple)):
        for one in found:
            yield from tensors_in(one)

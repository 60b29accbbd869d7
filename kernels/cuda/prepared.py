"""Launches that are planned once per layout, and then repeated."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, Final

import numpy as np

from .launch import ByValue, Call, Launch, Scratch, Slot, Struct, kernel_of

# Note [Prepared launches]
# The sources, grids and extents of a kernel's launches follow from the layouts of its arrays, from
# whether they begin at multiples of 16 bytes, and from its numbers. So a kernel function runs once
# for each combination of these, with slots in place of arrays: `launch` records launches on slots
# instead of running them. The record holds no memory: each later call supplies the arrays. Work of
# a library is a Call in the record (product.py), and so is work on parts of arrays
# (convolution.py). A kernel function that reads the values of arrays is not marked by
# `only_launches`, and runs at each call. A kernel that depends on whether the user waived
# repeatable results is recorded separately for both cases.

# The largest number of records of a kernel.
_MOST: Final = 256


def only_launches(kernel: Callable[..., None]) -> Callable[..., None]:
    """Mark a kernel that only makes launches, which follow from layouts alone."""
    kernel.only_launches = True  # type: ignore[attr-defined]
    return kernel


def heeds_determinism(kernel: Callable[..., None]) -> Callable[..., None]:
    """Mark a kernel whose launches also depend on whether the user waived repeatable results."""
    kernel.heeds_determinism = True  # type: ignore[attr-defined]
    return kernel


def on_device_of_out(kernel: Callable[..., None]) -> Callable[..., None]:
    """Return a kernel that runs on the device of `out`; for kernels that do more than launch."""
    place = list(inspect.signature(kernel).parameters).index("out")

    @functools.wraps(kernel)
    def run(*given: Any) -> None:
        with given[place].device:
            kernel(*given)

    return run


class Prepared:
    """Recorded launches, which run on any arrays that have the layouts of the plan."""

    __slots__ = ("_numbers", "_others", "_scratch", "_steps", "run")
    run: Callable[[tuple[Any, ...]], object]

    def __init__(self, launches: Sequence[Launch | Call], count: int) -> None:
        """Prepare launches over slots; a call has `count` arrays."""
        args = [_base(arg) for step in launches for arg in step.args]
        numbers = [arg for arg in args if isinstance(arg, ByValue)]
        scratch = list(dict.fromkeys([arg for arg in args if isinstance(arg, Scratch)]))
        others = [arg for arg in args if not isinstance(arg, Slot | ByValue | Scratch)]
        # The id of each argument that is not an array of a call -> its position, after the arrays.
        behind = {id(arg): count + i for i, arg in enumerate([*numbers, *scratch, *others])}
        self._numbers = [(number.slot.place, number.kind) for number in numbers]
        self._scratch = [(one.shape, one.dtype) for one in scratch]
        self._others = tuple([one.fields if isinstance(one, Struct) else one for one in others])
        self._steps = [
            (
                *_called(step),
                itemgetter(
                    *[
                        arg.place if isinstance(arg, Slot) else behind[id(_base(arg))]
                        for arg in step.args
                    ]
                ),
            )
            for step in launches
        ]
        self.run = self._run_all
        if len(launches) == 1 and not numbers and not scratch:
            only = launches[0].args
            places = [arg.place if isinstance(arg, Slot) else behind[id(arg)] for arg in only]
            in_order = places == [*range(count + len(others))]
            direct = getattr(self._steps[0][0], "multiply", None)
            if in_order and direct is not None:
                self.run = direct  # a library's product, which has no grid
            else:
                self.run = _one_launch(*self._steps[0], self._others, in_order=in_order)

    def _run_all(self, given: tuple[Any, ...]) -> None:
        """Launch over the arrays of a call, on the current stream of the current device."""
        pool = given
        if self._numbers:
            pool += tuple([kind(given[place][()]) for place, kind in self._numbers])
        if self._scratch:
            # Freed while the kernels still run, see `launch` in launch.py.
            pool += tuple([_empty(shape, dtype) for shape, dtype in self._scratch])
        pool += self._others
        for kernel, grid, block, arguments in self._steps:
            kernel(grid, block, arguments(pool))


def _one_launch(
    kernel: Callable[..., None],
    grid: Any,
    block: Any,
    arguments: Callable[[Any], Any],
    others: tuple[Any, ...],
    *,
    in_order: bool,
) -> Callable[[tuple[Any, ...]], object]:
    """Return the function that launches over the arrays of a call, for a single launch without
    numbers and scratch. `in_order` says that the kernel takes the arrays and then `others`.
    """
    if in_order and others:
        return lambda given: kernel(grid, block, (*given, *others))
    if in_order:
        # `multiply` of a library's product takes only the arrays.
        of_arrays: Callable[[tuple[Any, ...]], object] | None = getattr(kernel, "multiply", None)
        return of_arrays or (lambda given: kernel(grid, block, given))
    return lambda given: kernel(grid, block, arguments((*given, *others)))


def _base(arg: Any) -> Any:
    return arg.base if isinstance(arg, Scratch) else arg


def _called(step: Launch | Call) -> tuple[Any, Any, Any]:
    if isinstance(step, Call):
        return step.library, None, None
    return kernel_of(step.source, step.name), step.grid, (step.threads,)


def _empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    import cupy

    return cupy.empty(shape, dtype)


class PreparedTable(dict[Any, Prepared]):
    """The recorded launches of a kernel, by the key of a call's arrays; cleared when it is full."""

    def __init__(self, kernel: Callable[..., None], numbers: Sequence[Any] = ()) -> None:
        self._kernel, self._numbers = kernel, numbers

    def run(self, *given: Any) -> None:
        """Launch over arrays, on the current stream of the current device."""
        key = key_of(given)
        (self.get(key) or self.prepare(key, given)).run(given)

    def prepare(self, key: Any, given: Sequence[Any]) -> Prepared:
        """Record and return the launches of the kernel for arrays with the layouts of the given
        arrays; None stands for a missing array.
        """
        launches: list[Launch | Call] = []
        aligned = is_aligned(given)
        slots = [
            None if array is None else Slot(place, array, launches, aligned=aligned)
            for place, array in enumerate(given)
        ]
        self._kernel(*slots, *self._numbers)
        if len(self) >= _MOST:
            self.clear()
        self[key] = made = Prepared(launches, len(slots))
        return made


_NumpyArray: Final = np.ndarray


def key_of(given: Sequence[Any], outs: Sequence[Any] = ()) -> tuple[Any, ...]:
    """Return the key of everything that launches depend on: layouts, which arguments are numbers,
    and alignment. For `outs`, whose layouts are the same at each call, the key has only the
    alignment.
    """
    # This runs at each call of an op, so no attribute of a global is read, and list[Any]() is
    # avoided, which takes 0.3 us.
    key: list[Any] = []
    places = 0
    for array in given:
        if array is None:
            key.append(None)
        elif array.__class__ is _NumpyArray:
            key += array.dtype, array.shape, array.strides, _NumpyArray
        else:
            places |= array.data.ptr
            key += array.dtype, array.shape, array.strides
    for array in outs:
        places |= array.data.ptr
    key.append(places & 15 == 0)
    return tuple(key)


def is_aligned(given: Sequence[Any]) -> bool:
    """Return whether all given CUDA arrays begin at multiples of 16 bytes."""
    places = 0
    for array in given:
        if array is not None and array.__class__ is not np.ndarray:
            places |= array.data.ptr
    return not places & 15

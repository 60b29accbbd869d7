"""PyTorch's pipes over iterables, except those pipes that need files or a network."""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..core.missing import explain_missing
from .collate import default_collate
from .pipes import IterDataPipe, functional_datapipe

__all__ = [
    "Batcher",
    "Collator",
    "Concater",
    "Filter",
    "IterableWrapper",
    "Mapper",
    "Shuffler",
    "Zipper",
]


class IterableWrapper(IterDataPipe):
    """A pipe over an iterable. With `deepcopy`, each pass reads a deep copy of the iterable."""

    def __init__(self, iterable: Iterable[Any], deepcopy: bool = True) -> None:
        self.iterable, self.deepcopy = iterable, deepcopy

    def __iter__(self) -> Iterator[Any]:
        yield from copy.deepcopy(self.iterable) if self.deepcopy else self.iterable

    def __len__(self) -> int:
        return len(self.iterable)  # type: ignore[arg-type]


@functional_datapipe("map")
class Mapper(IterDataPipe):
    """A pipe of fn(element) for each element."""

    def __init__(self, datapipe: Iterable[Any], fn: Callable[..., Any]) -> None:
        self.datapipe, self.fn = datapipe, fn

    def __iter__(self) -> Iterator[Any]:
        return map(self.fn, self.datapipe)

    def __len__(self) -> int:
        return len(self.datapipe)  # type: ignore[arg-type]


@functional_datapipe("collate")
class Collator(Mapper):
    """A pipe that collates batches into tensors."""

    def __init__(
        self, datapipe: Iterable[Any], conversion: Any = default_collate, collate_fn: Any = None
    ) -> None:
        super().__init__(datapipe, collate_fn or conversion)


@functional_datapipe("filter")
class Filter(IterDataPipe):
    """A pipe of the elements for which filter_fn(element) is true."""

    def __init__(self, datapipe: Iterable[Any], filter_fn: Callable[..., Any]) -> None:
        self.datapipe, self.filter_fn = datapipe, filter_fn

    def __iter__(self) -> Iterator[Any]:
        return filter(self.filter_fn, self.datapipe)


@functional_datapipe("batch")
class Batcher(IterDataPipe):
    """A pipe of lists of batch_size elements; drop_last leaves out a shorter last list."""

    def __init__(
        self,
        datapipe: Iterable[Any],
        batch_size: int,
        drop_last: bool = False,
        wrapper_class: Callable[[list[Any]], Any] = list,
    ) -> None:
        self.datapipe, self.batch_size = datapipe, batch_size
        self.drop_last, self.wrapper_class = drop_last, wrapper_class

    def __iter__(self) -> Iterator[Any]:
        elements = iter(self.datapipe)
        while batch := list(itertools.islice(elements, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield self.wrapper_class(batch)

    def __len__(self) -> int:
        whole, rest = divmod(len(self.datapipe), self.batch_size)  # type: ignore[arg-type]
        return whole + (rest > 0 and not self.drop_last)


@functional_datapipe("concat")
class Concater(IterDataPipe):
    """A pipe of the elements of several pipes, one after another."""

    def __init__(self, *datapipes: Iterable[Any]) -> None:
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        return itertools.chain(*self.datapipes)

    def __len__(self) -> int:
        parts: Any = self.datapipes
        return sum(map(len, parts))


@functional_datapipe("zip")
class Zipper(IterDataPipe):
    """A pipe of tuples with one element of each given pipe; it ends with the shortest pipe."""

    def __init__(self, *datapipes: Iterable[Any]) -> None:
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        return zip(*self.datapipes, strict=False)

    def __len__(self) -> int:
        parts: Any = self.datapipes
        return min(map(len, parts))


@functional_datapipe("shuffle")
class Shuffler(IterDataPipe):
    """A pipe of the elements in random order, drawn from a buffer of buffer_size elements."""

    def __init__(
        self, datapipe: Iterable[Any], *, default: bool = True, buffer_size: int = 10000
    ) -> None:
        self.datapipe, self.buffer_size, self._enabled = datapipe, buffer_size, default
        self._seed: int | None = None

    def set_shuffle(self, shuffle: bool = True) -> Shuffler:
        """Switch shuffling on or off."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int) -> Shuffler:
        """Set the seed for the next pass."""
        self._seed = seed
        return self

    def __iter__(self) -> Iterator[Any]:
        if not self._enabled:
            yield from self.datapipe
            return
        draw, self._seed = random.Random(self._seed), None
        kept: list[Any] = []
        for element in self.datapipe:
            if len(kept) < self.buffer_size:
                kept.append(element)
                continue
            place = draw.randrange(len(kept))
            out, kept[place] = kept[place], element
            yield out
        draw.shuffle(kept)
        yield from kept

    def __len__(self) -> int:
        return len(self.datapipe)  # type: ignore[arg-type]


# Makes PyTorch's modules below this one importable: see core/alias_names.py.
__path__: list[str] = []

explain_missing(__name__)

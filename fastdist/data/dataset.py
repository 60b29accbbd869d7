"""Datasets: samples by index, or in sequence."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Generic, TypeVar

from ..core.errors import ShapeError
from ..core.folded_frames import fold_public, folds
from ..core.sequences import all_of, finite_list
from ..core.short_repr import short_repr
from ..ops.create.creation import tensor
from ..random_numbers.generator import Generator, default_generator
from ..tensor.tensor import Tensor

T_co = TypeVar("T_co", covariant=True)


class Dataset(Generic[T_co]):
    """Samples by index: a subclass defines __getitem__ and, for most samplers, __len__.

    Raises  NotImplementedError when an item is read, if the subclass does not define __getitem__

    Example:
        >>> class Squares(torch.utils.data.Dataset):
        ...     def __len__(self):
        ...         return 4
        ...     def __getitem__(self, index):
        ...         return index * index
        >>> [batch.tolist() for batch in torch.utils.data.DataLoader(Squares(), batch_size=2)]
        [[0, 1], [4, 9]]
    """

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError(f"{type(self).__name__} does not define __getitem__")

    def __add__(self, other: Dataset[T_co]) -> ConcatDataset[T_co]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co]):
    """Samples in sequence: a subclass defines __iter__.

    Note    each worker of a DataLoader iterates over a copy of the dataset. get_worker_info()
            returns the worker's number, with which a copy can select its share of the samples
    """

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__} does not define __iter__")

    def __add__(self, other: Dataset[T_co]) -> ChainDataset[T_co]:  # type: ignore[override]
        return ChainDataset([self, other])


class ChainDataset(IterableDataset[T_co]):
    """Several iterable datasets, one after another.

    Raises  AssertionError for a dataset that is not iterable, when iteration reaches it
    """

    def __init__(self, datasets: Iterable[Dataset[T_co]]) -> None:
        self.datasets = datasets

    def _in_turn(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield dataset

    def __iter__(self) -> Iterator[T_co]:
        for dataset in self._in_turn():
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self._in_turn())


class StackDataset(Dataset[Any]):
    """Several datasets of equal length, read together: a sample is a tuple with one sample of each
    dataset, or a dict if the datasets are passed by name.

    Raises  ValueError for no datasets, for both named and unnamed datasets, or for unequal lengths
    """

    datasets: tuple[Any, ...] | dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or``dict``- (via ``kwargs``) like "
                "input/output, but both types are given."
            )
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        self.datasets = args or kwargs
        lengths = [len(dataset) for dataset in args or kwargs.values()]
        if len(set(lengths)) > 1:
            raise ValueError(f"Size mismatch between datasets: they are {lengths} long")
        self._length = lengths[0]

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple([dataset[index] for dataset in self.datasets])

    def __getitems__(self, indices: list[int]) -> list[Any]:
        """Return several samples. A dataset with `__getitems__` gets one call for all indices."""
        named = isinstance(self.datasets, dict)
        parts = self.datasets.values() if isinstance(self.datasets, dict) else self.datasets
        columns = [_items(dataset, indices) for dataset in parts]
        for column in columns:
            if len(column) != len(indices):
                raise ValueError(
                    "Nested dataset's output size mismatch. Expected "
                    f"{len(indices)}, got {len(column)}"
                )
        rows = zip(*columns, strict=True)
        return [dict(zip(self.datasets, row, strict=True)) if named else row for row in rows]

    def __len__(self) -> int:
        return self._length


def _items(dataset: Any, indices: list[Any]) -> Any:
    together = getattr(dataset, "__getitems__", None)
    return together(indices) if callable(together) else [dataset[i] for i in indices]


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Rows of tensors: sample i has the i-th row of each tensor.

    Raises  ShapeError for tensors of unequal length; TypeError for a value without a shape
    """

    tensors: tuple[Tensor, ...]

    @folds
    def __init__(self, *tensors: Tensor) -> None:
        for each in tensors:
            if not hasattr(each, "shape"):
                raise TypeError(f"TensorDataset() takes Tensors, but got {type(each).__name__}")
        lengths = {each.shape[0] for each in tensors}
        if len(lengths) > 1:
            raise ShapeError(
                "Size mismatch between tensors: their first axes are "
                f"{[each.shape[0] for each in tensors]} long"
            )
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple([each[index] for each in self.tensors])

    def __len__(self) -> int:
        return self.tensors[0].shape[0]

    def _rows(self, indices: Sequence[int]) -> list[Tensor]:
        """Return the batch that default_collate would make of these samples. The method indexes
        each tensor once with all indices, instead of once per sample.
        """
        rows = tensor(indices)
        return [each[rows] for each in self.tensors]


class ConcatDataset(Dataset[T_co]):
    """Several datasets, one after another.

    Raises  ValueError for no datasets
    """

    def __init__(self, datasets: Iterable[Dataset[T_co]]) -> None:
        self.datasets: list[Any] = finite_list(datasets)
        if not self.datasets:
            raise ValueError("datasets should not be an empty iterable")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise ValueError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = list(accumulate(len(dataset) for dataset in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> T_co:
        if index < 0:
            if -index > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            index += len(self)
        number = bisect_right(self.cumulative_sizes, index)
        before = self.cumulative_sizes[number - 1] if number else 0
        found: T_co = self.datasets[number][index - before]
        return found


class Subset(Dataset[T_co]):
    """The samples of a dataset at given indices, in that order."""

    def __init__(self, dataset: Dataset[T_co], indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> T_co:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[T_co]:
        """Return several samples, with one call of the dataset's `__getitems__` if it exists."""
        if type(self).__getitem__ is not Subset.__getitem__:  # a subclass may change the samples
            return [self[i] for i in indices]
        found: list[T_co] = _items(self.dataset, [self.indices[i] for i in indices])
        return found

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Dataset[T_co],
    lengths: Sequence[int | float],
    generator: Generator | None = None,
) -> list[Subset[T_co]]:
    """Split a dataset at random into parts, whose sizes are given as lengths or as fractions.

    Raises  ValueError unless the lengths sum up to the dataset's length, or the fractions to 1
    """
    count = len(dataset)  # type: ignore[arg-type]
    sizes = _whole(all_of(lengths), count)
    if sum(sizes) != count:
        raise ValueError(
            "Sum of input lengths does not equal the length of the input dataset: "
            f"{short_repr(sum(sizes))}, not {count}"
        )
    order = (generator or default_generator).permutation(count).tolist()
    ends = accumulate(sizes)
    return [Subset(dataset, order[end - n : end]) for end, n in zip(ends, sizes, strict=True)]


def _whole(lengths: Sequence[int | float], count: int) -> list[int]:
    if not 0.999999 < sum(lengths) < 1.000001 or all(isinstance(n, int) for n in lengths):
        return [int(n) for n in lengths]
    if any(not 0.0 <= part <= 1.0 for part in lengths):
        raise ValueError(f"random_split: fractions must be between 0 and 1, got {list(lengths)}")
    sizes = [int(count * part) for part in lengths]
    for i in range(count - sum(sizes)):
        # Distribute the remainder of the rounding one by one to the first parts.
        sizes[i % len(sizes)] += 1
    return sizes


fold_public(__name__)

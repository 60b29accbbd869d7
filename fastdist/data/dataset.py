"""Datasets: samples by number, or one after the other."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Generic, TypeVar

from ..core.errors import ShapeError
from ..core.generator import Generator, default_generator
from ..ops.creation import tensor
from ..tensor.tensor import Tensor

T_co = TypeVar("T_co", covariant=True)


class Dataset(Generic[T_co]):
    """Samples by number: a subclass defines __getitem__ and, for most samplers, __len__."""

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError(f"{type(self).__name__} does not define __getitem__")

    def __add__(self, other: Dataset[T_co]) -> ConcatDataset[T_co]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co]):
    """Samples one after the other: a subclass defines __iter__.

    Note    each worker of a DataLoader iterates over a copy: get_worker_info() tells its share
    """

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__} does not define __iter__")


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Rows of tensors: sample i is the i-th row of each.

    Raises  ShapeError for tensors of unequal length
    """

    tensors: tuple[Tensor, ...]

    def __init__(self, *tensors: Tensor) -> None:
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
        """Return what default_collate makes of these samples, without cutting them out one by
        one.
        """
        rows = tensor(indices)
        return [each[rows] for each in self.tensors]


class ConcatDataset(Dataset[T_co]):
    """Datasets one behind the other.

    Raises  ValueError without any
    """

    def __init__(self, datasets: Iterable[Dataset[T_co]]) -> None:
        self.datasets: list[Any] = list(datasets)
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

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Dataset[T_co],
    lengths: Sequence[int | float],
    generator: Generator | None = None,
) -> list[Subset[T_co]]:
    """Cut a dataset at random into parts of these lengths, or these fractions.

    Raises  ValueError unless lengths sum up to the dataset's, or fractions to 1
    """
    count = len(dataset)  # type: ignore[arg-type]
    sizes = _whole(lengths, count)
    if sum(sizes) != count:
        raise ValueError(
            "Sum of input lengths does not equal the length of the input dataset: "
            f"{sum(sizes)}, not {count}"
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
        # What rounding left over goes one by one to the first parts.
        sizes[i % len(sizes)] += 1
    return sizes

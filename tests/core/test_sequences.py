"""Tensors from sequences of user classes: `__len__` sets the end; infinite nesting is rejected."""

from __future__ import annotations

from collections import UserList, deque
from collections.abc import Iterator
from itertools import count, repeat
from typing import Any

import pytest

import fastdist as fd


class Endless:
    """A sequence of length 3 that never raises IndexError."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> Any:
        return index + 1


class Nested(Endless):
    """A sequence whose items are such sequences again, without end."""

    def __getitem__(self, index: int) -> Any:
        return Nested()


class Huge(Endless):
    """A sequence with more numbers than the machine can hold."""

    def __len__(self) -> int:
        return 2**60


class Short(Endless):
    """A sequence with fewer numbers than its length claims."""

    def __getitem__(self, index: int) -> Any:
        raise IndexError("there is none")


class EndlessList(list[Any]):
    """A list whose iteration never ends, although its length is finite."""

    def __iter__(self) -> Iterator[Any]:
        return count(1)


class EndlessTuple(tuple[Any, ...]):
    """A tuple whose iteration never ends, although its length is finite."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        return count(1)


class HugeList(EndlessList):
    """A list whose length exceeds the machine's memory."""

    def __len__(self) -> int:
        return 2**60


class Reversed(list[Any]):
    """A list that iterates from its last item to its first."""

    def __iter__(self) -> Iterator[Any]:
        return reversed(self)


class Halved(list[Any]):
    """A list that iterates over half of its items."""

    def __iter__(self) -> Iterator[Any]:
        return iter(self[: len(self) // 2])


WITHIN_ITSELF: list[Any] = []
WITHIN_ITSELF.append(WITHIN_ITSELF)


@pytest.mark.parametrize("make", [fd.tensor, fd.as_tensor, fd.asarray, fd.Tensor])
def test_a_sequence_ends_where_its_length_says(make: Any) -> None:
    assert make(Endless()).tolist() == [1, 2, 3]
    assert make([Endless(), (4, 5, 6)]).tolist() == [[1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize(
    "use",
    [
        lambda given: fd.arange(5)[given],
        lambda given: fd.ones(1).new_tensor(given).long(),
        fd.UntypedStorage,
        fd.LongStorage,
    ],
)
def test_a_sequence_ends_where_its_length_says_for(use: Any) -> None:
    assert use(Endless()).tolist() == [1, 2, 3]


def test_weights_end_where_their_length_says() -> None:
    assert len(list(fd.utils.data.WeightedRandomSampler(Endless(), 4))) == 4


@pytest.mark.parametrize("make", [fd.tensor, fd.as_tensor, fd.Tensor, lambda x: fd.arange(5)[x]])
@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
@pytest.mark.parametrize("given", [Nested(), WITHIN_ITSELF, [WITHIN_ITSELF], [[Nested()]]])
def test_what_nests_without_end_is_refused(make: Any, given: Any) -> None:
    with pytest.raises((ValueError, IndexError), match="too many"):
        make(given)


def test_lists_nest_as_deep_as_arrays_have_axes() -> None:
    deep: Any = 1.0
    for _ in range(64):
        deep = [deep]
    assert fd.tensor(deep).numel() == 1
    with pytest.raises(ValueError, match=r"too many dimensions 'list'.*at most 64 deep"):
        fd.tensor([deep])


def test_a_length_that_no_machine_holds_is_a_memory_error() -> None:
    with pytest.raises(MemoryError):
        fd.tensor(Huge())


def test_a_sequence_that_is_shorter_than_its_length_raises_its_own_error() -> None:
    with pytest.raises(IndexError, match="there is none"):
        fd.tensor(Short())


@pytest.mark.parametrize("given", [deque([1, 2]), UserList([1, 2]), range(1, 3), (1, 2)])
def test_sequences_of_the_library_are_read(given: Any) -> None:
    assert fd.tensor(given).tolist() == [1, 2]


@pytest.mark.parametrize("make", [fd.tensor, fd.as_tensor, fd.asarray, fd.Tensor, fd.LongStorage])
@pytest.mark.parametrize("given", [EndlessList([4, 5]), EndlessTuple((4, 5)), Halved([4, 5])])
def test_a_subclass_of_list_or_tuple_gives_as_many_items_as_it_is_long(
    make: Any, given: Any
) -> None:
    with pytest.raises(ValueError, match=r"expected sequence of length 2, .* gives (more|1) items"):
        make(given)
    with pytest.raises(ValueError, match="expected sequence of length 2"):
        make([given, given])


def test_an_endless_list_that_is_too_long_for_the_machine_is_a_memory_error() -> None:
    with pytest.raises(MemoryError):
        fd.tensor(HugeList())


@pytest.mark.parametrize("make", [fd.tensor, fd.as_tensor])
def test_a_subclass_of_list_is_read_by_its_iterator(make: Any) -> None:
    assert make(Reversed([1, 2, 3])).tolist() == [3, 2, 1]
    assert make([Reversed([1, 2]), (3, 4)]).tolist() == [[2, 1], [3, 4]]


X = fd.ones(2)
PARAMETER = fd.ones(2, requires_grad=True)
ENDLESS_CALLS = {
    "clip_grad_norm_": lambda: fd.nn.utils.clip_grad_norm_(repeat(PARAMETER), 1.0),
    "clip_grad_value_": lambda: fd.nn.utils.clip_grad_value_(repeat(PARAMETER), 1.0),
    "get_total_norm": lambda: fd.nn.utils.get_total_norm(repeat(X)),
    "parameters_to_vector": lambda: fd.nn.utils.parameters_to_vector(repeat(X)),
    "vector_to_parameters": lambda: fd.nn.utils.vector_to_parameters(X, repeat(X)),
    "pad_sequence": lambda: fd.nn.utils.rnn.pad_sequence(repeat(X)),
    "ModuleList": lambda: fd.nn.ModuleList(repeat(fd.nn.ReLU())),
    "ModuleDict": lambda: fd.nn.ModuleDict(repeat(("a", fd.nn.ReLU()))),  # type: ignore[arg-type]
    "ParameterList": lambda: fd.nn.ParameterList(repeat(X)),
    "ParameterDict": lambda: fd.nn.ParameterDict(repeat(("a", X))),
    "ConcatDataset": lambda: fd.data.ConcatDataset(repeat(fd.data.TensorDataset(X))),
    "SGD": lambda: fd.optim.SGD(repeat(PARAMETER), lr=0.1),
}


@pytest.mark.parametrize("name", ENDLESS_CALLS)
def test_an_iterable_without_an_end_is_refused_with_words(name: str) -> None:
    with pytest.raises(ValueError, match=r"'repeat' (that )?gives more than \d+ .*: pass a list"):
        ENDLESS_CALLS[name]()


def test_batches_and_samples_end_where_their_length_says() -> None:
    collate = fd.data.default_collate
    with pytest.raises(ValueError, match="expected sequence of length 2"):
        collate(EndlessList([4, 5]))
    with pytest.raises(ValueError, match="expected sequence of length 2"):
        collate([EndlessList([4, 5]), EndlessList([4, 5])])
    with pytest.raises(ValueError, match="expected sequence of length 2"):
        fd.data.default_convert(EndlessTuple((4, 5)))
    assert collate(Endless()).tolist() == [1, 2, 3]  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"TensorDataset\(\) takes Tensors, but got count"):
        fd.data.TensorDataset(count())  # type: ignore[arg-type]

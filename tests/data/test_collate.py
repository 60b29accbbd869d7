"""Samples are collated into batches."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from typing import Any, NamedTuple

import numpy as np
import pytest

import fastdist
from fastdist.data import DataLoader, default_collate


class Sample(NamedTuple):
    image: fastdist.Tensor
    label: int


def test_tensors_and_arrays_are_stacked() -> None:
    assert default_collate([fastdist.ones(2), fastdist.zeros(2)]).tolist() == [[1, 1], [0, 0]]
    batch = default_collate([np.ones(2, np.float32), np.zeros(2, np.float32)])
    assert (batch.shape, batch.dtype) == ((2, 2), fastdist.float32)


@pytest.mark.parametrize(
    ("numbers", "dtype"),
    [
        ([1, 2], fastdist.int64),
        ([1.0, 2.0], fastdist.float64),
        ([np.float32(1), np.float32(2)], fastdist.float32),
        ([True, False], fastdist.bool),
    ],
)
def test_numbers_become_a_tensor(numbers: list[float], dtype: object) -> None:
    batch = default_collate(numbers)
    assert batch.dtype is dtype
    assert batch.tolist() == [float(n) for n in numbers]


def test_strings_stay_a_list() -> None:
    assert default_collate(["a", "b"]) == ["a", "b"]


def test_tuples_become_lists_of_columns_and_named_ones_stay() -> None:
    columns = default_collate([(fastdist.ones(1), 1), (fastdist.zeros(1), 2)])
    assert isinstance(columns, list)
    assert [column.tolist() for column in columns] == [[[1], [0]], [1, 2]]
    named = default_collate([Sample(fastdist.ones(1), 1), Sample(fastdist.zeros(1), 2)])
    assert isinstance(named, Sample)
    assert named.label.tolist() == [1, 2]


def test_mappings_are_collated_by_key() -> None:
    batch = default_collate([{"x": fastdist.ones(1), "y": {"z": 1}}] * 2)
    assert batch["x"].tolist() == [[1], [1]]
    assert batch["y"]["z"].tolist() == [1, 1]


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(RuntimeError, match="stack expects each tensor to be equal size"):
        default_collate([fastdist.ones(1), fastdist.ones(2)])
    with pytest.raises(RuntimeError, match="each element in list of batch should be of equal size"):
        default_collate([[1], [1, 2]])
    with pytest.raises(TypeError, match="default_collate: batch must contain tensors"):
        default_collate([object()])


class Labelled(NamedTuple):
    label: Any
    x: int


@pytest.mark.parametrize("kind", [str, bytes, np.str_, np.bytes_])
@pytest.mark.parametrize(
    ("wrap", "unwrap"),
    [
        (lambda label: label, lambda batch: batch),
        (lambda label: {"a": label, "x": 1.5}, lambda batch: batch["a"]),
        (lambda label: (label, 1.5), lambda batch: batch[0]),
        (lambda label: Labelled(label, 1), lambda batch: batch.label),
        (lambda label: {"a": [(1, label)]}, lambda batch: batch["a"][0][1]),
    ],
)
def test_strings_stay_strings_wherever_they_are(kind: Any, wrap: Any, unwrap: Any) -> None:
    labels = [kind("cat"), kind("dog")] if issubclass(kind, str) else [kind(b"cat"), kind(b"dog")]
    found = unwrap(default_collate([wrap(label) for label in labels]))
    assert list(found) == labels and {type(one) for one in found} == {kind}


def test_a_loader_of_an_array_of_strings_gives_its_strings() -> None:
    batches = list(DataLoader(np.array(["cat", "dog", "emu"]), 2))  # type: ignore[arg-type]
    assert batches == [["cat", "dog"], ["emu"]]


@pytest.mark.parametrize("array", [np.array(["a"]), np.array([b"a"]), np.array([None])])
def test_arrays_of_strings_and_of_objects_are_refused(array: Any) -> None:
    with pytest.raises(
        TypeError, match=rf"^default_collate: .* found {re.escape(str(array.dtype))}"
    ):
        default_collate([{"x": array}] * 2)


def test_what_is_no_number_of_numpys_is_refused() -> None:
    with pytest.raises(TypeError, match=r"^default_collate: .*numpy.datetime64"):
        default_collate([np.datetime64("2020-01-01")] * 2)


def test_containers_keep_their_class_and_what_they_need_beside_their_items() -> None:
    counts = default_collate([defaultdict(int, a=1), defaultdict(int, a=2)])
    assert type(counts) is defaultdict and counts["a"].tolist() == [1, 2] and counts["b"] == 0
    queue = default_collate([deque([1, "a"], maxlen=5)] * 2)
    assert type(queue) is deque and queue.maxlen == 5 and list(queue[1]) == ["a", "a"]
    assert default_collate([range(2), range(2)])[1].tolist() == [1, 1]


def test_a_class_added_to_the_table_is_collated_by_its_function() -> None:
    from fastdist.utils.data._utils import collate as names

    class Word(str):
        __slots__ = ()

    def join(batch: Any, *, collate_fn_map: Any) -> str:
        return "-".join(batch)

    table = names.default_collate_fn_map
    table[Word] = join
    try:
        found = default_collate([(Word("a"), 1.0), (Word("b"), 2.0)])
    finally:
        del table[Word]
    assert found[0] == "a-b"
    assert found[1].tolist() == [1.0, 2.0]


def test_collate_without_a_table_knows_containers_only() -> None:
    from fastdist.utils.data._utils.collate import collate, default_collate_fn_map

    samples = [{"x": np.ones(2), "n": 1}, {"x": np.zeros(2), "n": 2}]
    found = collate(samples, collate_fn_map=default_collate_fn_map)
    assert (found["x"].shape, found["n"].tolist()) == ((2, 2), [1, 2])
    with pytest.raises(TypeError, match="found <class 'int'>"):
        collate(samples[0:1][0]["n"] and [1])


def test_a_worker_draws_the_words_of_numpys_seed_sequence() -> None:
    from fastdist.utils.data._utils.worker import _generate_state

    assert _generate_state(1, 2) == [307626447, 1538850434, 3092219749, 3926071173]


def test_private_fetchers_make_batches() -> None:
    from fastdist.utils.data.dataloader import _DatasetKind

    by_index = _DatasetKind.create_fetcher(0, [3, 4, 5], True, list, False)
    assert by_index.fetch([0, 2]) == [3, 5]


def test_iterators_of_a_loader_have_pytorchs_private_classes() -> None:
    from fastdist.utils.data import dataloader

    found = iter(dataloader.DataLoader([1, 2]))
    assert isinstance(found, dataloader._SingleProcessDataLoaderIter)
    assert isinstance(found, dataloader._BaseDataLoaderIter)
    assert not isinstance(found, dataloader._MultiProcessingDataLoaderIter)

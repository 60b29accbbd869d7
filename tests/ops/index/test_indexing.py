"""Index tensors along an axis: their range, negative indices and dtypes."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist as fd

F = fd.nn.functional
FOUR = fd.tensor([0.0, 1.0, 2.0, 3.0])
LAST = fd.tensor([-1])
NONE = fd.zeros(1, 0, dtype=fd.int64)


@pytest.mark.parametrize("beyond", [-1, -5, 4])
def test_index_copy_refuses_places_that_the_axis_does_not_have(beyond: int) -> None:
    text = rf"index_copy_\(\): index {beyond} is out of bounds for dimension 0 with size 4"
    with pytest.raises(IndexError, match=text):
        FOUR.clone().index_copy_(0, fd.tensor([beyond]), fd.ones(1))


@pytest.mark.parametrize(
    "call",
    [
        lambda i: FOUR.index_select(0, i),
        lambda i: FOUR.gather(0, i),
        lambda i: FOUR.scatter(0, i, 1.0),
        lambda i: FOUR.scatter(0, i, fd.ones(1)),
        lambda i: FOUR.scatter_add(0, i, fd.ones(1)),
        lambda i: FOUR.index_add(0, i, fd.ones(1)),
        lambda i: F.embedding(i, fd.ones(4, 2)),
    ],
)
@pytest.mark.parametrize("beyond", [-1, 4])
def test_what_counts_from_the_front_alone_refuses_other_places(
    call: Callable[[fd.Tensor], Any], beyond: int
) -> None:
    with pytest.raises(IndexError, match=f"index {beyond} is out of bounds"):
        call(fd.tensor([beyond]))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda i: FOUR.index_fill(0, i, 7), "index {} is out of bounds for dimension 0"),
        (FOUR.take, "out of range: tried to access index {} on a tensor of 4 elements"),
        (lambda i: FOUR.take_along_dim(i, 0), "index {} is out of bounds for dimension 0"),
    ],
)
def test_what_counts_from_the_end_too_refuses_what_is_beyond_it(
    call: Callable[[fd.Tensor], Any], text: str
) -> None:
    for beyond in (-5, 4):
        with pytest.raises(IndexError, match=text.format(beyond)):
            call(fd.tensor([beyond]))


def test_index_fill_take_and_take_along_dim_count_from_the_end() -> None:
    assert FOUR.index_fill(0, LAST, 7).tolist() == [0.0, 1.0, 2.0, 7.0]
    assert FOUR.take(LAST).tolist() == [3.0]
    assert FOUR.take_along_dim(LAST, 0).tolist() == [3.0]


def test_a_number_without_axes_is_a_slice_of_one() -> None:
    assert FOUR.index_copy(0, fd.tensor([1]), fd.tensor(9.0)).tolist() == [0.0, 9.0, 2.0, 3.0]
    assert FOUR.index_copy(0, fd.tensor(1), fd.tensor(9.0)).tolist() == [0.0, 9.0, 2.0, 3.0]
    assert FOUR.scatter_add(0, fd.tensor([1]), fd.tensor(9.0)).tolist() == [0.0, 10.0, 2.0, 3.0]
    square = fd.zeros(2, 2).index_copy(-1, fd.tensor(0), fd.tensor([[9.0], [8.0]]))
    assert square.tolist() == [[9.0, 0.0], [8.0, 0.0]]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: FOUR.index_copy(0, fd.tensor([0, 1]), fd.tensor(9.0)),
            r"index_copy_\(\): When source is scalar, index should have one element \(got 2\)",
        ),
        (
            lambda: FOUR.index_copy(0, fd.tensor([0]), fd.ones(1, 1)),
            r"index_copy_\(\): When source and destination are not scalars",
        ),
        (
            lambda: fd.ones(2, 3).index_copy(0, fd.tensor([0]), fd.ones(1, 2)),
            r"index_copy_\(\): Source/destination tensor must have same slice shapes",
        ),
        (
            lambda: FOUR.index_copy(0, fd.tensor([0]), fd.tensor([1])),
            r"index_copy_\(\): self and source expected to have the same dtype",
        ),
        (
            lambda: FOUR.index_add(0, fd.tensor([0]), fd.tensor(1.0)),
            "source tensor shape must match self tensor shape",
        ),
        (
            lambda: fd.ones(2, 3).index_add(1, fd.tensor([0]), fd.ones(2)),
            r"index_add_\(\): Indexing dim 1 is out of bounds of the source tensor with dim 1",
        ),
        (
            lambda: fd.ones(2, 3).index_reduce(1, fd.tensor([0]), fd.ones(2), "prod"),
            r"index_reduce_\(\): Indexing dim 1 is out of bounds of the source tensor with dim 1",
        ),
        (
            lambda: fd.ones(2, 3).index_reduce(0, fd.tensor([0]), fd.ones(1, 2), "prod"),
            r"source tensor shape must match.* Got self.shape = \[2, 3\] source.shape = \[1, 2\]",
        ),
        (
            lambda: FOUR.index_reduce(0, fd.tensor([0]), fd.tensor(1.0), "amax"),
            "source tensor shape must match self tensor shape",
        ),
        (
            lambda: FOUR.scatter(0, fd.tensor([0, 1]), fd.tensor(9.0)),
            r"Expected index \[2\] to be no larger than self \[4\]",
        ),
        (
            lambda: FOUR.index_fill(0, fd.tensor([0]), fd.ones(1)),
            "index_fill_ only supports a 0-dimensional value tensor",
        ),
        (lambda: FOUR.take(fd.tensor([0], dtype=fd.int32)), "Expected a long tensor for index"),
        (lambda: fd.zeros(0).take(fd.tensor([0])), "tried to take from an empty tensor"),
        (
            lambda: FOUR[fd.tensor([0], dtype=fd.int16)],
            "tensors used as indices must be long, int, byte or bool tensors",
        ),
    ],
)
def test_a_source_that_does_not_fit_is_refused_as_by_pytorch(
    call: Callable[[], Any], text: str
) -> None:
    with pytest.raises(RuntimeError, match=text):
        call()


def test_an_index_without_elements_names_nothing_in_any_number_of_dimensions() -> None:
    assert FOUR.scatter(0, NONE, 5.0).tolist() == FOUR.tolist()
    assert FOUR.scatter(0, NONE, fd.ones(2, 2)).tolist() == FOUR.tolist()
    assert FOUR.scatter_add(0, NONE, fd.ones(2, 2)).tolist() == FOUR.tolist()
    x = fd.ones(4, requires_grad=True)
    found = x.gather(0, NONE)
    found.sum().backward()
    assert found.shape == (1, 0)
    assert x.grad.tolist() == [0.0, 0.0, 0.0, 0.0]


def test_index_add_takes_its_factor_as_an_element_of_the_dtype() -> None:
    ones = fd.ones(2, dtype=fd.uint8)
    assert ones.index_add(0, fd.tensor([0, 0]), ones, alpha=-1).tolist() == [255, 1]
    with pytest.raises(RuntimeError, match="without overflow"):
        ones.index_add(0, fd.tensor([0, 0]), ones, alpha=300)


def test_bytes_of_numpy_are_a_mask_as_those_of_a_tensor_are() -> None:
    mask = np.array([1, 0, 0, 1], np.uint8)
    assert FOUR[mask].tolist() == FOUR[fd.tensor(mask)].tolist() == [0.0, 3.0]


def test_the_gradient_of_a_few_rows_is_the_only_array_of_the_table_s_size() -> None:
    table = fd.ones(20_000, 4, requires_grad=True)
    peak_bytes = []
    for _ in range(2):  # only the second counts; the first may load modules
        table.grad = None
        found = F.embedding(fd.tensor([3, 7, 3]), table).sum()
        tracemalloc.start()
        try:
            found.backward()
            peak_bytes.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert table.grad[:8].sum(1).tolist() == [0.0, 0.0, 0.0, 8.0, 0.0, 0.0, 0.0, 4.0]
    assert peak_bytes[-1] < 1.5 * table.nbytes


@pytest.mark.parametrize("name", ["index_select", "index_add", "index_copy", "index_fill"])
def test_an_index_of_two_axes_is_an_index_error(name: str) -> None:
    more = {"index_select": (), "index_fill": (2.0,)}.get(name, (fd.ones(2, 2),))
    with pytest.raises(IndexError, match="Index is supposed to be a vector, got"):
        getattr(fd, name)(fd.ones(2, 2), 0, fd.zeros(1, 1, dtype=fd.int64), *more)


def test_scatter_of_plain_tensors_is_that_of_observed_ones() -> None:
    x, src = fd.arange(12.0).reshape(3, 4), -fd.arange(20.0).reshape(4, 5)
    index = fd.tensor([[2, 0, 0], [1, 1, 3]])  # two writes to one element: the last one counts
    found = x.scatter(1, index, src)
    with fd.profiler.profile():
        observed = x.scatter(1, index, src)
    assert found.tolist() == observed.tolist() and found.tolist()[0] == [-2, 1, 0, 3]
    leaf = src.clone().requires_grad_()
    x.scatter(-1, index, leaf).sum().backward()
    assert leaf.grad is not None and leaf.grad.sum() == leaf.grad[:2, :3].sum() == 6
    for call, text in (
        (lambda: x.scatter(1, fd.tensor([[4]]), src), "index 4 is out of bounds for dimension 1"),
        (lambda: x.scatter(1, fd.tensor([[-1]]), src), "index -1 is out of bounds"),
        (lambda: x.scatter(1, fd.tensor([1]), src), "same number of dimensions"),
        (lambda: x.scatter(1, index, src.double()), "scatter.*self.dtype"),
        (lambda: x.scatter(1, index.float(), src), "scatter.*int32/int64"),
        (lambda: x.scatter(2, index, src), "Dimension out of range"),
    ):
        with pytest.raises((IndexError, RuntimeError, TypeError), match=text):
            call()

"""searchsorted, bucketize, bincount, diff, roll, repeat_interleave: values and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist as fd

v = fd.tensor([1.0, 2.0, 3.0])
x = fd.tensor([[3.0, 1.0, 2.0], [6.0, 5.0, 4.0]])
LARGEST = fd.tensor([3, 2**63 - 1])


def test_searchsorted_takes_sides_rows_and_an_order() -> None:
    two = fd.tensor([2.0])
    assert fd.searchsorted(v, two).tolist() == [1]
    assert fd.searchsorted(v, two, right=True).tolist() == [2]
    assert fd.searchsorted(v, two, side="right").tolist() == [2]
    assert fd.searchsorted(v, 1.5).shape == ()
    rows = fd.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert fd.searchsorted(rows, fd.tensor([[1.5], [5.0]])).tolist() == [[1], [2]]
    mixed = fd.tensor([3.0, 1.0, 2.0])
    assert fd.searchsorted(mixed, two, sorter=fd.tensor([1, 2, 0])).tolist() == [1]
    assert fd.bucketize(fd.tensor([0.0, 2.5]), v).tolist() == [0, 2]


@pytest.mark.parametrize(
    ("right", "numbers", "one_nan", "two"),
    [(False, [4, 0, 4, 1, 0], [4, 0, 4, 1, 0], [4, 4, 4, 4, 4]),
     (True, [4, 0, 4, 2, 1], [4, 0, 4, 2, 1], [4, 4, 4, 4, 4])],
)  # fmt: skip
def test_searchsorted_passes_on_nan_that_it_meets(
    right: bool, numbers: list[int], one_nan: list[int], two: list[int]
) -> None:
    inf, nan = float("inf"), float("nan")
    wanted = fd.tensor([nan, 0.5, inf, 2.0, 1.0])
    of = {(1.0, 2.0, 3.0, 4.0): numbers, (1.0, 2.0, 3.0, nan): one_nan, (1.0, 2.0, nan, nan): two}
    for row, places in of.items():
        assert fd.searchsorted(fd.tensor(row), wanted, right=right).tolist() == places
        assert fd.bucketize(wanted, fd.tensor(row), right=right).tolist() == places
    assert fd.searchsorted(fd.tensor([]), wanted, right=right).tolist() == [0] * 5


def test_bincount_counts_and_adds_weights() -> None:
    places = fd.tensor([0, 1, 1])
    assert fd.bincount(places, minlength=4).tolist() == [1, 2, 0, 0]
    found = fd.bincount(places, fd.tensor([0.5, 1.0, 2.0]))
    assert found.dtype is fd.float32 and found.tolist() == [0.5, 3.0]
    assert fd.bincount(places, fd.tensor([1, 2, 3])).dtype is fd.float64


@pytest.mark.parametrize("dtype", [fd.int64, fd.uint8])
def test_bincount_of_many_is_numpys(dtype: fd.dtype) -> None:
    rng = np.random.default_rng(0)
    numbers, weights = rng.integers(0, 200, 20_000), rng.standard_normal(20_000)
    places = fd.tensor(numbers).to(dtype)
    assert fd.bincount(places, minlength=300).tolist() == np.bincount(numbers, None, 300).tolist()
    found = fd.bincount(places, fd.tensor(weights))
    assert found.tolist() == np.bincount(numbers, weights).tolist()
    short = fd.bincount(places, fd.tensor(weights, dtype=fd.float32))
    expected = np.bincount(numbers, weights.astype(np.float32)).astype(np.float32)
    assert short.dtype is fd.float32 and short.tolist() == expected.tolist()
    with pytest.raises(RuntimeError, match=r"non-negative integral inputs.*-3"):
        fd.bincount(fd.tensor(np.where(numbers == 7, -3, numbers)))


def test_diff_joins_what_comes_before_and_after() -> None:
    assert fd.diff(v, prepend=fd.zeros(1), append=fd.zeros(1)).tolist() == [1.0, 1.0, 1.0, -3.0]
    assert fd.diff(v, n=0).tolist() == v.tolist()
    assert fd.diff(v, n=2**40).tolist() == []
    assert fd.diff(fd.tensor([True, False, False])).tolist() == [True, False]


def test_repeat_interleave_takes_a_number_each_or_places_alone() -> None:
    assert fd.repeat_interleave(v, fd.tensor([1, 2, 0])).tolist() == [1.0, 2.0, 2.0]
    assert v.repeat_interleave(2).tolist() == [1.0, 1.0, 2.0, 2.0, 3.0, 3.0]
    assert fd.repeat_interleave(fd.tensor([1, 0, 2])).tolist() == [0, 2, 2]


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: fd.searchsorted(x, v), RuntimeError, r"torch.searchsorted\(\): boundaries tensor"),
        (lambda: fd.searchsorted(fd.tensor(1.0), 1.0), RuntimeError, "can be a scalar only when"),
        (lambda: fd.searchsorted(v, v, side="mid"), RuntimeError, "can only be 'left' or 'right'"),
        (lambda: fd.searchsorted(v, v, right=True, side="left"), RuntimeError, "opposites"),
        (lambda: fd.searchsorted(v, "a"), TypeError, r"'input' .* must be Tensor or a number"),
        (
            lambda: fd.searchsorted("a", v),
            TypeError,
            "'sorted_sequence' .* must be Tensor, not str",
        ),
        (lambda: fd.searchsorted(v, v, sorter=v), RuntimeError, "sorter must be a tensor of long"),
        (lambda: fd.bucketize(v, x), RuntimeError, "boundaries tensor must be 1 dimension"),
        (lambda: fd.bincount(fd.tensor([-1])), RuntimeError, "non-negative integral inputs.*-1"),
        (lambda: fd.bincount(LARGEST), RuntimeError, "maximum value of input overflowed.*807"),
        (lambda: fd.bincount(LARGEST, fd.ones(2)), RuntimeError, "should be < 922337203685477580"),
        (lambda: fd.bincount(LARGEST.to("sim:0")), RuntimeError, "maximum value of input overflow"),
        (lambda: fd.bincount(v), RuntimeError, "non-negative integral inputs.*float32"),
        (lambda: fd.bincount(fd.tensor([1]), minlength=-1), RuntimeError, "minlength should be"),
        (lambda: fd.bincount(fd.tensor([1]), v), RuntimeError, "weights should be 1-d"),
        (lambda: fd.bincount("a"), TypeError, "argument 'input' .* must be Tensor, not str 'a'"),
        (lambda: fd.diff(fd.tensor(1.0)), RuntimeError, "diff expects input to be at least one"),
        (lambda: fd.diff(v, n=-1), RuntimeError, "order must be non-negative but got -1"),
        (lambda: fd.diff(v, prepend=x), RuntimeError, "prepend or append to be the same dim"),
        (lambda: fd.diff(x, prepend=fd.ones(3, 1)), RuntimeError, r"tensor.size\(0\) = 3"),
        (lambda: fd.diff(v, "a"), TypeError, r"diff\(\): argument 'n' .* must be an integer"),
        (lambda: x.roll("a"), TypeError, r"roll\(\): argument 'shifts' .* must be an integer"),
        (lambda: x.roll(1, 0.5), TypeError, r"roll\(\): argument 'dims' .* must be an integer"),
        (
            lambda: fd.tensor(1.0).roll(1, -1),
            IndexError,
            "Dimension specified as -1 but tensor has",
        ),
        (lambda: x.roll((1, 1), 0), RuntimeError, "shifts and dimensions must align. shifts: 2"),
        (lambda: v.repeat_interleave(-1), RuntimeError, "Repeats must be non-negative, got -1"),
        (
            lambda: v.repeat_interleave(fd.tensor([1, 2])),
            RuntimeError,
            "repeats must have the same",
        ),
        (lambda: v.repeat_interleave(v), TypeError, "repeats must be integers"),
        (lambda: v.repeat_interleave(2, output_size=3), RuntimeError, "the repeats add up to 6"),
        (lambda: v.gather(0, fd.tensor([5])), RuntimeError, "index 5 is out of bounds for dim"),
        (lambda: v.gather(0, fd.tensor([5])), IndexError, "index 5 is out of bounds for dim"),
    ],
)
def test_wrong_arguments_are_told(
    call: Callable[[], Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        call()


def test_a_batch_of_rows_is_searched_as_each_row_is() -> None:
    rows, values = fd.rand(3, 9).sort()[0], fd.rand(3, 4)
    grids = fd.rand(3, 2, 9).sort()[0]
    for given, among, dims in [
        (values, rows, (0, 0)),
        (values, rows[0], (None, 0)),
        (values[0], rows, (0, None)),
        (values.t(), rows[0], (None, 1)),
        (fd.rand(3, 2, 4), grids, (0, 0)),
        (fd.rand(3, 2, 4), rows, (0, 0)),
    ]:
        found = fd.vmap(fd.searchsorted, in_dims=dims)(among, given)
        pairs = [
            (
                among if dims[0] is None else among.select(dims[0], i),
                given if dims[1] is None else given.select(dims[1], i),
            )
            for i in range(3)
        ]
        assert found.equal(fd.stack([fd.searchsorted(*pair) for pair in pairs]))

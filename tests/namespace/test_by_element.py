"""Methods that call a function for each element write its results, and diagonals are filled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastdist as fd

X = fd.arange(6.0).reshape(2, 3)


def test_functions_are_called_for_each_element() -> None:
    assert X.t().clone().apply_(lambda v: v + 1).tolist() == [[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]
    assert fd.arange(3).apply_(lambda v: v * 2.5).tolist() == [0, 2, 5]
    assert X.clone().map_(X[0], lambda a, b: a - b).tolist() == [[0.0] * 3, [3.0] * 3]
    assert X.clone().map2_(X, X, lambda a, b, c: a + b * c)[1].tolist() == [12.0, 20.0, 30.0]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: X.clone().requires_grad_().apply_(abs), RuntimeError),
        (lambda: X.clone().apply_(str), TypeError),
        (lambda: X.clone().apply_(3), TypeError),
        (lambda: X.to("sim:0").apply_(abs), TypeError),
        (lambda: X.clone().map_(X.double(), max), TypeError),
        (lambda: X.clone().map_(3, max), TypeError),
        (lambda: X.clone().map_(fd.ones(5), max), RuntimeError),
        (lambda: fd.ones(1, dtype=fd.uint8).apply_(lambda v: 300), RuntimeError),
        (lambda: fd.zeros(3).fill_diagonal_(1), RuntimeError),
        (lambda: fd.zeros(2, 3, 4).fill_diagonal_(1), RuntimeError),
        (lambda: X.as_subclass(int), TypeError),
        (lambda: X.resize(7), RuntimeError),
    ],
)
@pytest.mark.filterwarnings("ignore:non-inplace resize")
def test_what_cannot_be_done_is_refused(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        call()


@pytest.mark.parametrize("wrap", [False, True])
@pytest.mark.parametrize("shape", [(3, 3), (7, 3), (4, 3), (13, 4), (3, 7), (0, 3), (3, 3, 3)])
def test_fill_diagonal_is_numpys(shape: tuple[int, ...], wrap: bool) -> None:
    expected = np.zeros(shape)
    if expected.size:
        np.fill_diagonal(expected, 9, wrap)
    for device in ("cpu", "sim:0"):
        found = fd.zeros(shape, device=device).fill_diagonal_(9, wrap)
        assert found.tolist() == expected.tolist()


def test_a_filled_diagonal_gives_no_gradient() -> None:
    x = fd.ones(3, 2, requires_grad=True)
    (x * 2).fill_diagonal_(9.0).sum().backward()
    assert x.grad.tolist() == [[0.0, 2.0], [2.0, 0.0], [2.0, 2.0]]


class Tagged(fd.Tensor):
    """A user-defined subclass of Tensor."""


def test_as_subclass_stays_in_its_place_of_the_graph() -> None:
    x = fd.ones(2, requires_grad=True)
    y = x * 2
    seen = y.as_subclass(Tagged)
    y.mul_(3)
    seen.sum().backward()
    assert type(seen) is Tagged and seen.tolist() == [6.0, 6.0] and x.grad.tolist() == [6.0, 6.0]


def test_questions_have_answers() -> None:
    assert X.dim_order() == (0, 1) and X.t().dim_order() == (1, 0)
    assert (X.name, X.volatile, X.is_ipu, X.is_distributed()) == (None, False, False, False)
    assert X.storage_type() is fd.FloatStorage and X.grad_dtype is fd.float32
    assert X.const_data_ptr() == X.data_ptr()
    assert X.clone().as_strided_((2,), (3,)).tolist() == [0.0, 3.0]
    assert fd.zeros(2).module_load(fd.ones(2)).tolist() == [1.0, 1.0]
    assert X.record_stream(None) is None
    with pytest.raises(RuntimeError, match="unique dim order"):
        fd.zeros(1, 4).dim_order(ambiguity_check=True)


def test_memory_recorded_on_a_stream_of_a_device_is_held_for_it() -> None:
    from fastdist.devices.backend import backend_of

    x = fd.ones(2, device="sim:0")
    side = backend_of("sim").stream(0)
    x.record_stream(side)
    assert side in x._array.storage.other_streams
    side.synchronize()

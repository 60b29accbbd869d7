"""Lazy conjugate and negative views become ordinary tensors when their array is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.graph.lazy_conj_neg import LazyConjNeg
from fastdist.tensor.tensor import layout_of

NUMBERS = np.arange(12.0).reshape(3, 4) * (1 - 2j)


@pytest.mark.parametrize(
    "take",
    [
        lambda x: x, lambda x: x.T, lambda x: x[::2, 1:3], lambda x: x[:, 1], lambda x: x[1, 1],
        lambda x: x[:1].expand(5, 4), lambda x: x[:0], lambda x: x.unfold(1, 2, 1),
        lambda x: x.as_strided((2, 2), (1, 0), 3), lambda x: x.diagonal(),
    ],
)  # fmt: skip
def test_its_array_lies_as_its_layout_says(take: Callable[[Any], Any]) -> None:
    x = fd.tensor(NUMBERS)
    view: Any = take(x.conj())
    assert isinstance(view, LazyConjNeg)
    assert layout_of(view._array) is view._layout is take(x)._layout
    np.testing.assert_array_equal(view._array, take(x).numpy().conj())


def test_its_array_is_not_written() -> None:
    view: Any = fd.tensor(NUMBERS).conj()
    with pytest.raises(ValueError, match="read-only"):
        view._array[0] = 1
    with pytest.raises(RuntimeError, match="cannot be given other memory"):
        view._array = np.zeros(3)


def test_its_node_is_made_anew_when_its_memory_has_another_history() -> None:
    y = fd.tensor(NUMBERS, requires_grad=True) * 1
    view = y.conj()
    before = view.grad_fn
    assert view.grad_fn is before
    y.mul_(2)
    assert view.grad_fn is not before


def test_it_is_told_by_nobody_but_its_flag() -> None:
    view = fd.tensor(NUMBERS).conj()
    assert isinstance(view, fd.Tensor)
    assert type(view).__name__ == "Tensor"
    assert not fd.overrides.has_torch_function((view,))


def test_detach_as_a_function_shares_its_memory_too() -> None:
    x = fd.tensor([1 + 2j])
    fd.detach(x.conj()).mul_(2j)
    assert x.tolist() == [4 - 2j]

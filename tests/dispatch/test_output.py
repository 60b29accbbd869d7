"""`out=` of another shape, of another dtype, and over what is read."""

from __future__ import annotations

from typing import Any

import pytest

import fastdist as fd

WARNING = (
    r"An output with one or more elements was resized since it had shape \[2\], which does not "
    r"match the required output shape \[3\]"
)


def test_an_out_of_another_shape_is_resized_with_a_warning() -> None:
    out = fd.zeros(2)
    with pytest.warns(UserWarning, match=WARNING):
        found = fd.add(fd.ones(3), 1, out=out)
    assert found is out and out.tolist() == [2.0, 2.0, 2.0]
    with pytest.warns(UserWarning, match="was resized"):
        fd.cat([fd.ones(1)], out=out)
    assert out.tolist() == [1.0]


def test_an_out_without_elements_is_resized_without_a_word() -> None:
    assert fd.sum(fd.ones(2, 3), 0, out=fd.zeros(0)).tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize("which", [lambda x: x[:2], lambda x: x])
def test_an_out_that_views_know_keeps_its_shape(which: Any) -> None:
    x = fd.zeros(4)
    view = x[1:]
    with pytest.raises(RuntimeError, match="out has shape"):
        fd.add(fd.ones(3), 1, out=which(x))
    assert view.shape == (3,)


def test_an_out_that_cannot_hold_the_dtype_keeps_its_shape() -> None:
    out = fd.zeros(2, dtype=fd.int64)
    with pytest.raises(RuntimeError, match="can't be cast"):
        fd.add(fd.ones(3), 1, out=out)
    assert out.shape == (2,)


def test_an_out_over_part_of_what_is_read_is_refused() -> None:
    x = fd.ones(6)
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to"):
        fd.exp(x[:-1], out=x[1:])
    assert fd.exp(x, out=x) is x


@pytest.mark.parametrize("name", ["abs", "ceil", "floor", "neg", "sign", "trunc", "bitwise_not"])
def test_what_keeps_the_dtype_takes_no_other_as_out(name: str) -> None:
    integers = fd.tensor([1, 2])
    getattr(fd, name)(integers, out=fd.empty(2, dtype=fd.int64))
    with pytest.raises(RuntimeError, match="Found dtype float32 but expected int64"):
        getattr(fd, name)(integers, out=fd.empty(2))

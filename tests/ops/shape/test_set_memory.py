"""Changing the memory, size or dtype of a tensor: set_, resize_, view(dtype)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastdist

DEVICES = ("cpu", "sim")


@pytest.mark.parametrize("device", DEVICES)
def test_set_lets_a_tensor_be_another_ones_memory(device: str) -> None:
    x = fastdist.arange(6.0, device=device)
    y = fastdist.zeros(2, device=device)
    assert y.set_(x) is y and y.is_set_to(x)
    y.set_(x.untyped_storage(), 1, (2, 2), (2, 1))
    assert y.tolist() == [[1.0, 2.0], [3.0, 4.0]] and y.storage_offset() == 1
    x[1] = 9.0
    assert y[0, 0].item() == 9.0
    assert y.set_(x.storage()).shape == (6,) and y.set_().shape == (0,)


def test_set_counts_as_a_change_and_keeps_requires_grad() -> None:
    leaf = fastdist.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used"):
        leaf.set_(fastdist.ones(2))
    with fastdist.no_grad():
        leaf.set_(fastdist.arange(2.0))
    assert leaf._version == 1 and leaf.requires_grad
    (leaf * 3).sum().backward()
    assert leaf.grad is not None and leaf.grad.tolist() == [3.0, 3.0]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((4, (3,), (1,)), "setStorage: sizes .3., strides .1., storage offset 4"),
        ((-1, (3,), (1,)), "invalid storage offset -1"),
        ((0, (3,), (1, 1)), "mismatch in length of strides and shape"),
        ((0, (3,), (-1,)), "must not be negative"),
    ],
)
def test_set_refuses_what_leaves_the_storage(arguments: tuple[Any, ...], text: str) -> None:
    x = fastdist.arange(6.0)
    with pytest.raises(RuntimeError, match=text):
        fastdist.zeros(1).set_(x.storage(), *arguments)


def test_set_refuses_what_stands_in_a_graph() -> None:
    x = fastdist.ones(2, 2, requires_grad=True)
    y = x * 2
    with pytest.raises(RuntimeError, match="derivative for set_ is not implemented"):
        y.set_(fastdist.ones(3))
    y.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [[2.0, 2.0]] * 2
    with fastdist.no_grad():
        (x * 2).set_(fastdist.ones(3))


def test_set_refuses_another_dtype() -> None:
    with pytest.raises(RuntimeError, match="Could not set tensor of type int"):
        fastdist.zeros(1).set_(fastdist.zeros(1, dtype=fastdist.int32))


@pytest.mark.parametrize("device", DEVICES)
def test_resize_keeps_what_lies_in_the_memory(device: str) -> None:
    x = fastdist.arange(6.0, device=device)
    assert x.resize_(2, 2).tolist() == [[0.0, 1.0], [2.0, 3.0]]
    assert x.resize_(6).tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert x.resize_(8)[:6].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert x.resize_as_(fastdist.ones(1, 3)).shape == (1, 3)


def test_resize_to_the_same_sizes_changes_nothing_and_returns_the_tensor() -> None:
    x = fastdist.arange(6.0).reshape(2, 3)
    version, memory = x._version, x.data_ptr()
    assert x.resize_(2, 3) is x and x.resize_((2, 3)) is x
    assert (x._version, x.data_ptr()) == (version, memory)
    turned = x.t()
    assert turned.resize_(3, 2) is turned and turned.stride() == (1, 3)
    assert turned.resize_(3, 2, memory_format=fastdist.contiguous_format).stride() == (2, 1)


def test_resize_refuses_what_requires_grad() -> None:
    with pytest.raises(RuntimeError, match="cannot resize variables that require grad"):
        fastdist.ones(2, requires_grad=True).resize_(3)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("wanted", ["int32", "float64", "uint8", "int16", "float32", "bool"])
def test_view_of_a_dtype_sees_the_same_bytes(device: str, wanted: str) -> None:
    values = np.arange(8, dtype=np.float32).reshape(2, 4)
    x = fastdist.tensor(values, device=device)
    seen = x.view(getattr(fastdist, wanted))
    np.testing.assert_array_equal(seen.to_numpy().view(np.uint8), values.view(np.uint8))
    assert seen.dtype is getattr(fastdist, wanted)
    assert seen.untyped_storage() == x.untyped_storage()


def test_view_of_a_dtype_shares_the_count_of_changes_and_no_gradient() -> None:
    x = fastdist.zeros(4)
    x.view(fastdist.int32)[0] = 0x3F800000
    assert x.tolist() == [1.0, 0.0, 0.0, 0.0] and x._version == 1
    leaf = fastdist.zeros(2, requires_grad=True)
    assert not leaf.view(fastdist.float64).requires_grad
    assert leaf.view(fastdist.float32).requires_grad


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: fastdist.zeros(2, 3).view(fastdist.int64), r"self.size\(-1\) must be divisible"),
        (lambda: fastdist.zeros(2, 3).t().view(fastdist.int64), r"self.stride\(-1\) must be 1"),
        (lambda: fastdist.tensor(1.0).view(fastdist.uint8), r"self.dim\(\) cannot be 0 to view"),
        (lambda: fastdist.zeros(2, 3)[:, :2].view(fastdist.int64), r"self.stride\(0\) must be div"),
        (lambda: fastdist.zeros(5)[1:].view(fastdist.int64), r"self.storage_offset\(\) must be"),
    ],
)
def test_view_of_a_dtype_refuses_what_does_not_fit(make: Any, text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        make()

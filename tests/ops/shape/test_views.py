"""Views, and copies that change the memory order."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
import pytest

import fastdist
from tests.properties import in_one_test


def test_squeeze_to_no_axes_is_a_view() -> None:
    x = fastdist.tensor([1.0])
    x.squeeze().add_(1)
    assert x.squeeze()._array.__class__ is np.ndarray
    assert x.tolist() == [2.0]


def test_dot_product_of_vectors_is_an_array() -> None:
    x = fastdist.tensor([1.0, 2.0])
    assert (x @ x)._array.__class__ is np.ndarray


def test_clone_and_to_keep_the_order_in_which_memory_is_walked() -> None:
    x = fastdist.ones(2, 3).t()
    assert x.clone().stride() == x.to(fastdist.float64).stride() == (1, 3)


def test_contiguous_copies_in_c_order() -> None:
    assert fastdist.ones(2, 3).t().contiguous().stride() == (2, 1)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_refuses_integers(name: str) -> None:
    with pytest.raises(RuntimeError, match="not implemented for 'Long'"):
        getattr(fastdist.tensor([1, 2]), name)(0)


def test_sizes_and_a_dtype_are_given_by_name_as_well() -> None:
    x = fastdist.arange(4.0)
    assert x.view(size=(2, 2)).tolist() == [[0.0, 1.0], [2.0, 3.0]]
    assert x.view(dtype=fastdist.int32).tolist() == x.view(fastdist.int32).tolist()
    with pytest.raises(TypeError, match="sizes must be integers"):
        x.view(4, dtype=fastdist.int32)


TAKEN: dict[str, Any] = {
    "x[1]": lambda x: x[1],
    "x[-1]": lambda x: x[-1],
    "x[None]": lambda x: x[None],
    "x[1:3]": lambda x: x[1:3],
    "x[:2]": lambda x: x[:2],
    "select": lambda x: x.select(1, -2),
    "narrow": lambda x: x.narrow(1, 1, 2),
    "split": lambda x: x.split(2)[1],
    "split along": lambda x: x.split(3, 1)[0],
    "chunk": lambda x: x.chunk(2, 1)[1],
    "unbind": lambda x: x.unbind(1)[2],
    "flatten": lambda x: x.flatten(),
    "reshape": lambda x: x.t().reshape(-1),
}


@in_one_test("name", TAKEN)
def test_a_view_that_was_taken_before_is_the_same(name: str) -> None:
    x, take = fastdist.arange(12.0).reshape(4, 3).clone().requires_grad_(), TAKEN[name]
    first = take(x)
    expected, node = first.tolist(), type(first.grad_fn).__name__
    (of_first,) = fastdist.autograd.grad(first.square().sum(), x)
    again = take(x)
    (of_again,) = fastdist.autograd.grad(again.square().sum(), x)
    assert again.tolist() == expected
    assert type(again.grad_fn).__name__ == node
    assert of_again.tolist() == of_first.tolist()
    with fastdist.no_grad():
        assert take(x).tolist() == expected
        assert take(x.detach().double()).dtype is fastdist.float64
    for _ in range(2):
        assert take(x.detach()).tolist() == expected


def test_a_kept_view_shares_memory_and_counts_changes() -> None:
    x = fastdist.zeros(4, 3)
    for _ in range(2):
        x[0].fill_(1.0)
        x.unbind()[1].fill_(1.0)
    assert x.sum().item() == 6.0
    assert x._version == 4


def test_views_outside_of_the_tensor_are_refused_after_others_were_kept() -> None:
    x, short = fastdist.zeros(4, 3), fastdist.zeros(2, 3)
    takes = (lambda x: x[3], lambda x: x.select(0, 3), lambda x: x.narrow(0, 1, 3))
    for take in takes:
        take(x)
        with pytest.raises((IndexError, RuntimeError)):
            take(short)


def test_narrow_refuses_what_a_slice_has_cut() -> None:
    x = fastdist.arange(12).reshape(4, 3)
    assert x[1:9].shape == (3, 3) and x[1:-1].shape == (2, 3) and x[:, 1:9].shape == (4, 2)
    for dim, start, length in ((0, 1, 8), (0, 1, -2), (1, 1, 8)):
        with pytest.raises(RuntimeError):
            x.narrow(dim, start, length)
    assert x.narrow(0, 1, 2).equal(x[1:3]) and x.narrow(0, 1, 2).equal(x[1:3])


def test_columns_are_views_with_gradients_also_when_they_are_taken_again() -> None:
    x = fastdist.arange(12.0).reshape(4, 3).requires_grad_()
    for _ in range(2):
        for seen, expected in (
            (x[:, 1], [1, 4, 7, 10]),
            (x[:, -1], [2, 5, 8, 11]),
            (x[:, 1:2], [[1], [4], [7], [10]]),
            (x[:, :-1], [[0, 1], [3, 4], [6, 7], [9, 10]]),
            (x[:, 0:3:2], [[0, 2], [3, 5], [6, 8], [9, 11]]),
            (x.select(1, 1), [1, 4, 7, 10]),
        ):
            assert seen._base is x and seen.tolist() == expected
            (gradient,) = fastdist.autograd.grad(seen.sum(), x)
            assert gradient.sum() == seen.numel()
    with pytest.raises(IndexError, match="index 3 is out of bounds for dimension 1 with size 3"):
        x[:, 3]


def test_flatten_serves_integers_alone_the_short_way() -> None:
    x = fastdist.ones(2, 3, 4)
    for _ in range(2):
        assert x.flatten().shape == (24,) and x.flatten(1).shape == (2, 12)
        assert x.flatten(start_dim=1, end_dim=-1).shape == (2, 12) and x.flatten(0, 1).shape[0] == 6
        assert x.transpose(0, 2).flatten(1).shape == (4, 6)
        with pytest.raises(TypeError):
            x.flatten(1.0)


def test_views_of_many_threads_are_all_known_to_the_base() -> None:
    base = fastdist.zeros(64, 4)

    def take(found: list[fastdist.Tensor]) -> None:
        for i in range(200):
            base[i % 64]  # freed immediately
            found.append(base[i % 64])

    kept: list[list[fastdist.Tensor]] = [[] for _ in range(4)]
    threads = [threading.Thread(target=take, args=(found,)) for found in kept]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    living = {id(view) for view in base._storage.living_views()}
    assert all(id(view) in living for found in kept for view in found)


@in_one_test("shape, axes", [((3, 5), (0, 1)), ((2, 4, 5), (2, 0)), ((1, 1), (-1, -2))])
@in_one_test("offset", [-2, 0, 1, 4])
def test_a_diagonal_is_a_view_that_can_be_written(shape: Any, axes: Any, offset: int) -> None:
    x = fastdist.arange(math.prod(shape)).reshape(shape).float()
    for seen in (x, x.transpose(0, -1), x):  # the last call takes the short path
        expected = np.diagonal(seen.numpy().copy(), offset, *axes)
        found = seen.diagonal(offset, *axes)
        np.testing.assert_array_equal(found.numpy(), expected)
        found.add_(1.0)
        np.testing.assert_array_equal(seen.numpy().diagonal(offset, *axes), expected + 1.0)
        assert found._array.strides == tuple([4 * n for n in found.stride()]) or not found.numel()

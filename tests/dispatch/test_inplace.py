"""In-place ops: which memory may be written, and the dtype of the computation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastdist


def test_inplace_refuses_memory_that_stands_for_several_elements() -> None:
    x = fastdist.tensor([1.0, 2.0, 3.0])
    with pytest.raises(RuntimeError, match="unsupported operation: more than one element of the"):
        x.expand(2, 3).add_(1)


def test_inplace_writes_through_an_expand_that_repeats_nothing() -> None:
    x = fastdist.tensor([1.0, 2.0, 3.0])
    x.expand(-1).add_(1)
    x.unsqueeze(0).t().expand(3, 1).add_(1)
    assert x.tolist() == [3.0, 4.0, 5.0]


def test_inplace_writes_into_a_part_of_an_expand_that_repeats_nothing() -> None:
    x = fastdist.tensor([1.0, 2.0, 3.0])
    x.expand(2, 3)[0].add_(1)
    x.unsqueeze(1).expand(3, 2)[:, 1] *= 2
    assert x.tolist() == [4.0, 6.0, 8.0]
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        x.unsqueeze(1).expand(3, 2)[0].mul_(2)


def test_inplace_refuses_read_only_memory_of_numpy() -> None:
    array = np.arange(3.0)
    array.flags.writeable = False
    with pytest.raises(RuntimeError, match="the written-to tensor is read-only"):
        fastdist.from_numpy(array).mul_(2)
    with pytest.raises(RuntimeError, match="the written-to tensor is read-only"):
        fastdist.from_numpy(array).expand(2, 3)[0].mul_(2)


def test_inplace_add_of_bools_stays_bool() -> None:
    x = fastdist.tensor([True, False])
    x.add_(False)
    assert x.dtype is fastdist.bool and x.tolist() == [True, False]


def test_inplace_refuses_a_view_of_a_view_that_was_made_a_leaf() -> None:
    leaf = fastdist.zeros(2, 3).t().requires_grad_()
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        leaf.unsqueeze(0).tanh_()


def test_inplace_speaks_of_shapes_before_dtypes() -> None:
    with pytest.raises(RuntimeError, match="output with shape"):
        fastdist.zeros(2, dtype=fastdist.int64).add_(fastdist.zeros(3, 2))


def test_inplace_on_an_expanded_view_without_elements_does_nothing() -> None:
    x = fastdist.zeros(1, 0).expand(3, 0)
    assert x.sqrt_().shape == (3, 0)


def test_retained_gradients_are_those_of_the_changed_tensor() -> None:
    x = fastdist.ones(3, requires_grad=True)
    y, z = x * 2, x * 2
    y.retain_grad(), z.retain_grad()
    y.mul_(3)
    z[:2].mul_(3)
    (y.sum() + z.sum()).backward()
    assert y.retains_grad and z.retains_grad
    assert y.grad is not None and y.grad.tolist() == [1.0, 1.0, 1.0]
    assert z.grad is not None and z.grad.tolist() == [1.0, 1.0, 1.0]
    assert x.grad is not None and x.grad.tolist() == [12.0, 12.0, 8.0]


def test_masked_fill_takes_one_value() -> None:
    x, mask = fastdist.zeros(2, 3), fastdist.tensor([True, False, True])
    with pytest.raises(RuntimeError, match=r"^masked_fill only supports a 0-dimensional value"):
        x.masked_fill(mask, fastdist.ones(3))
    with pytest.raises(RuntimeError, match=r"^masked_fill_ only supports a 0-dimensional value"):
        x.masked_fill_(mask, fastdist.ones(1))
    assert x.masked_fill(mask, fastdist.tensor(2)).tolist() == [[2.0, 0.0, 2.0]] * 2


def test_parts_of_a_split_may_be_changed_in_place_unlike_in_pytorch() -> None:
    x = fastdist.arange(4.0).requires_grad_()
    y = x * 1
    a, b = y.split(2)
    rows = y.unbind()
    a.mul_(2)
    rows[2].add_(rows[0])
    (a[0] + 3 * b[0] + 5 * y[2]).backward()
    assert x.grad is not None and x.grad.tolist() == [18.0, 0.0, 8.0, 0.0]


SIX = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x[1:].add_(x[:-1]),
        lambda x: x[:4].addcmul_(x[2:], x[2:]),
        lambda x: x.view(2, 3).mul_(x.view(2, 3)[0]),
        lambda x: x[:4].view(2, 2).add_(x[:4].view(2, 2).t()),
        lambda x: x[1:].copy_(x[:-1]),
        lambda x: x.__setitem__(slice(1, None), x[:-1]),
        lambda x: x[:4].clamp_(min=x[2:]),
        lambda x: x[:2].add_(x[0]),
        lambda x: x[:4].__iadd__(x[2:]),
    ],
)
def test_inplace_refuses_to_read_what_it_has_written_elsewhere(write: Any) -> None:
    x = fastdist.tensor(SIX)
    apart = fastdist.tensor(SIX)
    apart[:4].add_(fastdist.ones(4))  # caches a Route for the layouts that the loop below uses
    for _ in range(2):
        with pytest.raises(RuntimeError, match="unsupported operation: some elements of the input"):
            write(x)
    assert x.tolist() == SIX


def test_inplace_takes_what_lies_apart_or_just_as_it_does() -> None:
    x = fastdist.tensor(SIX)
    for _ in range(2):
        x[:3].add_(x[3:])
        x.sub_(x.detach() * 0)
    assert x.tolist() == [6.0, 9.0, 12.0, 3.0, 4.0, 5.0]
    x[:3].mul_(x[:3])
    x.view(2, 3).copy_(x.view(2, 3))
    x[::2].zero_().add_(x[1::2])  # memory with gaps
    assert x.tolist() == [81.0, 81.0, 3.0, 3.0, 5.0, 5.0]


def test_inplace_on_many_overlapping_elements_gives_no_numbers_the_second_time() -> None:
    x = fastdist.ones(100_001)
    x[:-1].clone().mul_(x[1:].clone())  # caches the Route of these layouts
    with pytest.raises(RuntimeError, match="unsupported operation: some elements of the input"):
        x[1:].mul_(x[:-1])

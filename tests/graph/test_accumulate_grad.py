"""Threads that use one tensor share its AccumulateGrad; also rare cases of gradients."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import fastdist
from fastdist import Tensor
from fastdist.graph import accumulate_grad
from fastdist.graph.accumulate_grad import accumulator_of, extra_of, freeze


def meet(
    monkeypatch: pytest.MonkeyPatch,
    mine: Callable[[], object],
    others: Callable[[], object],
) -> list[object]:
    """Run `others` in a thread while `mine` creates an Extra; return both results."""
    returned: list[object] = []
    other, make = threading.Thread(target=lambda: returned.append(others())), accumulate_grad.Extra

    def make_slowly() -> object:
        monkeypatch.setattr(accumulate_grad, "Extra", make)
        other.start()
        other.join(0.1)  # the other thread may have to wait for this one
        return make()

    monkeypatch.setattr(accumulate_grad, "Extra", make_slowly)
    first = mine()
    other.join(10)
    return [first, *returned]


def test_two_threads_that_keep_something_with_a_tensor_find_one_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x: Tensor = fastdist.ones(2)
    found = meet(monkeypatch, lambda: extra_of(x), lambda: extra_of(x))
    assert found == [x._extra, x._extra]


def test_a_leaf_that_two_threads_freeze_and_thaw_keeps_its_gradient(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x: Tensor = fastdist.ones(2, requires_grad=True)
    x.sum().backward()
    accumulator = x._edge
    meet(monkeypatch, lambda: freeze(x), lambda: accumulator_of(x))
    assert x._edge is accumulator and x.grad is not None and x.grad.tolist() == [1.0, 1.0]


def test_gradients_that_have_histories_are_added_and_keep_both() -> None:
    x = fastdist.tensor([3.0], requires_grad=True)
    for _ in range(2):
        (x * x * x).sum().backward(create_graph=True)
    assert x.grad is not None and x.grad.tolist() == [54.0]
    (second,) = fastdist.autograd.grad(x.grad.sum(), x)
    assert second.tolist() == [36.0]


def embed(weight: Tensor) -> Tensor:
    index = fastdist.tensor([0, 2])
    found: Tensor = fastdist.nn.functional.embedding(index, weight, sparse=True)
    return found.sum()


@pytest.mark.parametrize("loss", [Tensor.sum, embed], ids=["dense", "sparse"])
def test_a_gradient_that_has_grown_since_a_graph_saved_it_is_not_taken_for_what_it_was(
    loss: Callable[[Tensor], Tensor],
) -> None:
    x = fastdist.ones(3, 2, requires_grad=True)
    loss(x).backward()
    assert x.grad is not None and x.grad._version == 0
    loss(x).backward()
    assert x.grad._version == 1


def test_a_pass_through_a_gradient_that_has_grown_meanwhile_is_refused() -> None:
    x, w = (fastdist.ones(3, requires_grad=True) for _ in range(2))
    x.sum().backward()
    assert x.grad is not None
    saved = (w * x.grad).sum()
    x.sum().backward()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        saved.backward()


def test_a_gradient_that_is_kept_of_a_result_needs_one_that_has_a_gradient() -> None:
    with pytest.raises(RuntimeError, match="can't retain_grad on Tensor that has requires_grad="):
        fastdist.ones(2).retain_grad()


def test_a_gradient_that_is_no_tensor_or_one_of_another_dtype_is_refused() -> None:
    x: Any = fastdist.ones(2, requires_grad=True)
    with pytest.raises(TypeError, match="expected to be a Tensor or None but got int"):
        x.grad = 5
    with pytest.raises(RuntimeError, match="attempting to assign a gradient with dtype 'float64'"):
        x.grad = fastdist.ones(2, dtype=fastdist.float64)


def test_the_gradient_of_a_result_that_is_kept_grows_with_each_pass() -> None:
    x = fastdist.ones(2, requires_grad=True)
    y = x * 2.0
    y.retain_grad()
    for passes in (1.0, 2.0):
        y.sum().backward(retain_graph=True)
        assert y.grad is not None and y.grad.tolist() == [passes, passes]


LAID = {
    "turned": lambda x: x[0, 0].t(),
    "channels last": lambda x: x.to(memory_format=fastdist.channels_last),
    "with gaps": lambda x: x[:, :, ::2],
    "C order": lambda x: x,
}


@pytest.mark.parametrize("dtype", [fastdist.float32, fastdist.float64, fastdist.float16])
@pytest.mark.parametrize("laid", LAID)
def test_gradients_in_any_order_are_added_in_the_memory_of_the_first(laid: str, dtype: Any) -> None:
    leaf = (
        LAID[laid](fastdist.arange(120.0).reshape(2, 3, 4, 5).to(dtype)).detach().requires_grad_()
    )
    first, second = (fastdist.full(leaf.shape, n).to(dtype) for n in (1.0, 2.0))
    leaf.grad = LAID[laid](fastdist.zeros(2, 3, 4, 5).to(dtype)).detach()
    held = leaf.grad
    for g in (first, second, leaf.detach()):
        (leaf * 1).backward(g)
    assert leaf.grad is held and held.stride() == leaf.stride()
    assert (held == leaf.detach() + 3).all()


@pytest.mark.filterwarnings("error")
def test_gradients_of_another_order_may_overflow() -> None:
    leaf = fastdist.zeros(3, 2).t().requires_grad_()
    huge = fastdist.full((2, 3), 3e38)
    for _ in range(2):
        leaf.backward(huge)
    assert leaf.grad is not None and leaf.grad.isinf().all()

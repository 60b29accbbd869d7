"""Concurrent passes in many threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import fastdist as fd
from fastdist import Tensor
from fastdist.autograd import Function, grad

pytestmark = pytest.mark.usefixtures("loop")


def in_threads(count: int, work: Callable[[int], None]) -> list[BaseException | None]:
    """Run work(k) in `count` threads that start together; return the exception or None of each."""
    start = threading.Barrier(count)
    raised: list[BaseException | None] = [None] * count

    def run(k: int) -> None:
        start.wait(30.0)
        try:
            work(k)
        except BaseException as error:
            raised[k] = error

    threads = [threading.Thread(target=run, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)
    assert not any(thread.is_alive() for thread in threads)
    return raised


class FailsAt(Function):
    """A Function that copies its input; its backward fails for the number 3."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, k: int) -> Tensor:
        ctx.k = k
        return x * 1.0

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        if ctx.k == 3:
            raise ValueError("three")
        return g, None


def test_no_gradient_is_lost_between_threads_that_share_leaves() -> None:
    x, w = fd.ones(4, requires_grad=True), fd.ones(4, 4, requires_grad=True)

    def work(k: int) -> None:
        for _ in range(50):
            ((x.view(1, 4) @ w).sum() + x.sum()).backward()

    assert in_threads(16, work) == [None] * 16
    assert x.grad.tolist() == [5.0 * 800] * 4 and w.grad.tolist() == [[800.0] * 4] * 4


def test_threads_share_a_graph_that_is_retained() -> None:
    x = fd.ones(3, requires_grad=True)
    y = (x * x).sum()

    def work(k: int) -> None:
        for _ in range(50):
            y.backward(retain_graph=True)

    assert in_threads(8, work) == [None] * 8
    assert x.grad.tolist() == [800.0] * 3


def test_error_in_one_thread_leaves_the_others_right() -> None:
    x = fd.ones(3, requires_grad=True)

    def work(k: int) -> None:
        FailsAt.apply(x, k).sum().backward()

    raised = in_threads(8, work)
    assert [type(error) for error in raised] == [
        ValueError if k == 3 else type(None) for k in range(8)
    ]
    assert x.grad.tolist() == [7.0] * 3


def test_grad_in_threads_gives_each_its_own() -> None:
    x = fd.ones(3, requires_grad=True)
    y = x * x
    found: list[Any] = [None] * 8

    def work(k: int) -> None:
        for _ in range(20):
            (found[k],) = grad((y * float(k)).sum(), x, retain_graph=True)

    assert in_threads(8, work) == [None] * 8
    assert [g.tolist() for g in found] == [[2.0 * k] * 3 for k in range(8)]


def test_grad_mode_of_one_thread_is_not_that_of_another() -> None:
    seen: list[Any] = [None] * 4

    def work(k: int) -> None:
        with fd.set_grad_enabled(k % 2 == 0):
            seen[k] = (fd.ones(2, requires_grad=True) * 2.0).requires_grad

    assert in_threads(4, work) == [None] * 4 and seen == [True, False, True, False]

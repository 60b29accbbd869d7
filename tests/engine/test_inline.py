"""The inline loop and the engine give bitwise equal gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist import Tensor
from fastdist.autograd import Function, backward
from fastdist.engine import inline
from fastdist.engine.backward import modes_engine
from fastdist.ops.shape.basic_index import basic_index


class Pair(Function):
    """A Function with two outputs."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(x, y)
        return x * y, x - y

    @staticmethod
    def backward(ctx: Any, g: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        x, y = ctx.saved_tensors
        return g * y + h, g * x - h


def changed(x: Tensor, y: Tensor) -> Tensor:
    copy = x * 1.0
    copy.mul_(y)
    return copy


def changed_part(x: Tensor, y: Tensor) -> Tensor:
    copy = x * 1.0
    basic_index.public(copy, (slice(0, 2),)).add_(basic_index.public(y, (slice(1, 3),)))
    return copy


STEPS: list[Callable[[Tensor, Tensor], Tensor]] = [
    lambda x, y: x + y,
    lambda x, y: x * y,
    lambda x, y: x - y * 0.5,
    lambda x, y: x @ y,
    lambda x, y: x.tanh(),
    lambda x, y: x.t(),
    lambda x, y: x.sum(0, keepdim=True) + y,
    lambda x, y: x.view(9).reshape(3, 3) if x.is_contiguous() else x.reshape(3, 3),
    lambda x, y: x.sum().expand(3, 3) * 0.1,
    lambda x, y: Pair.apply(x, y)[0],
    lambda x, y: Pair.apply(x, y)[1],
    lambda x, y: sum(Pair.apply(x, y), y),
    lambda x, y: x.detach() + y,
    changed,
    changed_part,
]


def gradients(seed: int) -> list[Any]:
    """Return the gradients of the leaves of a random program."""
    generator = np.random.default_rng(seed)
    leaves = [
        fd.tensor(generator.standard_normal((3, 3)), requires_grad=bool(i or seed % 3))
        for i in range(3)
    ]
    known: list[Tensor] = list(leaves)
    for _ in range(12):
        x, y = (known[generator.integers(len(known))] for _ in range(2))
        known.append(STEPS[generator.integers(len(STEPS))](x, y).tanh())
    if seed % 2:
        known[4].retain_grad() if known[4].requires_grad else None
        leaves[1].register_hook(lambda g: g * 2.0)
    roots = [y.sum() for y in (known[-1], known[-2], known[-4]) if y.requires_grad]
    if roots:
        backward(roots)
    kept = [*leaves, known[4]] if seed % 2 else leaves
    return [None if x.grad is None else x.grad.numpy() for x in kept]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("first", range(0, 200, 50))
def test_random_graphs_have_the_same_gradients_in_both_loops(first: int) -> None:
    for seed in range(first, first + 50):
        expected = gradients(seed)
        modes_engine.always = True
        try:
            found = gradients(seed)
        finally:
            modes_engine.always = False
        for a, b in zip(found, expected, strict=True):
            assert (a is None and b is None) or np.array_equal(a, b), f"seed {seed}"


@pytest.mark.seed("E24")
@pytest.mark.parametrize("always", [False, True], ids=["inline", "queue"])
def test_after_an_error_nothing_more_of_the_pass_runs(
    monkeypatch: pytest.MonkeyPatch, always: bool
) -> None:
    monkeypatch.setattr(modes_engine, "always", always)
    x, ran = fd.ones(2, requires_grad=True), list[Tensor]()
    good, bad = x * 2.0, x * 3.0  # bad was made later, so it runs first
    good.register_hook(ran.append)
    bad.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        (good + bad).sum().backward()
    assert ran == [] and x.grad is None


def test_plan_counts_only_nodes_with_several_users() -> None:
    x = fd.ones(2, requires_grad=True)
    y = x * 2.0
    z = y + y
    shared, on_cpu = inline.plan([z._edge])
    assert (shared, on_cpu) == ({y._edge: 2}, True)


def test_plan_sees_a_device() -> None:
    x = fd.ones(2, requires_grad=True)
    assert inline.plan([(x.to("sim:0") * 2.0)._edge])[1] is False

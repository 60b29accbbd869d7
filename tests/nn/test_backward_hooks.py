"""Backward hooks of a Module: their arguments, their effects, and cases without a call."""

from __future__ import annotations

from typing import Any

import pytest

import fastdist
from fastdist import nn
from fastdist.autograd import forward_ad


class Both(nn.Module):
    """A module with two inputs and two results."""

    def forward(self, a: Any, b: Any) -> Any:
        return a * 2, b * 3


def told(module: nn.Module) -> tuple[list[Any], Any]:
    seen: list[Any] = []

    def hook(_: Any, grad_input: Any, grad_output: Any) -> None:
        seen.append(
            [[None if g is None else g.tolist() for g in gs] for gs in (grad_input, grad_output)]
        )

    return seen, module.register_full_backward_hook(hook)


def test_a_full_hook_sees_gradients_of_inputs_and_outputs_until_it_is_removed() -> None:
    module = Both()
    seen, handle = told(module)
    a, b = fastdist.ones(1, requires_grad=True), fastdist.ones(1, requires_grad=True)
    first, second = module(a, b)
    (first + 5 * second).backward()
    assert seen == [[[[2.0], [15.0]], [[1.0], [5.0]]]]
    handle.remove()
    module(a, b)[0].backward()
    assert len(seen) == 1 and a.grad.tolist() == [4.0]


def test_inputs_without_gradients_are_none_and_the_hook_still_runs() -> None:
    module = nn.Linear(2, 2)
    seen, _ = told(module)
    module(fastdist.ones(1, 2)).sum().backward()
    assert seen == [[[None], [[[1.0, 1.0]]]]]
    with fastdist.no_grad():
        module(fastdist.ones(1, 2))
    assert len(seen) == 1 and module.weight.grad is not None


def test_what_hooks_return_takes_the_gradients_place() -> None:
    module = nn.Linear(2, 2, bias=False)
    module.register_full_backward_pre_hook(lambda _, grads: (grads[0] * 2,))
    module.register_full_backward_hook(lambda _, grads, __: (grads[0] * 0 + 7,))
    x = fastdist.ones(1, 2, requires_grad=True)
    module(x).sum().backward()
    assert x.grad.tolist() == [[7.0, 7.0]]
    assert module.weight.grad.tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_gradients_that_do_not_fit_are_refused() -> None:
    module = nn.Linear(2, 2)
    module.register_full_backward_hook(lambda _, __, grads: (grads[0], grads[0]))
    with pytest.raises(RuntimeError, match=r"^Backward hook returned an invalid number of grads"):
        module(fastdist.ones(1, 2, requires_grad=True)).sum().backward()
    with pytest.raises(RuntimeError, match=r"^Backward hook for Modules where no input requires"):
        module(fastdist.ones(1, 2)).sum().backward()


def test_hooks_run_in_order_outer_modules_first_and_forward_hooks_as_before() -> None:
    order: list[str] = []
    inner = nn.Linear(2, 2)
    outer = nn.Sequential(inner)
    for name, module, first in (("b", inner, False), ("a", inner, True), ("outer", outer, False)):
        module.register_full_backward_hook(lambda *_, name=name: order.append(name), prepend=first)
    inner.register_forward_hook(lambda *_: order.append("forward"))
    outer(fastdist.ones(1, 2)).sum().backward()
    assert order == ["forward", "outer", "a", "b"]


def test_tangents_and_second_derivatives_pass_the_seams() -> None:
    module = Both()
    told(module)
    x = fastdist.ones(1, requires_grad=True)
    y = module(x, x)[0] ** 2
    (slope,) = fastdist.autograd.grad(y, x, create_graph=True)
    assert fastdist.autograd.grad(slope, x)[0].tolist() == [8.0]
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x.detach().requires_grad_(), fastdist.ones(1) * 3)
        assert forward_ad.unpack_dual(module(dual, dual)[0]).tangent.tolist() == [6.0]


def test_an_old_hook_is_told_the_gradients_of_the_last_operation() -> None:
    class Doubled(nn.Module):
        def forward(self, x: Any) -> Any:
            return [(x + 1) * 2]

    model, told = Doubled(), []
    handle = model.register_backward_hook(lambda *given: told.append(given[1:]))
    x = fastdist.ones(1, requires_grad=True)
    model(x)[0].backward()
    ((inputs, outputs),) = told
    assert [g.tolist() for g in inputs if g is not None] == [[2.0]]
    assert [g.tolist() for g in outputs] == [[1.0]]
    with pytest.raises(RuntimeError, match="Cannot use both regular backward hooks and full"):
        model.register_full_backward_hook(print)
    handle.remove()
    model.register_full_backward_hook(lambda *_: None)
    with pytest.raises(RuntimeError, match="Cannot use both regular backward hooks and full"):
        model.register_backward_hook(print)

"""Hooks on steps and state dicts, registered for one optimiser or for all."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import fastdist
from fastdist import Tensor, optim
from fastdist.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)


class Down(optim.Optimizer):
    """An optimiser as PyTorch's users write it: it overrides `step` and reads `.grad`."""

    def __init__(self, params: Any, lr: float = 0.5) -> None:
        super().__init__(params, {"lr": lr})

    @fastdist.no_grad()
    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self.state[parameter]["count"] = self.state[parameter].get("count", 0) + 1
                    parameter.add_(parameter.grad, alpha=-group["lr"])
        return None if closure is None else closure()


def leaf() -> Tensor:
    parameter = fastdist.tensor([1.0], requires_grad=True)
    parameter.grad = fastdist.tensor([1.0])
    return parameter


@pytest.mark.parametrize("make", [Down, optim.SGD, optim.Adagrad])
def test_hooks_are_called_around_a_step_from_the_outside_in(make: Any) -> None:
    seen: list[Any] = []
    optimizer = make([leaf()])
    optimizer.register_step_pre_hook(lambda *given: seen.append(("before", *given)))
    optimizer.register_step_post_hook(lambda *given: seen.append(("after", *given)))
    with (
        register_optimizer_step_pre_hook(lambda o, a, k: seen.append("all before")),
        register_optimizer_step_post_hook(lambda o, a, k: seen.append("all after")),
    ):
        optimizer.step(None)
    given = (optimizer, (optimizer, None), {})
    assert seen == ["all before", ("before", *given), ("after", *given), "all after"]
    optimizer.step()
    assert len(seen) == 6


def test_hooks_are_called_once_where_a_step_calls_the_one_above() -> None:
    class Twice(optim.SGD):
        def step(self, closure: Any = None) -> Any:
            return super().step(closure)

    seen: list[bool] = []
    optimizer = Twice([leaf()])
    optimizer.register_step_pre_hook(lambda *_: seen.append(fastdist.is_grad_enabled()))
    optimizer.step()
    assert seen == [True]


def test_a_hook_may_change_the_arguments() -> None:
    optimizer = optim.SGD([leaf()])
    optimizer.register_step_pre_hook(lambda o, args, kwargs: ((o, lambda: 7), {}))
    assert optimizer.step() == 7


def test_a_hook_that_returns_something_else_is_refused() -> None:
    optimizer = optim.SGD([leaf()])
    optimizer.register_step_pre_hook(lambda *_: 3)
    with pytest.raises(RuntimeError, match=r"must return None or a tuple of \(new_args, new_kwar"):
        optimizer.step()


def test_an_error_of_a_hook_lets_the_next_step_call_hooks_again() -> None:
    optimizer, seen = optim.SGD([leaf()]), []
    with (
        optimizer.register_step_post_hook(lambda *_: 1 / 0),
        pytest.raises(ZeroDivisionError),
    ):
        optimizer.step()
    optimizer.register_step_pre_hook(lambda *_: seen.append(1))
    optimizer.step()
    assert seen == [1]


def test_state_dict_hooks_see_and_may_replace_what_is_saved() -> None:
    seen: list[Any] = []
    optimizer = optim.SGD([leaf()])
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("second"))
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("first"), prepend=True)
    optimizer.register_state_dict_post_hook(lambda o, saved: {**saved, "more": 1})
    optimizer.register_state_dict_post_hook(lambda o, saved: seen.append(sorted(saved)))
    saved = optimizer.state_dict()
    assert seen == ["first", "second", ["more", "param_groups", "state"]] and saved["more"] == 1


def test_load_state_dict_hooks_see_and_may_replace_what_is_loaded() -> None:
    seen: list[Any] = []
    optimizer = optim.SGD([leaf()], lr=0.5)
    saved = optimizer.state_dict()

    def faster(_: Any, given: dict[str, Any]) -> dict[str, Any]:
        assert given is not saved
        return {**given, "param_groups": [{**given["param_groups"][0], "lr": 2.0}]}

    optimizer.register_load_state_dict_pre_hook(faster)
    optimizer.register_load_state_dict_post_hook(lambda o: seen.append(o.param_groups[0]["lr"]))
    optimizer.load_state_dict(saved)
    assert seen == [2.0]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_hooks_do_not_travel(copied: Any) -> None:
    optimizer = Down([leaf()])
    optimizer.register_step_pre_hook(lambda *_: 1 / 0)
    twin = copied(optimizer)
    twin.param_groups[0]["params"][0].grad = fastdist.tensor([1.0])
    twin.step()
    assert twin.param_groups[0]["params"][0].tolist() == [0.5]


def test_names_that_programs_import_are_there() -> None:
    from fastdist.optim import adam, adamw, optimizer, sgd

    class Differentiable(Down):
        @optimizer._use_grad_for_differentiable
        def step(self, closure: Any = None) -> Any:
            return fastdist.is_grad_enabled()

    made = Differentiable([leaf()])
    made.defaults["differentiable"] = False
    assert made.step() is False
    assert optimizer._default_to_fused_or_foreach([leaf()], differentiable=False) == (False, False)
    assert optimizer._get_value(fastdist.tensor(2.0)) == 2.0
    assert (adam.Adam, adamw.AdamW, sgd.SGD) == (optim.Adam, optim.AdamW, optim.SGD)

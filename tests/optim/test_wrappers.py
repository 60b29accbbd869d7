"""Wrappers of optimisers that skip `Optimizer.__init__` step, save and load like the optimiser."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import fastdist as fd
from fastdist.amp import GradScaler
from fastdist.nn import Parameter
from fastdist.optim import SGD, Adam, Optimizer, hooks
from fastdist.optim.lr_scheduler import LambdaLR, OneCycleLR, ReduceLROnPlateau, StepLR


class ByProperties(Optimizer):
    def __init__(self, inner: Optimizer) -> None:
        self.inner = inner

    @property
    def param_groups(self) -> Any:  # type: ignore[override]
        return self.inner.param_groups

    @property
    def state(self) -> Any:  # type: ignore[override]
        return self.inner.state

    @property
    def defaults(self) -> Any:  # type: ignore[override]
        return self.inner.defaults

    def step(self, closure: Any = None) -> Any:
        return self.inner.step(closure)


class BySlot(ByProperties):
    __slots__ = ("inner",)


class ByGetattr(Optimizer):
    def __init__(self, inner: Optimizer) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        if name == "inner":
            raise AttributeError(name)
        return getattr(self.inner, name)

    def step(self, closure: Any = None) -> Any:
        return self.inner.step(closure)


class ByCopiedDict(Optimizer):
    def __init__(self, inner: Optimizer) -> None:
        self.__dict__.update(inner.__dict__)
        self.inner = inner

    def step(self, closure: Any = None) -> Any:
        return self.inner.step(closure)


class OfOwnState(SGD):
    """An optimiser that sets the base class's attributes itself and uses the base class's step."""

    def __init__(self, inner: Optimizer) -> None:
        self.param_groups, self.defaults = inner.param_groups, inner.defaults
        self.state = inner.state


WRAPPERS = (ByProperties, BySlot, ByGetattr, ByCopiedDict, OfOwnState)
each_wrapper = pytest.mark.parametrize("kind", WRAPPERS)


def wrapped(kind: Any) -> tuple[Parameter, Any, Optimizer]:
    parameter = Parameter(fd.ones(2))
    parameter.grad = fd.ones(2)
    inner = SGD([parameter], lr=0.5, momentum=0.5)
    return parameter, kind(inner), inner


@each_wrapper
def test_a_wrapper_steps_with_and_without_a_closure(kind: Any) -> None:
    parameter, wrapper, _ = wrapped(kind)
    wrapper.step()
    assert parameter.tolist() == [0.5, 0.5]
    assert wrapper.step(lambda: 7) == 7


@each_wrapper
def test_a_wrapper_clears_gradients_and_takes_groups(kind: Any) -> None:
    parameter, wrapper, inner = wrapped(kind)
    wrapper.zero_grad(set_to_none=False)
    assert parameter.grad is not None and parameter.grad.tolist() == [0.0, 0.0]
    wrapper.zero_grad()
    assert parameter.grad is None
    wrapper.add_param_group({"params": [Parameter(fd.ones(1))]})
    assert len(inner.param_groups) == 2 and inner.param_groups[1]["lr"] == 0.5


@each_wrapper
def test_a_wrapper_saves_and_loads(kind: Any) -> None:
    _, wrapper, inner = wrapped(kind)
    wrapper.step()
    saved = wrapper.state_dict()
    assert saved["state"][0]["momentum_buffer"].tolist() == [1.0, 1.0]
    wrapper.load_state_dict(saved)
    wrapper.step()
    assert "SGD" in repr(inner) and type(wrapper).__name__ in repr(wrapper)


@each_wrapper
def test_hooks_of_a_wrapper_run_once_around_a_step(kind: Any) -> None:
    _, wrapper, _ = wrapped(kind)
    seen: list[str] = []
    wrapper.register_step_pre_hook(lambda *_: seen.append("before"))
    wrapper.register_step_post_hook(lambda *_: seen.append("after"))
    wrapper.register_state_dict_post_hook(lambda *_: seen.append("saved"))
    wrapper.step()
    wrapper.state_dict()
    assert seen == ["before", "after", "saved"]


@pytest.mark.parametrize("kind", WRAPPERS[:-1])
def test_hooks_of_all_and_of_the_wrapped_run_once(kind: Any) -> None:
    _, wrapper, inner = wrapped(kind)
    seen: list[Any] = []
    inner.register_step_post_hook(lambda *_: seen.append("inner"))
    of_all = hooks.register_optimizer_step_pre_hook(lambda *given: seen.append(given[0]))
    try:
        wrapper.step()
        wrapper.load_state_dict(wrapper.state_dict())
        wrapper.step()
    finally:
        of_all.remove()
    assert seen == [inner, "inner"] * 2


SCHEDULERS: list[Callable[[Any], Any]] = [
    lambda optimizer: StepLR(optimizer, 1, 0.5),
    lambda optimizer: LambdaLR(optimizer, lambda epoch: 0.5**epoch),
    lambda optimizer: OneCycleLR(optimizer, 1.0, total_steps=4),
]


@each_wrapper
@pytest.mark.parametrize("make", SCHEDULERS)
def test_schedulers_go_over_wrappers(kind: Any, make: Callable[[Any], Any]) -> None:
    _, wrapper, inner = wrapped(kind)
    scheduler = make(wrapper)
    plain = make(wrapped(lambda one: one)[2])
    wrapper.step()
    scheduler.step()  # a warning of a missed step would be an error
    plain.optimizer.step()
    plain.step()
    assert scheduler.get_last_lr() == plain.get_last_lr() == [inner.param_groups[0]["lr"]]


@each_wrapper
def test_a_plateau_and_a_scaler_go_over_wrappers(kind: Any) -> None:
    parameter, wrapper, inner = wrapped(kind)
    scheduler = ReduceLROnPlateau(wrapper, factor=0.5, patience=0)
    for loss in (1.0, 2.0):
        scheduler.step(loss)
    assert inner.param_groups[0]["lr"] == 0.25
    scaler = GradScaler("cpu", init_scale=2.0)
    scaler.scale(fd.ones(()))
    scaler.step(wrapper)
    scaler.update()
    assert parameter.tolist() == [0.875, 0.875]


@pytest.mark.parametrize("kind", [ByProperties, ByGetattr, ByCopiedDict, OfOwnState])
@pytest.mark.parametrize(
    "again", [copy.deepcopy, copy.copy, lambda one: pickle.loads(pickle.dumps(one))]
)
def test_copies_of_wrappers_step(kind: Any, again: Callable[[Any], Any]) -> None:
    _, wrapper, _ = wrapped(kind)
    wrapper.step()
    other = again(wrapper)
    (parameter,) = other.param_groups[0]["params"]
    parameter.grad = fd.ones(2)
    before = parameter.tolist()
    other.step()
    assert parameter.tolist() == [one - 0.75 for one in before]


def test_a_step_with_gradients_from_elsewhere_takes_wrappers() -> None:
    parameter, wrapper, _ = wrapped(ByProperties)
    wrapper.step_with({parameter: fd.full((2,), 2.0)})
    assert parameter.tolist() == [0.0, 0.0]


def test_an_optimiser_that_was_never_made_steps() -> None:
    class Bare(Optimizer):
        def __init__(self) -> None:
            pass

        def step(self, closure: Any = None) -> Any:
            return 7

    assert Bare().step() == 7
    with pytest.raises(AttributeError, match="param_groups"):
        Bare().zero_grad()
    assert isinstance(Adam.__new__(Adam), Optimizer)


def test_a_step_that_was_set_later_calls_the_hooks() -> None:
    class Late(fd.optim.Optimizer):
        def __init__(self) -> None:
            super().__init__([fd.nn.Parameter(fd.ones(1))], {})

    def step(self: Late, closure: Any = None) -> None:
        calls.append("step")

    calls: list[str] = []
    Late.step = step  # type: ignore[method-assign]
    late = Late()
    late.register_step_pre_hook(lambda *_: calls.append("before"))
    late._patch_step_function()
    late._patch_step_function()
    late.step()
    assert calls == ["before", "step"]

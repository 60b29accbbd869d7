"""Hooks of all modules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import fastdist
from fastdist import nn
from fastdist.nn.modules import module as hooks


@pytest.fixture
def handles() -> Iterator[list[Any]]:
    found: list[Any] = []
    yield found
    for handle in found:
        handle.remove()
    assert not hooks._has_any_global_hook()


def test_a_forward_hook_sees_every_module_and_may_replace_its_output(handles: list[Any]) -> None:
    seen: list[str] = []

    def hook(module: nn.Module, args: Any, output: Any) -> Any:
        seen.append(type(module).__name__)
        return output + 1

    handles.append(hooks.register_module_forward_hook(hook))
    out = nn.Sequential(nn.Identity(), nn.Flatten())(fastdist.zeros(1, 2))
    assert (seen, out.tolist()) == (["Identity", "Flatten", "Sequential"], [[3.0, 3.0]])


def test_a_pre_hook_may_replace_the_arguments_of_every_call(handles: list[Any]) -> None:
    handles.append(hooks.register_module_forward_pre_hook(lambda module, args: (args[0] * 2,)))
    assert nn.Identity()(fastdist.tensor(3.0)).item() == 6.0


def test_a_hook_with_always_call_is_called_where_forward_raises(handles: list[Any]) -> None:
    outputs: list[Any] = []
    handles.append(
        hooks.register_module_forward_hook(
            lambda module, args, kwargs, output: outputs.append((kwargs, output)),
            with_kwargs=True,
            always_call=True,
        )
    )
    with pytest.raises(RuntimeError):
        nn.Linear(2, 2)(input=fastdist.zeros(3))
    assert [output for _, output in outputs] == [None]


def test_a_backward_hook_replaces_the_gradients_of_every_call(handles: list[Any]) -> None:
    x = fastdist.ones(2, requires_grad=True)
    handles.append(hooks.register_module_full_backward_hook(lambda m, gi, go: (gi[0] * 10,)))
    nn.Identity()(x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [10.0, 10.0]


def test_the_two_kinds_of_backward_hooks_exclude_each_other(handles: list[Any]) -> None:
    handles.append(hooks.register_module_backward_hook(lambda m, gi, go: None))
    with pytest.raises(RuntimeError, match="regular ones"):
        hooks.register_module_full_backward_hook(lambda m, gi, go: None)


def test_registrations_call_hooks_that_may_replace_the_part(handles: list[Any]) -> None:
    names: list[str] = []
    handles += [
        hooks.register_module_parameter_registration_hook(lambda m, n, p: names.append(n)),
        hooks.register_module_buffer_registration_hook(lambda m, n, b: b + 1),
        hooks.register_module_module_registration_hook(lambda m, n, c: nn.Identity()),
    ]
    module = nn.Linear(1, 1)
    module.register_buffer("count", fastdist.zeros(1))
    module.child = nn.ReLU()
    assert names == ["weight", "bias"]
    assert module.count.item() == 1.0
    assert isinstance(module.child, nn.Identity)


def test_a_module_shows_its_backward_hooks_as_packages_read_them() -> None:
    module = nn.Identity()
    assert (module._backward_hooks, module._is_full_backward_hook) == ({}, None)
    module.register_full_backward_hook(print)
    module.register_full_backward_pre_hook(repr)
    assert list(module._backward_hooks.values()) == [print]
    assert list(module._backward_pre_hooks.values()) == [repr]
    assert module._is_full_backward_hook is True

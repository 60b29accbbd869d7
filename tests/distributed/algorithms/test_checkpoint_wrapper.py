"""Wrappers that recompute a module's activations."""

from __future__ import annotations

import pytest

import fastdist as fd
import fastdist.nn as nn
from fastdist.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    ActivationWrapper,
    CheckpointImpl,
    CheckpointWrapper,
    OffloadWrapper,
    apply_activation_checkpointing,
    checkpoint_wrapper,
    offload_wrapper,
)
from fastdist.distributed.fsdp.wrap import ModuleWrapPolicy


class Counted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.calls = 0

    def forward(self, x: fd.Tensor, *, scale: float = 1.0) -> fd.Tensor:
        self.calls += 1
        return fd.tanh(self.linear(x)) * scale


@pytest.mark.parametrize("kind", [*CheckpointImpl, None])
def test_a_wrapped_module_gives_the_same_gradient(kind: CheckpointImpl | None) -> None:
    fd.manual_seed(0)
    plain = Counted()
    x = fd.randn(2, 3, requires_grad=True)
    plain(x, scale=3.0).sum().backward()
    assert x.grad is not None
    wanted = [x.grad.clone(), plain.linear.weight.grad.clone()]
    x.grad = plain.linear.weight.grad = None
    plain.calls = 0
    wrapped = offload_wrapper(plain) if kind is None else checkpoint_wrapper(plain, kind)
    wrapped(x, scale=3.0).sum().backward()
    assert plain.calls == (1 if kind is None else 2)
    assert fd.equal(x.grad, wanted[0]) and fd.equal(plain.linear.weight.grad, wanted[1])
    assert isinstance(wrapped, OffloadWrapper if kind is None else CheckpointWrapper)


def test_names_and_states_are_those_of_the_module() -> None:
    module = Counted()
    wrapped = checkpoint_wrapper(module)
    names = ["linear.weight", "linear.bias"]
    assert [*wrapped.state_dict()] == names
    assert [name for name, _ in wrapped.named_parameters()] == names
    assert wrapped.calls == 0
    assert checkpoint_wrapper(nn.Sequential(module))[0] is module
    state = {name: fd.ones_like(value) for name, value in module.state_dict().items()}
    wrapped.load_state_dict(state)
    assert module.linear.weight.sum() == 9
    with pytest.raises(ValueError, match=r"implement forward\(\)"):
        ActivationWrapper(module)(fd.ones(1))


def test_modules_inside_a_model_are_wrapped_by_choice() -> None:
    def chosen(**choice: object) -> list[str]:
        shared = nn.Tanh()
        model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 1), shared), shared)
        apply_activation_checkpointing(model, **choice)  # type: ignore[arg-type]
        return [name for name, one in model.named_modules() if isinstance(one, CheckpointWrapper)]

    assert chosen(check_fn=lambda module: isinstance(module, nn.Linear)) == ["0", "1.0"]
    assert chosen(auto_wrap_policy=ModuleWrapPolicy({nn.Sequential})) == ["1"]
    assert chosen(checkpoint_wrapper_fn=offload_wrapper) == []

"""Uses of modules other than calls, compared with PyTorch 2.13."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

import fastdist
from fastdist import nn


class Pair(NamedTuple):
    first: fastdist.Tensor
    second: fastdist.Tensor


class Makes(nn.Module):
    """Makes an object of a given class from a linear layer's result."""

    def __init__(self, what: type) -> None:
        super().__init__()
        self.layer, self.what = nn.Linear(2, 2), what

    def forward(self, x: fastdist.Tensor) -> Any:
        y = self.layer(x)
        return self.what(y, y * 2) if self.what is Pair else self.what([y])


class Named:
    def __init__(self, name: str = "none", **more: Any) -> None:
        self.name = name
        super().__init__(**more)


class NamedModule(nn.Module, Named):
    call_super_init = True


@pytest.mark.parametrize("convert", ["float", "double", "half", "cpu"])
def test_moving_a_module_goes_on_counting_changes_and_keeps_who_is_who(convert: str) -> None:
    layer = nn.Linear(2, 2)
    layer(fastdist.ones(1, 2)).sum().backward()
    weight, grad = layer.weight, layer.weight.grad
    with fastdist.no_grad():
        weight.add_(1)
        weight.add_(1)
        grad.add_(1)
    versions = weight._version, grad._version
    getattr(layer, convert)()
    assert layer.weight is weight and weight.grad is grad
    assert (
        (weight._version, grad._version) == versions
        and min(versions) > 0
        and grad.dtype is weight.dtype
    )


def test_a_hook_on_a_module_leaves_its_named_tuple_one() -> None:
    told: list[int] = []
    module = Makes(Pair)
    module.register_full_backward_hook(lambda m, gi, go: told.append(len(go)))
    out = module(fastdist.ones(1, 2, requires_grad=True))
    (out.first + out.second).sum().backward()
    assert type(out) is Pair and told == [2]


def test_a_hook_is_not_called_where_the_results_gradients_are_not_told() -> None:
    module = Makes(list)
    module.register_full_backward_hook(lambda m, gi, go: pytest.fail("called"))
    x = fastdist.ones(1, 2, requires_grad=True)
    module(x)[0].sum().backward()
    assert x.grad is not None


def test_call_super_init_gives_the_arguments_to_the_other_class() -> None:
    assert (NamedModule("a").name, NamedModule(name="b").name) == ("a", "b")
    with pytest.raises(TypeError, match="takes 1 positional argument but 2 were given"):
        nn.Module(1)
    with pytest.raises(TypeError, match="got an unexpected keyword argument 'name'"):
        nn.Module(name=1)


def test_a_state_dict_repeats_what_is_tied_and_takes_older_arguments() -> None:
    layer = nn.Linear(1, 1, bias=False)
    twice = nn.Sequential(layer, layer)
    assert list(twice.state_dict()) == ["0.weight", "1.weight"]
    found = layer.state_dict({}, "of.", True)
    assert list(found) == ["of.weight"] and found["of.weight"] is layer.weight
    names = [name for name, _ in twice.named_parameters(remove_duplicate=False)]
    assert names == ["0.weight", "1.weight"]


def test_a_lone_number_is_loaded_from_a_row_of_one() -> None:
    module = nn.Module()
    module.register_buffer("scale", fastdist.tensor(1.0))
    module.load_state_dict({"scale": fastdist.tensor([3.0])})
    assert module.scale.shape == () and module.scale.item() == 3.0

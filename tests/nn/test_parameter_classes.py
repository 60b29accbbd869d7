"""Tensors of user classes can be Parameters and Buffers and keep their class."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import fastdist as fd
from fastdist import nn


class Marked(fd.Tensor):
    """A user-defined subclass of Tensor."""


class Forgetful(fd.Tensor):
    """A subclass whose detach() returns a plain Tensor."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = super().__torch_function__(func, types, args, kwargs or {})
        return found.as_subclass(fd.Tensor) if func.__name__ == "detach" else found


def marked_linear() -> nn.Linear:
    layer = nn.Linear(3, 2)
    layer.weight = nn.Parameter(fd.ones(2, 3).as_subclass(Marked))
    return layer


def test_a_parameter_of_a_class_is_both() -> None:
    data = fd.ones(2, 3).as_subclass(Marked)
    made = nn.Parameter(data)
    assert type(made) is Marked and isinstance(made, nn.Parameter) and made.is_leaf
    assert made.requires_grad and not nn.Parameter(data, requires_grad=False).requires_grad
    assert made.data_ptr() == data.data_ptr()
    assert type(nn.Parameter(made)) is Marked
    for other in (data, made.detach(), made.data, made + 1, fd.ones(2)):
        assert not isinstance(other, nn.Parameter)
    assert not isinstance(made, nn.Buffer)
    assert not isinstance(made, nn.parameter.UninitializedParameter)


def test_a_module_learns_by_it_and_hands_the_class_on() -> None:
    layer = marked_linear()
    assert [type(one) for one in layer.parameters()] == [Marked, nn.Parameter]
    result = layer(fd.ones(1, 3))
    assert type(result) is Marked
    result.sum().backward()
    fd.optim.SGD(layer.parameters(), lr=1.0).step()
    assert layer.weight.tolist() == [[0.0] * 3] * 2
    layer.load_state_dict(marked_linear().state_dict())
    assert type(layer.weight) is Marked and layer.weight.tolist() == [[1.0] * 3] * 2


@pytest.mark.parametrize("again", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_it_stays_one_where_a_module_is_copied_or_cast(again: Any) -> None:
    layer = again(marked_linear()).to(fd.float64)
    assert type(layer.weight) is Marked and isinstance(layer.weight, nn.Parameter)
    assert layer.weight.dtype is fd.float64
    assert [name for name, _ in layer.named_parameters()] == ["weight", "bias"]


def test_a_buffer_of_a_class_is_both() -> None:
    module = nn.Module()
    module.kept = nn.Buffer(fd.ones(2).as_subclass(Marked))
    module.passing = nn.Buffer(fd.ones(2).as_subclass(Marked), persistent=False)
    assert type(module.kept) is Marked and isinstance(module.kept, nn.Buffer)
    assert [name for name, _ in module.named_buffers()] == ["kept", "passing"]
    assert list(module.state_dict()) == ["kept"]
    assert not isinstance(module.kept, nn.Parameter) and not module.kept.requires_grad


@pytest.mark.parametrize("kind", [nn.Parameter, nn.Buffer])
def test_a_class_that_is_lost_on_the_way_is_refused(kind: Any) -> None:
    with pytest.raises(RuntimeError, match=f"Creating a {kind.__name__} from an instance of type"):
        kind(fd.ones(2).as_subclass(Forgetful))

"""Subclasses of Tensor, with and without a constructor, are created as in PyTorch."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import fastdist as fd
from fastdist import nn
from fastdist.tensor.tensor import Tensor, empty_shell


class InitAlone(fd.Tensor):
    def __init__(self, *data: Any) -> None:
        self.tag = 5


class InitOfBase(fd.Tensor):
    def __init__(self, *data: Any) -> None:
        super().__init__()
        self.tag = 5


class NewOfSuper(fd.Tensor):
    def __new__(cls, data: Any) -> Any:
        made = super().__new__(cls, data)
        made.tag = 5
        return made


class NewByName(fd.Tensor):
    def __new__(cls, data: Any) -> Any:
        return fd.Tensor.__new__(cls, data)

    def __init__(self, data: Any) -> None:
        self.tag = 5


class NewOfView(fd.Tensor):
    @staticmethod
    def __new__(cls: Any, data: Any) -> Any:
        return fd.Tensor._make_subclass(cls, fd.as_tensor(data))

    def __init__(self, data: Any) -> None:
        super().__init__()
        self.tag = 5


KINDS: list[Any] = [InitAlone, InitOfBase, NewOfSuper, NewByName, NewOfView]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("data", [[1.0, 2.0], fd.tensor([1.0, 2.0])])
def test_a_subclass_has_its_numbers_its_class_and_its_attributes(kind: Any, data: Any) -> None:
    made = kind(data)
    assert type(made) is kind and made.tag == 5 and made.tolist() == [1.0, 2.0]
    for found in (made + 1, 1 + made, made.clone().add_(1), fd.add(made, 1)):
        assert type(found) is kind and found.tolist() == [2.0, 3.0]
    assert type(made.sum()) is kind and repr(made).startswith(kind.__name__)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))]
)
def test_copies_of_a_subclass_are_of_it(kind: Any, again: Any) -> None:
    found = again(kind([1.0, 2.0]))
    assert type(found) is kind and found.tag == 5 and found.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_arrive_at_a_subclass(kind: Any) -> None:
    made = kind([1.0, 2.0]).requires_grad_()
    (made * made).sum().backward()
    assert made.grad.tolist() == [2.0, 4.0]


def test_sizes_make_memory_of_a_subclass() -> None:
    assert InitAlone(2, 3).shape == (2, 3) and InitAlone().shape == (0,)
    assert fd.Tensor.__new__(fd.Tensor, [1.5]).tolist() == [1.5]
    assert fd.Tensor.__new__(fd.Tensor).shape == (0,)


def test_what_is_no_data_is_refused() -> None:
    with pytest.raises(TypeError):
        InitAlone([1.0], "name")


def test_a_view_as_a_subclass_shares_memory() -> None:
    data = fd.zeros(2)
    made = fd.Tensor._make_subclass(InitAlone, data, True)
    data.fill_(3)
    assert made.tolist() == [3.0, 3.0] and made.requires_grad and made.is_leaf


def test_a_parameter_with_an_init_of_its_own_is_one() -> None:
    class Tagged(nn.Parameter):
        def __init__(self, data: Any, tag: int = 0) -> None:
            self.tag = tag

        def __new__(cls, data: Any, tag: int = 0) -> Any:
            return super().__new__(cls, data)

    made = Tagged(fd.ones(1), tag=3)
    assert type(made) is Tagged and made.tag == 3 and made.requires_grad


def test_results_of_ops_are_made_without_python() -> None:
    assert "__new__" not in vars(Tensor) and type(empty_shell()) is Tensor
    with pytest.raises(AttributeError, match="where the class is defined"):
        fd.Tensor.__new__ = object.__new__  # type: ignore[method-assign]


class Named(fd.Tensor):
    """A class with attributes whose names Tensor itself uses."""

    edge = "theirs"

    @staticmethod
    def __new__(cls: Any, data: Any) -> Any:
        return fd.as_tensor(data).as_subclass(cls)

    @property
    def array(self) -> Any:
        return self.tolist()

    @array.setter
    def array(self, values: Any) -> None:
        self.copy_(fd.tensor(values))

    def extra(self) -> int:  # type: ignore[override]
        return 7


def test_a_subclass_may_use_names_that_tensor_itself_uses() -> None:
    x: Any = Named([1.0, 2.0])
    assert (x.array, x.edge, x.extra(), Named.edge) == ([1.0, 2.0], "theirs", 7, "theirs")
    x.array, x.edge = [3.0, 4.0], "mine"
    assert (x.tolist(), x.edge, (x * 2).array, (x * 2).edge) == ([3, 4], "mine", [6, 8], "theirs")
    y = x.requires_grad_() * x
    y.sum().backward()
    assert type(y) is Named and x.grad.tolist() == [6.0, 8.0]

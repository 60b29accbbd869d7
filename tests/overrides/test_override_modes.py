"""Function modes: the calls that they receive, the order of modes, and replacement functions."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from typing import Any

import pytest

import fastdist as fd
from fastdist import overrides
from fastdist.graph.modes import modes
from fastdist.nn import functional as F
from tests.overrides.test_overrides import TAKEN, Foreign, called_with, public_functions, told


class Taking(overrides.TorchFunctionMode):
    """A mode that replaces the result of each call."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls.append(func)
        return TAKEN


class Hearing(Taking):
    """A mode that records each call and lets it run."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls.append(func)
        return func(*args, **(kwargs or {}))


def test_every_public_function_asks_the_mode_first() -> None:
    wrong, ignored, x = [], overrides.get_ignored_functions(), fd.ones(2)
    for name, function in public_functions():
        if function in ignored:
            continue
        with Taking() as mode:
            found = called_with(function, x)
        if found is not TAKEN or mode.calls != [function]:
            wrong.append(name)
    assert wrong == []


x, y = fd.ones(2, 2), fd.full((2, 2), 3.0)


@pytest.mark.parametrize(
    ("call", "function"),
    [
        (lambda: x + y, fd.Tensor.add),
        (lambda: 1 - x, fd.Tensor.__rsub__),
        (lambda: x @ y, fd.Tensor.matmul),
        (lambda: -x, fd.Tensor.neg),
        (lambda: x < y, fd.Tensor.lt),
        (lambda: x.mul(y), fd.Tensor.mul),
        (x.sum, fd.Tensor.sum),
        (lambda: x.mul_(1), fd.Tensor.mul_),
        (x.tril_, fd.Tensor.tril_),
        (lambda: x.copy_(y), fd.Tensor.copy_),
        (x.zero_, fd.Tensor.zero_),
        (lambda: x.fill_(1), fd.Tensor.fill_),
        (x.squeeze_, fd.Tensor.squeeze_),
        (lambda: x.view(4), fd.Tensor.view),
        (lambda: x.reshape(4), fd.Tensor.reshape),
        (lambda: x[0], fd.Tensor.__getitem__),
        (x.float, fd.Tensor.float),
        (x.detach, fd.Tensor.detach),
        (x.backward, fd.Tensor.backward),
        (lambda: x.new_zeros(2), fd.Tensor.new_zeros),
        (lambda: fd.autograd.grad(x, y), fd.autograd.grad),
        (lambda: F.relu(x), F.relu),
        (lambda: F.elu(x, 2.0), F.elu),
        (lambda: F.softmax(x, 1), F.softmax),
        (lambda: F.linear(x, y), F.linear),
        (lambda: fd.zeros(2, 2), fd.zeros),
        (lambda: fd.tensor([1.0]), fd.tensor),
        (lambda: fd.rand(2), fd.rand),
        (lambda: fd.zeros_like(x), fd.zeros_like),
    ],
)
def test_methods_operators_and_makers_ask_the_mode(
    call: Callable[[], Any], function: Callable[..., Any]
) -> None:
    for _ in range(2):  # without a mode, the second call would take the short path
        with Taking() as mode:
            found = call()
        assert found is TAKEN and mode.calls == [function]
    assert x.tolist() == [[1, 1], [1, 1]]


def test_entries_are_written_through_the_mode() -> None:
    with Taking() as mode:
        x[0, 0] = 5
    assert mode.calls == [fd.Tensor.__setitem__] and x[0, 0] == 1


def test_what_a_function_calls_for_its_own_work_is_not_heard() -> None:
    leaf = fd.randn(3, 4, requires_grad=True)
    with Hearing() as mode:
        loss = F.layer_norm(leaf, (4,)).square().sum()
        loss.backward()
    assert mode.calls == [F.layer_norm, fd.square, fd.Tensor.sum, fd.Tensor.backward]
    assert leaf.grad is not None and loss.grad_fn is not None


def test_what_a_mode_calls_goes_to_the_next_one_out() -> None:
    with Hearing() as outer, Hearing() as inner:
        found = fd.add(x, y)
    assert outer.calls == inner.calls == [fd.add] and found.tolist() == [[4, 4], [4, 4]]
    with Hearing() as outer, Taking() as inner:
        fd.add(x, y)
    assert (outer.calls, inner.calls) == ([], [fd.add])


def test_a_mode_is_asked_before_arguments() -> None:
    class Passing(Taking):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            self.calls.append((func, types, len(Foreign.calls)))
            return NotImplemented

    Foreign.calls.clear()
    with Passing() as mode:
        found = fd.add(Foreign(), 2.0)
    assert found is TAKEN and mode.calls == [(fd.add, (Foreign,), 0)]
    assert [call[0] for call in Foreign.calls] == [fd.add]
    with pytest.raises(TypeError, match=r"failed for 'fastdist.add'"), Passing():
        fd.add(x, y)


def test_subclasses_alone_are_disabled() -> None:
    one = told(1.0)
    with Taking() as mode, overrides.DisableTorchFunctionSubclass():
        assert overrides.has_torch_function((x,)) and fd.add(one, 1.0) is TAKEN
    assert mode.calls == [fd.add] and not overrides.has_torch_function((x,))


def test_functions_of_users_ask_the_mode() -> None:
    def ours(value: Any) -> Any:
        if overrides.has_torch_function_unary(value):
            return overrides.handle_torch_function(ours, (value,), value)
        return value * 2

    with Taking() as mode:
        assert ours(x) is TAKEN
    assert mode.calls == [ours] and ours(x).sum() == 8


def test_a_mode_is_of_its_thread_and_ends_with_its_block() -> None:
    found: list[Any] = []
    before = (modes.special, modes.tracers)
    with Taking():
        other = threading.Thread(target=lambda: found.append(fd.add(x, y)))
        other.start()
        other.join()
    with pytest.raises(ZeroDivisionError), Taking():
        _ = 1 / 0
    assert found[0].tolist() == [[4, 4], [4, 4]] and (x + y).tolist() == found[0].tolist()
    assert (modes.special, modes.tracers) == before


def test_a_mode_that_fails_leaves_the_block_as_it_was() -> None:
    class Failing(Taking):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            raise KeyError("on purpose")

    with Hearing() as outer, Failing():
        for _ in range(2):
            with pytest.raises(KeyError, match="on purpose"):
                fd.add(x, y)
    assert outer.calls == []


def test_a_base_mode_lets_calls_run_and_one_without_a_function_says_so() -> None:
    with overrides.BaseTorchFunctionMode():
        assert (x + y).tolist() == [[4, 4], [4, 4]]
    with pytest.raises(NotImplementedError), overrides.TorchFunctionMode():
        fd.add(x, y)
    with pytest.warns(UserWarning, match=r"push\(\)` is no longer necessary"):
        assert isinstance(Taking.push(), Taking)


def test_every_function_that_is_offered_has_a_stand_in_of_its_signature() -> None:
    stand_ins = overrides.get_testing_overrides()
    listed = [one for room in overrides.get_overridable_functions().values() for one in room]
    assert stand_ins.keys() == {*listed}
    assert stand_ins[fd.add](1, 2) == -1 and stand_ins[F.linear](x, y, bias=None) == -1
    told_of = [
        [(one.name, one.kind, one.default) for one in inspect.signature(f).parameters.values()]
        for f in (fd.add, stand_ins[fd.add])
    ]
    assert told_of[0] == told_of[1]
    with pytest.raises(TypeError, match="missing"):
        stand_ins[fd.linalg.solve](x)
    wrong = [
        function
        for function in listed
        if inspect.isfunction(function)
        and [*inspect.signature(function).parameters]
        != [*inspect.signature(stand_ins[function]).parameters]
    ]
    assert wrong == []

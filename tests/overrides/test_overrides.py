"""__torch_function__: the order of classes, the functions that call it, and its results."""

from __future__ import annotations

import inspect
import subprocess
import sys
import types as python_types
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import pytest

import fastdist as fd
from fastdist import fft, linalg, overrides, special
from fastdist.nn import functional as F

TAKEN = object()


class Foreign:
    """A class with __torch_function__ that is not a Tensor."""

    calls: ClassVar[list[tuple[Any, tuple[Any, ...], dict[str, Any]]]] = []

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.calls.append((func, args, kwargs))
        return TAKEN


class Told(fd.Tensor):
    """A Tensor that records each call and lets it run."""

    calls: ClassVar[list[tuple[Any, tuple[Any, ...], tuple[Any, ...], dict[str, Any]]]] = []

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        Told.calls.append((func, types, args, kwargs))
        return super().__torch_function__(func, types, args, kwargs)


class More(Told):
    """A subclass of a subclass."""


class Refusing(fd.Tensor):
    """A Tensor whose __torch_function__ returns NotImplemented for all functions."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return NotImplemented


class Plainly(fd.Tensor):
    """A subclass without its own __torch_function__."""


class Apart(fd.Tensor):
    """A subclass with __torch_function__ disabled."""

    __torch_function__ = fd._C._disabled_torch_function_impl


@pytest.fixture(autouse=True)
def forget_calls() -> None:
    Foreign.calls.clear()
    Told.calls.clear()


def told(*numbers: float) -> Any:
    return fd.tensor(numbers or (1.0, 2.0)).as_subclass(Told)


def asked_for() -> list[Any]:
    return [call[0] for call in Told.calls]


# ---- Every public name --------------------------------------------------------------------------


# Packages whose functions have no Tensor arguments, or implement overriding in a different way.
NOT_OPS = ("core", "dispatch", "random_numbers")


def public_functions() -> Iterator[tuple[str, Any]]:
    for room in (fd, F, fft, linalg, special):
        for name in sorted(dir(room)):
            found = getattr(room, name)
            of = str(getattr(found, "__module__", "")).split(".")
            if name[0] == "_" or not isinstance(found, python_types.FunctionType):
                continue
            if of[0] == "fastdist" and not (len(of) > 2 and of[1] in NOT_OPS):
                yield f"{room.__name__}.{name}", found


def called_with(function: Callable[..., Any], value: Any) -> Any:
    """Call `function` with `value` for each required argument."""
    args, named = [], {}
    for parameter in inspect.signature(function).parameters.values():
        is_asked_for = parameter.default is parameter.empty
        if repr(parameter.default) == "<absent>":
            is_asked_for = parameter.name not in ("axis", "keepdims")
        if not is_asked_for or (args and parameter.kind is parameter.VAR_POSITIONAL):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY:
            named[parameter.name] = value
        elif parameter.kind is not parameter.VAR_KEYWORD:
            args.append(value)
    code = function.__code__
    if "args" in inspect.signature(function).parameters and not code.co_flags & inspect.CO_VARARGS:
        # The signature of an in-place op becomes known at its first call, so count the arguments of
        # its code.
        args = [value] * (code.co_argcount - len(function.__defaults__ or ()))
    return function(*(args or [value]), **named)


def test_every_public_function_asks_its_arguments_first() -> None:
    wrong, ignored = [], overrides.get_ignored_functions()
    for name, function in public_functions():
        if function in ignored:
            continue
        Foreign.calls.clear()
        try:
            is_right = called_with(function, Foreign()) is TAKEN
        except Exception as error:
            wrong.append((name, error))
            continue
        if not is_right or [call[0] for call in Foreign.calls] != [function]:
            wrong.append((name, Foreign.calls))
    assert not wrong


@pytest.mark.one_in(3)
def test_a_public_function_that_asks_nobody_takes_no_tensor_or_is_about_the_value() -> None:
    about_the_value = {"is_tensor", "is_storage", "to_dlpack", "norm_except_dim", "set_rng_state"}
    for name, function in public_functions():
        if function in overrides.get_ignored_functions():
            kinds = {str(p.annotation) for p in inspect.signature(function).parameters.values()}
            taking = kinds & {"Tensor", "Tensor | None"}
            assert not taking or function.__name__ in about_the_value, name


METHODS = [
    name
    for name in dir(fd.Tensor)
    if isinstance(inspect.getattr_static(fd.Tensor, name), python_types.FunctionType | property)
    and (name[0] != "_" or name[:2] == "__" or name in ("_base", "_version"))
    and name not in ("__iter__", "__delitem__", "__array_wrap__", "as_subclass", "is_shared")
    and name not in ("set_", "storage", "untyped_storage", "new_tensor")
]


class Taking(fd.Tensor):
    """A Tensor that overrides all functions."""

    calls: ClassVar[list[Any]] = []

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.calls.append(func)
        return TAKEN


def test_every_method_operator_and_property_of_a_subclass_asks_first() -> None:
    x = object.__new__(Taking)
    for name in METHODS:
        Taking.calls.clear()
        found: Any = getattr(x, name)
        if not isinstance(inspect.getattr_static(fd.Tensor, name), property):
            found = found(2) if name[:2] == "__" and name != "__abs__" else found()
        assert found is TAKEN and len(Taking.calls) == 1, name


# ---- The function and the arguments that __torch_function__ gets ---------------------------------


@pytest.mark.one_in(5)
@pytest.mark.parametrize(
    ("call", "function"),
    [
        (lambda u, t: u + t, fd.Tensor.add),
        (lambda u, t: t + u, fd.Tensor.add),
        (lambda u, t: 1 + u, fd.Tensor.add),
        (lambda u, t: t - u, fd.Tensor.sub),
        (lambda u, t: 1 - u, fd.Tensor.__rsub__),
        (lambda u, t: 2 / u, fd.Tensor.__rtruediv__),
        (lambda u, t: u / t, fd.Tensor.div),
        (lambda u, t: u // 2, fd.Tensor.__floordiv__),
        (lambda u, t: u**2, fd.Tensor.pow),
        (lambda u, t: 2**u, fd.Tensor.__rpow__),
        (lambda u, t: t @ u, fd.Tensor.matmul),
        (lambda u, t: -u, fd.Tensor.neg),
        (lambda u, t: u == t, fd.Tensor.__eq__),
        (lambda u, t: u < 1, fd.Tensor.lt),
        (lambda u, t: u % 2, fd.Tensor.remainder),
        (lambda u, t: u[0], fd.Tensor.__getitem__),
        (lambda u, t: t[u.long() - 1], fd.Tensor.__getitem__),
        (lambda u, t: t.__setitem__(slice(2), u), fd.Tensor.__setitem__),
        (lambda u, t: u.reshape(1, 2).T, fd.Tensor.T.__get__),  # type: ignore[attr-defined]
        (lambda u, t: u.shape, fd.Tensor.shape.__get__),  # type: ignore[attr-defined]
        (lambda u, t: setattr(u, "grad", None), fd.Tensor.grad.__set__),  # type: ignore[attr-defined]
        (lambda u, t: u.add_(t), fd.Tensor.add_),
        (lambda u, t: t.add_(u), fd.Tensor.add_),
        (lambda u, t: t.__iadd__(u), fd.Tensor.add_),
        (lambda u, t: t.copy_(u), fd.Tensor.copy_),
        (lambda u, t: u.sum(dim=0), fd.Tensor.sum),
        (lambda u, t: fd.cat([t, u]), fd.cat),
        (lambda u, t: fd.stack((t, u)), fd.stack),
        (lambda u, t: fd.exp(t, out=u), fd.exp),
        (lambda u, t: fd.where(t > 0, t, u), fd.where),
        (lambda u, t: F.relu(u), F.relu),
        (lambda u, t: F.softplus(u), F.softplus),
        (lambda u, t: F.elu(u), F.elu),
        (lambda u, t: F.linear(u, fd.ones(3, 2)), F.linear),
        (lambda u, t: fd.nn.Linear(2, 3)(u), F.linear),
        (lambda u, t: F.linear(fd.ones(1, 2), fd.ones(2, 2), u), F.linear),
        (lambda u, t: F.linear(t, fd.ones(2, 2), u), F.linear),
        (lambda u, t: F.softmax(u, 0), F.softmax),
        (lambda u, t: fd.zeros_like(u), fd.zeros_like),
        (lambda u, t: repr(u), fd.Tensor.__repr__),
        (lambda u, t: len(u), fd.Tensor.__len__),
    ],
)
def test_a_call_is_offered_as_what_pytorch_calls_it(call: Any, function: Any) -> None:
    call(told(), fd.tensor([3.0, 4.0]))
    assert asked_for()[-1] == function
    assert Told.calls[-1][1] == (Told,)


def test_a_function_is_given_required_arguments_by_place_and_others_by_name() -> None:
    u = told()
    fd.sum(u, 0, keepdim=True)
    _, _, args, kwargs = Told.calls[-1]
    assert args == (u,) and kwargs == {"dim": 0, "keepdim": True}
    fd.transpose(u.reshape(1, 2), 0, 1)
    assert Told.calls[-1][2][1:] == (0, 1)


def test_operands_stand_in_the_order_in_which_they_were_written() -> None:
    u, t = told(), fd.ones(2)
    t - u
    assert [type(one) for one in Told.calls[-1][2]] == [fd.Tensor, Told]
    1 - u
    assert [type(one) for one in Told.calls[-1][2]] == [Told, int]


# ---- The order of classes -----------------------------------------------------------------------


def test_subclasses_are_asked_before_their_bases_and_others_from_left_to_right() -> None:
    given = [told(), fd.ones(2).as_subclass(Refusing), fd.ones(2).as_subclass(More)]
    with pytest.raises(TypeError):
        fd.stack(given)
    assert Told.calls[0][1] == (More, Told, Refusing)


def test_the_next_is_asked_where_the_first_has_nothing() -> None:
    assert fd.add(fd.ones(2).as_subclass(Refusing), Foreign()) is TAKEN


def test_a_type_error_names_all_that_had_nothing() -> None:
    x = fd.ones(2).as_subclass(Refusing)
    expected = (
        r"Multiple dispatch failed for 'fastdist.cat'; all __torch_function__ handlers returned "
        r"NotImplemented:\n\n  - tensor subclass <class '.*Refusing'>"
    )
    with pytest.raises(TypeError, match=expected):
        fd.cat([x])
    with pytest.raises(TypeError, match=r"'fastdist.Tensor.shape.__get__'"):
        _ = x.shape
    with pytest.raises(TypeError, match=r"'fastdist.nn.functional.relu'"):
        F.relu(x)


def test_an_operator_that_nobody_has_is_python_s_error() -> None:
    with pytest.raises(TypeError, match="unsupported operand type"):
        _ = fd.ones(2).as_subclass(Refusing) + 1


def test_a_foreign_argument_is_asked_of_operators_on_both_sides() -> None:
    t, foreign = fd.ones(2), Foreign()
    assert (t + foreign) is TAKEN
    assert (foreign - t) is TAKEN  # type: ignore[operator]
    assert (t == foreign) is TAKEN
    assert t.copy_(foreign) is TAKEN  # type: ignore[arg-type]
    assert t[foreign] is TAKEN
    assert fd.cat([t, foreign]) is TAKEN


def test_functions_of_the_value_itself_ask_nobody() -> None:
    foreign = Foreign()
    assert not fd.is_tensor(foreign)
    with pytest.raises(TypeError):
        fd.tensor(foreign)
    assert not Foreign.calls


def test_a_plain_method_is_warned_of() -> None:
    class Old(fd.Tensor):
        def __torch_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
            return TAKEN

    x = fd.ones(2).as_subclass(Old)
    with pytest.warns(UserWarning, match="as a plain method is deprecated"):
        assert fd.exp(x) is TAKEN


# ---- Results ------------------------------------------------------------------------------------


def test_results_are_of_the_subclass_unless_it_takes_no_calls_over() -> None:
    x = fd.ones(2, 2).as_subclass(Plainly)
    assert type(x + 1) is type(1 - x) is type(x.sum()) is type(fd.exp(x)) is Plainly
    assert [type(one) for one in x.max(0)] == [Plainly, Plainly]
    assert [type(one) for one in fd.split(x, 1)] == [Plainly, Plainly]
    assert type(x.shape) is fd.Size and type(x.item) and x.dtype is fd.float32
    assert type(fd.ones(2).as_subclass(Apart) + 1) is fd.Tensor
    assert type(fd.nn.Parameter(fd.ones(2)) + 1) is fd.Tensor


def test_an_in_place_call_returns_the_tensor_itself() -> None:
    x = fd.ones(2).as_subclass(Plainly)
    assert x.add_(1) is x
    assert x.tolist() == [2.0, 2.0]


def test_gradients_flow_through_a_subclass() -> None:
    x = fd.tensor([1.0, 2.0], requires_grad=True)
    y = (x.as_subclass(Plainly) * 3).exp()
    assert type(y) is Plainly
    y.sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), 3 * np.exp([3.0, 6.0]), rtol=1e-6)


def test_backward_and_grad_ask_tensors_and_inputs_but_not_given_gradients() -> None:
    x, plain = told().requires_grad_(), fd.ones(2, requires_grad=True)
    loss = (x * x).sum()
    Told.calls.clear()
    (found,) = fd.autograd.grad(loss, x, retain_graph=True)
    fd.autograd.backward([plain.sum(), loss], inputs=[plain])
    fd.autograd.grad(plain.sum(), plain, fd.ones(()).as_subclass(Told))
    assert type(found) is Told and asked_for() == [fd.autograd.grad, fd.autograd.backward]


def test_a_subclass_that_overrides_a_method_is_called_by_it() -> None:
    class Doubling(fd.Tensor):
        def exp(self) -> Any:
            return super().exp() * 2

    x = fd.zeros(1).as_subclass(Doubling)
    assert type(x.exp()) is Doubling and x.exp().item() == 2.0


def test_two_classes_of_which_none_is_the_other_s_base_refuse_each_other() -> None:
    class Other(fd.Tensor):
        pass

    with pytest.raises(TypeError, match="Multiple dispatch failed"):
        fd.add(fd.ones(1).as_subclass(Plainly), fd.ones(1).as_subclass(Other))


def test_nobody_is_asked_inside_of_a_block_that_says_so() -> None:
    u = told()
    with fd._C.DisableTorchFunctionSubclass():
        assert type(u + 1) is fd.Tensor
        assert type(fd.cat([u, u])) is fd.Tensor
        assert not overrides.has_torch_function((u,))
    assert not Told.calls
    fd.cat([u, u])  # classes cached inside the block must not matter here
    assert asked_for() == [fd.cat]


# ---- fastdist.overrides -------------------------------------------------------------------------


def test_a_function_of_one_s_own_may_ask_as_well() -> None:
    def scaled(x: Any, by: float = 1.0) -> Any:
        if overrides.has_torch_function_unary(x):
            return overrides.handle_torch_function(scaled, (x,), x, by=by)
        return x * by

    assert scaled(Foreign(), by=2.0) is TAKEN
    assert Foreign.calls[0][2] == {"by": 2.0}
    assert scaled(fd.ones(1), by=2.0).item() == 2.0
    with pytest.raises(TypeError, match=r"no implementation found for '.*scaled' on"):
        scaled(fd.ones(1).as_subclass(Refusing))


def test_wrap_torch_function_asks_what_the_dispatcher_names() -> None:
    @overrides.wrap_torch_function(lambda x, y: (y,))
    def second(x: Any, y: Any) -> str:
        return "own"

    assert second(Foreign(), 1) == "own"
    assert second(1, Foreign()) is TAKEN
    assert Foreign.calls[0][0] is second


def overridable() -> dict[Any, list[Any]]:
    return overrides.get_overridable_functions()


def test_questions_about_functions_and_arguments() -> None:
    assert overrides.is_tensor_like(Foreign()) and overrides.is_tensor_like(fd.ones(1))
    assert not overrides.is_tensor_like(1)
    assert overrides.has_torch_function((1, told())) and not overrides.has_torch_function((1,))
    assert overrides.resolve_name(fd.add) == "fastdist.add"
    assert overrides.resolve_name(fd.zeros) is None
    assert fd.Tensor.shape.__get__ in overridable()[fd.Tensor]  # type: ignore[attr-defined]
    assert F.relu in overridable()[F]
    assert fd.Tensor.grad.__get__ in overrides.get_default_nowrap_functions()  # type: ignore[attr-defined]


@pytest.mark.one_in(3)
def test_plain_tensors_find_nothing_before_their_own_methods() -> None:
    code = (
        "import fastdist as fd\n"
        "from fastdist.tensor.subclasses import OfferedMethods as O\n"
        "fd.ones(2) + fd.nn.Parameter(fd.ones(2))\n"
        "assert O not in fd.Tensor.__mro__ and O not in fd.nn.Parameter.__mro__\n"
        "assert not hasattr(O, '__add__')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

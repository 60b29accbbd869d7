"""The short path while modes or transforms are active: which calls may take it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist import overrides
from fastdist.autograd import forward_ad
from fastdist.core.interpreter import of_process, of_thread, open_interpreters
from fastdist.dispatch.call import GeneralPath
from fastdist.dispatch.op import PLAIN
from fastdist.graph import recordings
from fastdist.graph.modes import modes
from fastdist.instrumentation.time_ranges import Recording

X = fd.tensor([[0.25, -0.5], [0.75, 1.0]])
Y = fd.tensor([[1.5, 0.5], [-0.25, 2.0]])
THREE = fd.ones(3, 3)


@contextmanager
def general_calls() -> Iterator[list[str]]:
    """Yield a list that receives the names of the ops that take the general path."""
    went, general = list[str](), GeneralPath.general

    def spy(self: Any, *args: Any) -> Any:
        went.append(self.name)
        return general(self, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GeneralPath, "general", spy)
        yield went


class Passing(overrides.TorchFunctionMode):
    """A mode that lets each call run and records the names of the functions."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls.append(func.__name__)
        return func(*args, **(kwargs or {}))


def in_autocast() -> AbstractContextManager[Any]:
    return fd.autocast("cpu", dtype=fd.bfloat16)


@contextmanager
def mode_of_another_thread() -> Iterator[None]:
    """Keep a function mode open in another thread."""
    is_open, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        with Passing():
            is_open.set()
            may_end.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    is_open.wait()
    try:
        yield
    finally:
        may_end.set()
        thread.join()


CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "x * y": lambda x, y: x * y,
    "x @ y": lambda x, y: x @ y,
    "x + 2": lambda x, y: x + 2.0,
    "exp": lambda x, y: x.exp(),
    "add with alpha": lambda x, y: x.add(y, alpha=0.5),
    "sum": lambda x, y: x.sum(0),
    "view": lambda x, y: x.view(4),
    "transposed": lambda x, y: x.t(),
}
BLOCKS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "autocast": in_autocast,
    "a mode": Passing,
    "another thread's mode": mode_of_another_thread,
    "vmap": nullcontext,
}


@pytest.mark.parametrize("call", CALLS.values(), ids=list(CALLS))
@pytest.mark.parametrize("block", BLOCKS)
def test_plain_calls_take_the_short_path(block: str, call: Callable[[Any, Any], Any]) -> None:
    with BLOCKS[block]():
        call(X, Y)
        call(X.bfloat16(), Y.bfloat16())
        with general_calls() as went:
            if block == "vmap":
                fd.vmap(lambda _: call(X, Y), out_dims=None)(fd.ones(2))
            else:
                call(X, Y)
    # A call inside the mode takes the short path. The call that the mode replaced does not run.
    assert went == []
    assert (modes.tracers, modes.special, of_thread.interpreters) == (0, 0, ())


@pytest.mark.parametrize("block", BLOCKS)
def test_no_class_is_plain_while_something_is_open(block: str) -> None:
    found: list[frozenset[Any]] = []
    with BLOCKS[block]():
        if block == "vmap":
            fd.vmap(lambda x: found.append(modes.plain) or x)(fd.ones(2))
        else:
            with forward_ad.dual_level():
                dual = forward_ad.make_dual(X, X)
                found.append(modes.plain)
            del dual
            found.append(modes.plain)
    assert set(found) == {frozenset()} and modes.plain == PLAIN


# Functions with a fast path for plain tensors, which must not bypass a mode.
SHORT_WAYS: dict[str, Callable[[Any], Any]] = {
    "__getitem__": lambda x: x[:, 0],
    "cat": lambda x: fd.cat((x, x)),
    "contiguous": lambda x: x.contiguous(),
    "flatten": lambda x: x.flatten(),
    "float": lambda x: x.float(),
    "full_like": lambda x: fd.full_like(x, 2.0),
    "linear": lambda x: fd.nn.functional.linear(x, x),
    "narrow": lambda x: x.narrow(0, 0, 1),
    "reshape": lambda x: x.reshape(4),
    "select": lambda x: x.select(0, 1),
    "softmax": lambda x: fd.nn.functional.softmax(x, 1),
    "stack": lambda x: fd.stack((x, x)),
}


@pytest.mark.parametrize("name", SHORT_WAYS)
def test_a_mode_is_offered_calls_that_are_known_from_before(name: str) -> None:
    SHORT_WAYS[name](X)
    with Passing() as mode:
        SHORT_WAYS[name](X)
    assert mode.calls[0] == name


@pytest.mark.parametrize("call", CALLS.values(), ids=list(CALLS))
def test_a_profile_sees_calls_of_the_short_path(call: Callable[[Any, Any], Any]) -> None:
    call(X, Y)
    with fd.profiler.profile() as before, general_calls():
        call(X, Y)
    with fd.profiler.profile() as after, general_calls() as went:
        call(X, Y)
    assert went == []
    names = [event.name for event in after.events()]
    assert names and names == [event.name for event in before.events()]


def test_a_profile_reports_a_first_call_once() -> None:
    x = fd.ones(3, 1, 5, 1)  # a layout that no other test uses
    with fd.profiler.profile() as p:
        y = x * x
        _ = y * x
    assert [event.name for event in p.events()] == ["aten::mul", "aten::mul"]


def test_a_profile_reports_a_call_that_fails_and_the_next() -> None:
    with fd.profiler.profile() as p:
        for _ in range(2):
            with pytest.raises(RuntimeError):
                _ = X @ THREE
        _ = X * X
    assert [e.name for e in p.events()] == ["aten::mm", "aten::mm", "aten::mul"]


def test_profiles_see_calls_in_place_and_composites_of_the_short_path() -> None:
    x = X.clone()
    x.add_(Y).mul_(2.0)
    fd.nn.functional.linear(X, Y)
    with fd.profiler.profile() as p, general_calls() as went:
        x.add_(Y).mul_(2.0)
        fd.nn.functional.linear(X, Y)
    assert went == []
    names = [event.name for event in p.events()]
    assert names == ["aten::add_", "aten::mul_", "aten::linear", "aten::mm"]


def test_each_of_several_profiles_gets_what_it_wants() -> None:
    _ = X * Y
    with fd.profiler.profile() as outer:
        _ = X * Y
        with fd.profiler.profile(record_shapes=True) as full, general_calls() as went:
            _ = X * Y
        assert {*went} == {"mul"} and modes.timed == 1
        with in_autocast(), fd.profiler.profile() as inner:
            _ = X @ Y
        _ = X * Y
    assert modes.timed == 0
    assert [e.input_shapes for e in full.events()] == [[[2, 2], [2, 2]]]
    names = [event.name for event in inner.events()]
    assert names.count("aten::_to_copy") == 2 and names.count("aten::mm") == 1
    names = [event.name for event in outer.events()]
    assert names.count("aten::mul") == 3 and names.count("aten::mm") == 1


def test_a_profile_keeps_as_many_ops_as_it_may() -> None:
    _ = X * Y
    recording = Recording(5)
    recordings.begin(recording)
    try:
        for _ in range(7):
            _ = X * Y
    finally:
        kept = recordings.end(recording)
    assert (len(kept), recording.dropped) == (5, 2)


def test_a_profile_has_the_numbers_of_nodes_and_no_other() -> None:
    x = X.clone().requires_grad_()
    _ = x * Y
    with fd.profiler.profile() as p:
        out = x * Y
        _ = X * Y
    ranges = {e.sequence_nr for e in p.events()}
    assert ranges == {out._edge.seq, -1}


def test_casts_are_events_in_autocast() -> None:
    for _ in range(2):
        with fd.profiler.profile() as p, in_autocast():
            _ = X @ Y
        names = [event.name for event in p.events()]
        assert names.count("aten::_to_copy") == 2 and names.count("aten::mm") == 1
        with fd.profiler.profile() as p, in_autocast():
            _ = fd.nn.functional.linear(X, Y)
        names = [event.name for event in p.events()]
        assert names.count("aten::_to_copy") == 2 and names.count("aten::linear") == 1


def test_a_call_that_several_interpreters_see_is_reported_once() -> None:
    with fd.profiler.profile() as p, in_autocast(), Passing() as mode:
        out = fd.vmap(lambda x: fd.nn.functional.softmax(x @ Y, -1))(fd.stack([X, Y]))
    names = [event.name for event in p.events()]
    assert out.dtype is fd.bfloat16
    for name in ("aten::stack", "aten::softmax", "aten::bmm"):
        assert names.count(name) == 1
    assert mode.calls.count("softmax") == mode.calls.count("matmul") == 1


def test_a_trace_in_autocast_and_a_profile_has_each_call_once() -> None:
    def product(x: Any) -> Any:
        return fd.nn.functional.relu(x @ Y)

    with fd.profiler.profile() as p, in_autocast():
        trace = fd.trace(product)(X)
    assert [call.op for call in trace].count("matmul") == 1
    assert [event.name for event in p.events()].count("aten::mm") == 1


def test_modes_nest_and_each_is_left_while_it_answers() -> None:
    outer, inner = Passing(), Passing()
    with outer, inner:
        out = X * Y
        listed = of_thread.interpreters
    assert (outer.calls, inner.calls) == (["mul"], ["mul"])
    assert out.tolist() == (X * Y).tolist() and len(listed) == 1
    assert of_thread.interpreters == ()


def test_a_mode_that_fails_is_open_again_afterwards() -> None:
    class Failing(Passing):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            super().__torch_function__(func, types, args, kwargs)
            raise ZeroDivisionError

    with Failing() as mode:
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                _ = X * Y
        assert mode.calls == ["mul", "mul"]
    _ = X * Y
    assert len(mode.calls) == 2 and of_thread.interpreters == ()


def test_a_mode_may_enter_autocast() -> None:
    class Casting(Passing):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            with in_autocast():
                return super().__torch_function__(func, types, args, kwargs)

    with Casting():
        assert (X @ Y).dtype is fd.bfloat16
    assert (X @ Y).dtype is fd.float32 and open_interpreters() == ()


def test_autocast_inside_of_a_function_ends_with_it() -> None:
    def product(x: Any) -> Any:
        with in_autocast():
            return x @ x

    with fd.autocast("cpu", enabled=False):
        assert product(X).dtype is fd.bfloat16 and (X @ X).dtype is fd.float32
    assert (X @ X).dtype is fd.float32


def test_results_in_autocast_are_those_of_cast_operands() -> None:
    w = Y.clone().requires_grad_()
    expected = X.bfloat16() @ Y.bfloat16()
    for _ in range(3):
        with in_autocast():
            out = X @ w
            with fd.no_grad():
                assert (X @ w)._edge is None
        assert out.dtype is fd.bfloat16 and out.tolist() == expected.tolist()
        w.grad = None
        out.sum().backward()
        g = X.bfloat16().t() @ fd.ones(2, 2).bfloat16()
        assert w.grad.dtype is fd.float32 and w.grad.tolist() == g.tolist()


def test_a_weight_cast_without_grad_mode_is_in_no_graph() -> None:
    w = Y.clone().requires_grad_()
    with in_autocast():
        with fd.no_grad():
            first = X @ w
        recorded = X @ w
        with fd.no_grad():
            w.mul_(2.0)
            assert (X @ w).tolist() == (first * 2).tolist()
    assert recorded.requires_grad
    recorded.sum().backward()
    assert w.grad is not None


def test_the_dtype_of_a_block_is_that_of_its_calls() -> None:
    with in_autocast():
        assert (X @ Y).dtype is fd.bfloat16
        with fd.autocast("cpu", dtype=fd.float16):
            assert (X @ Y).dtype is fd.float16
        with fd.autocast("cpu", enabled=False):
            assert (X @ Y).dtype is fd.float32
        assert (X @ Y).dtype is fd.bfloat16


def test_vmap_over_autocast_and_inside_of_it() -> None:
    batch = fd.stack([X, Y])
    expected = fd.stack([X.bfloat16() @ Y.bfloat16(), Y.bfloat16() @ Y.bfloat16()])

    def inside(x: Any) -> Any:
        with in_autocast():
            return x @ Y

    with in_autocast():
        outside = fd.vmap(lambda x: x @ Y)(batch)
    for found in (fd.vmap(inside)(batch), outside):
        assert found.dtype is fd.bfloat16 and found.tolist() == expected.tolist()


def tangent(out: Any) -> np.ndarray:
    found: np.ndarray = forward_ad.unpack_dual(out).tangent.detach().numpy()
    return found


DUAL: dict[str, Callable[[Any], Any]] = {
    "exp": lambda x: x.exp(),
    "x * x": lambda x: x * x,
    "x * row": lambda x: x * Y[0],
    "number": lambda x: 2.0 - x,
    "alpha": lambda x: Y.add(x, alpha=3.0),
    "sum": lambda x: x.sum(1),
    "x @ y": lambda x: x @ Y,
    "y @ x": lambda x: Y @ x,
    "of a view": lambda x: x.t() * Y,
    "a view of it": lambda x: (x * Y)[0],
    "where": lambda x: fd.where(Y > 0, x, -x),
    "softmax": lambda x: x.softmax(0),
    "max": lambda x: x.max(1).values,
    "half": lambda x: x.bfloat16().float(),
    "chain": lambda x: (x.sin() * x.exp()).sum(),
    # The following ops call other ops.
    "abs of complex": lambda x: fd.complex(x, x * x).abs(),
    "angle of complex": lambda x: fd.complex(x, x * x).angle(),
    "logsumexp of complex": lambda x: fd.complex(x, x * x).logsumexp(0).real,
    "vector @ vector": lambda x: x[0] @ x[1],
    "x @ vector": lambda x: x @ x[1],
    "seen as another dtype": lambda x: (x.view(fd.int32) * 0 + x).sum(),
    "scaled halves": lambda x: x.bfloat16().mul(fd.tensor(1.5)).float(),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("call", DUAL.values(), ids=list(DUAL))
def test_tangents_are_those_of_the_general_path(call: Callable[[Any], Any]) -> None:
    found = []
    for requires_grad in (False, True):  # recorded calls take the general path
        for _ in range(2):
            with forward_ad.dual_level():
                x = X.clone().requires_grad_(requires_grad)
                found.append(tangent(call(forward_ad.make_dual(x, Y))))
    for one in found[1:]:
        np.testing.assert_allclose(one, found[0], rtol=1e-6)


@pytest.mark.parametrize("name", ["exp", "x * x", "number", "sum", "x @ y"])
def test_dual_tensors_take_the_short_path(name: str) -> None:
    with forward_ad.dual_level():
        x = forward_ad.make_dual(X, Y)
        DUAL[name](x)
        with general_calls() as went:
            DUAL[name](x)
    assert went == [] and modes.special == 0


def test_tangents_of_tangents() -> None:
    def cube(x: Any) -> Any:
        return (x * x * x).sum()

    second = fd.func.jvp(lambda x: fd.func.jvp(cube, (x,), (Y,))[1], (X,), (Y,))[1]
    np.testing.assert_allclose(second.numpy(), (6 * X * Y * Y).sum().numpy(), rtol=1e-6)
    hessian = fd.func.hessian(cube)(X).reshape(4, 4).numpy()
    np.testing.assert_allclose(hessian, np.diag((6 * X).numpy().reshape(-1)), rtol=1e-6)


def test_a_tangent_that_requires_grad_has_a_gradient() -> None:
    t = Y.clone().requires_grad_()
    with forward_ad.dual_level():
        out = forward_ad.unpack_dual(forward_ad.make_dual(X, t).exp()).tangent
    out.sum().backward()
    np.testing.assert_allclose(t.grad.numpy(), X.exp().numpy(), rtol=1e-6)


def test_a_result_written_over_leaves_the_tangent_of_its_input() -> None:
    with forward_ad.dual_level():
        x = forward_ad.make_dual(X, Y)
        y = x + 1.0
        y.mul_(3.0)
        assert tangent(x).tolist() == Y.tolist() and tangent(y).tolist() == (Y * 3).tolist()


def test_dual_tensors_under_autocast() -> None:
    with forward_ad.dual_level(), in_autocast():
        out = forward_ad.make_dual(X, Y) @ Y
        assert out.dtype is fd.bfloat16
        expected = (Y.bfloat16() @ Y.bfloat16()).float().numpy()
        np.testing.assert_allclose(tangent(out.float()), expected, rtol=1e-2)


def test_checkpoint_computes_again_in_the_dtype_of_autocast() -> None:
    w, dtypes = Y.clone().requires_grad_(), []

    def product(x: Any) -> Any:
        out = x @ w
        dtypes.append(out.dtype)
        return out.float().sin()

    with in_autocast():
        out = fd.utils.checkpoint.checkpoint(product, X, use_reentrant=False)
    out.sum().backward()
    assert dtypes == [fd.bfloat16] * 2
    with in_autocast():
        expected = fd.autograd.grad(product(X).sum(), w)[0]
    assert w.grad.tolist() == expected.tolist()


def test_hooks_on_saved_tensors_see_what_calls_of_the_short_path_save() -> None:
    x, packed = X.clone().requires_grad_(), []
    _ = x * Y
    with fd.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        out = x * Y
    assert len(packed) == 1 and of_process.interpreters == ()
    out.sum().backward()
    assert x.grad.tolist() == Y.tolist()

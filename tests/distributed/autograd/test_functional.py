"""Jacobian and Hessian products over several workers equal those of one process.

The workers are in strict mode, so messages may only name allowed functions and classes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fastdist
import fastdist.autograd.forward_ad as fwAD
import fastdist.distributed.autograd as da
from fastdist import Tensor
from fastdist.autograd import functional
from fastdist.core.errors import ContextError, GraphError
from fastdist.distributed import rpc
from fastdist.distributed.autograd.tangent_store import tangent_store
from tests.distributed.autograd.on_worker import on_worker, outside
from tests.distributed.autograd.programs import leaf, mix, mix_along
from tests.distributed.members import members
from tests.distributed.workers import Group

pytestmark = pytest.mark.usefixtures("workers_hold_nothing")


@pytest.fixture(scope="module")
def group() -> Iterator[Group]:
    with members(__file__, 3, rpc_timeout=30, init_timeout=30, strict=True) as group:
        yield group


@rpc.export
def mix_at(a: Tensor, b: Tensor, *way: str) -> Tensor:
    if not way:
        return mix(a, b)
    return rpc.rpc_sync(way[0], mix_at, (a * b, b, *way[1:])) + a


@rpc.export
def make(seed: int) -> rpc.RRef[Tensor]:
    return rpc.RRef(leaf(seed))


@rpc.export
def make_number() -> rpc.RRef[float]:
    return rpc.RRef(3.0)


@rpc.export
def times(x: Tensor, w: rpc.RRef[Tensor]) -> Tensor:
    return (x * w.local_value()).sin()


@rpc.export
def has_grad(w: rpc.RRef[Tensor]) -> bool:
    return w.local_value().grad is not None


@rpc.export
def mirrors() -> int:
    """Wait up to ten seconds until no mirrors are left, and return their number.

    A notice that a level has ended uses the shared lane, so this call may overtake the notice.
    """
    deadline, waiter = time.monotonic() + 10, threading.Event()
    while (number := tangent_store().number_of_mirrors()) and time.monotonic() < deadline:
        waiter.wait(0.01)
    return number


def close(ours: Any, theirs: Any) -> bool:
    assert not ours.requires_grad
    np.testing.assert_allclose(ours.numpy(), theirs.detach().numpy(), rtol=1e-12, atol=1e-12)
    return True


WAYS = [("w1",), ("w1", "w2"), ("w2", "w0", "w1")]


@pytest.mark.parametrize("way", WAYS)
@on_worker(0)
def test_products_of_a_function_over_workers_are_those_of_one_process(way: tuple[str, ...]) -> None:
    given, v = (leaf(1), leaf(2)), (leaf(3), leaf(4))

    def here(a: Tensor, b: Tensor) -> Tensor:
        return mix_along(a, b, len(way)).sum()

    def there(a: Tensor, b: Tensor) -> Tensor:
        return mix_at(a, b, *way).sum()

    for ours, theirs in ((da.hvp, functional.hvp), (da.jvp, functional.jvp)):
        value, found = ours(there, given, v)
        expected_value, expected = theirs(here, given, v)
        assert close(value, expected_value)
        many = isinstance(found, tuple)
        for one, other in zip(found, expected) if many else ((found, expected),):
            assert close(one, other)
    assert given[0].grad is None and rpc.rpc_sync("w1", mirrors) == 0


@on_worker(0)
def test_a_single_input_gives_a_single_product_and_several_results_give_several() -> None:
    a, b = leaf(1), leaf(2)

    def two(x: Tensor) -> tuple[Tensor, Tensor]:
        y = rpc.rpc_sync("w1", mix_at, (x, b, "w2"))
        return y, x * 2

    values, products = da.jvp(two, a, b)
    assert close(products[1], b * 2) and close(values[1], a * 2)
    expected = functional.jvp(lambda x: mix_along(x, b, 1), a, b)
    assert close(values[0], expected[0]) and close(products[0], expected[1])
    assert isinstance(da.hvp(lambda x: two(x)[0].sum(), a, b)[1], Tensor)


@on_worker(0)
def test_inputs_that_live_elsewhere_stay_there_and_so_do_their_products() -> None:
    x, w, v, u = leaf(1), leaf(7), leaf(3), leaf(4)
    far: rpc.RRef[Tensor] = rpc.rpc_sync("w2", make, (7,))
    for direction in (v, rpc.rpc_sync("w1", make, (3,))):

        def there(at: rpc.RRef[Tensor], y: Tensor) -> Tensor:
            return (rpc.rpc_sync("w2", times, (y, at)) ** 2).sum()

        def here(at: Tensor, y: Tensor) -> Tensor:
            return ((y * at).sin() ** 2).sum()

        value, (of_w, of_x) = da.hvp(there, (far, x), (direction, u))
        expected_value, expected = functional.hvp(here, (w, x), (v, u))
        assert isinstance(of_w, rpc.RRef) and of_w.owner_name() == "w2"
        assert close(value, expected_value)
        assert close(of_w.to_here(), expected[0]) and close(of_x, expected[1])
        found = da.jvp(there, (far, x), (direction, u))
        for one, other in zip(found, functional.jvp(here, (w, x), (v, u))):
            assert close(one, other)
    assert not rpc.rpc_sync("w2", has_grad, (far,))


@on_worker(0)
def test_a_context_that_is_open_is_left_alone() -> None:
    a, b = leaf(1), leaf(2)
    with da.context() as context_id:
        loss = mix_at(a, b, "w1").sum()
        before = len(da._current_context()._send_functions())
        for product in (da.hvp, da.jvp):
            product(lambda x: mix_at(x, b, "w1", "w2").sum(), a, b)
            assert da.current_context_id() == context_id
        assert len(da._current_context()._send_functions()) == before
        da.backward(context_id, [loss], mode="fast")
        assert set(map(id, da.get_gradients(context_id))) == {id(a), id(b)}


@on_worker(0)
def test_products_may_stand_in_a_level_and_be_differentiated_by_it() -> None:
    a, b = leaf(1).detach(), leaf(2).detach()
    with fwAD.dual_level():
        value, _ = da.jvp(lambda x: mix_at(x, b, "w1").sum(), a, b)
        assert fwAD.unpack_dual(value).tangent is None
    assert outside(rpc.rpc_sync, "w1", mirrors) == 0


@on_worker(0)
def test_a_number_needs_no_direction_and_what_does_not_matter_has_zeros() -> None:
    x, other = fastdist.tensor(0.5, dtype=fastdist.float64), leaf(2)

    def cube(y: Tensor) -> Tensor:
        return rpc.rpc_sync("w1", mix_at, (y, y)) * 0 + y**3

    value, product = da.hvp(cube, x)
    assert (value.item(), product.item()) == (0.125, 3.0)
    assert da.jvp(cube, x)[1].item() == 0.75
    _, (_, none) = da.hvp(lambda y, z: cube(y), (x, other), (x, other))
    assert not none.numpy().any()
    assert da.hvp(lambda y: fastdist.ones(1).sum(), x)[1].item() == 0.0
    assert da.jvp(lambda y: fastdist.ones(2), x)[1].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("name", ["hvp", "jvp"])
@on_worker(0)
def test_wrong_arguments_are_told_in_words(name: str) -> None:
    product: Any = getattr(da, name)
    a, b = leaf(1), leaf(2)

    def total(*xs: Tensor) -> Tensor:
        return rpc.rpc_sync("w1", mix_at, xs[:2]).sum()

    for error, text, arguments in (
        (TypeError, "the inputs must be a Tensor, an RRef to one, .* got list", (total, [a])),
        (TypeError, r"got \(Tensor, float\)", (total, (a, 1.0), (a, a))),
        (TypeError, "the directions v must be", (total, a, 1.0)),
        (GraphError, "The vector v can only be None", (total, (a, b))),
        (GraphError, r"The vector v can only be None .* shape \(3, 4\)", (total, a)),
        (GraphError, "v has 1 tensors, expected 2", (total, (a, b), a)),
        (GraphError, "Entry 1 in v has invalid size", (total, (a, b), (a, leaf(1, 2)))),
    ):
        with pytest.raises(error, match=text):
            product(*arguments)


@on_worker(0)
def test_what_does_not_matter_is_an_error_where_that_is_asked_for() -> None:
    a, b = leaf(1), leaf(2)
    with pytest.raises(GraphError, match="independent of the input"):
        da.jvp(lambda x: (b * 2).sum(), a, a, strict=True)
    with pytest.raises(GraphError, match="independent of input 1"):
        da.hvp(lambda x, y: (x * x).sum(), (a, b), (a, b), strict=True)


@on_worker(0)
def test_results_of_other_kinds_are_refused() -> None:
    a = leaf(1)
    with pytest.raises(GraphError, match=r"single element: hvp got shape \(3, 4\)"):
        da.hvp(lambda x: x * 2, a, a)
    with pytest.raises(GraphError, match="single element: hvp got int"):
        da.hvp(lambda x: 1, a, a)
    with pytest.raises(TypeError, match=r"must return a Tensor or a tuple of Tensors, got \(int"):
        da.jvp(lambda x: (1, x), a, a)
    far: Any = rpc.rpc_sync("w1", make_number)
    with pytest.raises(TypeError, match="an RRef to float, expected one to a Tensor"):
        da.hvp(lambda at: rpc.rpc_sync("w1", times, (a, at)).sum(), far, a)
    assert da.current_context_id() == -1


def test_hessians_need_rpc() -> None:
    with pytest.raises(ContextError, match="Need to initialize distributed autograd"):
        da.hvp(lambda x: (x * x).sum(), leaf(1), leaf(2))


@rpc.export
def doubled(x: Tensor) -> Tensor:
    return x * 2.0


def _times_two_there(x: Tensor) -> Tensor:
    found: Tensor = rpc.rpc_sync("w1", doubled, (x.sin(),))
    return found


BACKWARDS = {
    "func.grad": lambda f, x: fastdist.func.grad(lambda t: f(t).sum())(x),
    "func.vjp": lambda f, x: fastdist.func.vjp(f, x)[1](fastdist.ones_like(x)),
    "func.jacrev": lambda f, x: fastdist.func.jacrev(f)(x),
    "func.hessian": lambda f, x: fastdist.func.hessian(lambda t: f(t).sum())(x),
    "autograd.functional.vjp": lambda f, x: functional.vjp(f, x, fastdist.ones_like(x)),
    "autograd.functional.jacobian": functional.jacobian,
    "autograd.functional.hessian": lambda f, x: functional.hessian(lambda t: f(t).sum(), x),
    "autograd.functional.hvp": lambda f, x: functional.hvp(lambda t: f(t).sum(), x, x),
    "autograd.functional.vhp": lambda f, x: functional.vhp(lambda t: f(t).sum(), x, x),
}


@pytest.mark.parametrize("name", BACKWARDS)
@on_worker(0)
def test_what_differentiates_backwards_in_one_process_refuses_a_call_to_another(name: str) -> None:
    x = leaf(1).detach()
    # Without the error the gradient would silently be zero, as in torch.
    with pytest.raises(
        GraphError,
        match=r"^rpc: doubled on worker 'w1' \(rank 1\): it would receive a tensor that func",
    ):
        BACKWARDS[name](_times_two_there, x)
    with pytest.raises(GraphError, match="would receive a tensor that func"), da.context():
        BACKWARDS[name](_times_two_there, x)
    # Tensors that do not depend on the inputs may be sent.
    other = leaf(2)
    found = fastdist.func.grad(lambda t: (t * _times_two_there(other)).sum())(x)
    assert fastdist.allclose(found, 2.0 * other.sin())


@on_worker(0)
def test_forward_mode_goes_through_a_call_to_another() -> None:
    x = leaf(1).detach()
    value, tangent = fastdist.func.jvp(_times_two_there, (x,), (fastdist.ones_like(x),))
    assert fastdist.allclose(value, 2.0 * x.sin()) and fastdist.allclose(tangent, 2.0 * x.cos())
    flat = x.reshape(-1)
    there = fastdist.func.jacfwd(_times_two_there)(flat)
    assert fastdist.allclose(there, fastdist.diag(2.0 * flat.cos()))
    value, tangent = functional.jvp(_times_two_there, x, fastdist.ones_like(x))
    assert fastdist.allclose(tangent, 2.0 * x.cos())


MAPPED = {
    "rpc_sync": lambda x: rpc.rpc_sync("w1", doubled, (x,)),
    "rpc_async": lambda x: rpc.rpc_async("w1", doubled, (x,)).wait(),
    "remote": lambda x: rpc.remote("w1", doubled, (x,)).to_here(),
    "of a list": lambda x: rpc.rpc_sync("w1", doubled, kwargs={"x": [x.sin(), {"x": x}]}),
    "of this worker": lambda x: rpc.rpc_sync("w0", doubled, (x,)),
    "under grad": fastdist.func.grad(lambda t: _times_two_there(t).sum()),
}


@pytest.mark.parametrize("name", MAPPED)
@on_worker(0)
def test_vmap_refuses_a_call_to_another(name: str) -> None:
    x, there = leaf(1).detach(), 0 if name == "of this worker" else 1
    refused = (
        rf"^rpc: doubled on worker 'w{there}' \(rank {there}\): vmap: a batch can be neither "
        "pickled nor sent to another worker; make one call with the whole batch, outside of"
    )
    with pytest.raises(GraphError, match=refused):
        fastdist.vmap(MAPPED[name])(x)
    with pytest.raises(GraphError, match=refused), da.context():
        fastdist.vmap(MAPPED[name])(x)


@pytest.mark.one_in(4)
@on_worker(0)
def test_inside_of_vmap_a_call_may_take_what_is_no_batch() -> None:
    x, w = leaf(1).detach(), leaf(2).detach()
    found = fastdist.vmap(lambda t: t * _times_two_there(w[0]))(x)
    assert fastdist.allclose(found, x * 2.0 * w[0].sin())

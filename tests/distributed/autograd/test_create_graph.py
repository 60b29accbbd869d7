"""Gradients over several workers can be differentiated again, with the results of one process.

Results are equal to the last bit only where sums are exact, because the gradients of a leaf arrive
in a different order.
"""

from __future__ import annotations

import gc
from typing import Any
from weakref import ref

import numpy as np
import pytest

import fastdist
import fastdist.distributed.autograd as da
from fastdist import Tensor
from fastdist.core.errors import GraphError, MessageError
from fastdist.distributed import rpc
from fastdist.distributed.autograd.outbox import unpack
from fastdist.nn import functional as F
from tests.distributed.autograd.fake_agent import FakeAgent
from tests.distributed.autograd.on_worker import on_worker, outside
from tests.distributed.autograd.programs import (
    KINDS,
    call,
    first_of,
    leaf,
    make_weight,
    mix,
    mix_at,
    times_weight,
)

WAYS = [("w1",), ("w1", "w2"), ("w1", "w0"), ("w1", "w2", "w0", "w1", "w1")]


@pytest.fixture(autouse=True)
def nothing_is_left(request: pytest.FixtureRequest) -> None:
    """Check after each test that uses the group that no worker has a context."""
    if "group" in request.fixturenames:
        request.getfixturevalue("workers_hold_nothing")


def same(ours: Tensor | None, theirs: Tensor | None) -> bool:
    assert ours is not None and theirs is not None
    return bool(np.array_equal(ours.detach().numpy(), theirs.detach().numpy()))


def whole(*values: float) -> Tensor:
    """Return a leaf with integer values, whose products and sums are exact."""
    return fastdist.tensor(values, dtype=fastdist.float64, requires_grad=True)


def product(a: Tensor, b: Tensor) -> Tensor:
    return a * b * b + a * 3


def product_at(a: Tensor, b: Tensor, *way: str) -> Tensor:
    if not way:
        return product(a, b)
    return rpc.rpc_sync(way[0], product_at, (a * b, b, *way[1:])) * a


def product_along(a: Tensor, b: Tensor, steps: int) -> Tensor:
    return product_along(a * b, b, steps - 1) * a if steps else product(a, b)


def of_gradients(a: Tensor | None, b: Tensor | None) -> Tensor:
    """Return a loss computed from two gradients."""
    assert a is not None and b is not None
    return (a * b).sum() + (b * b).sum()


@pytest.mark.parametrize("passes", [1, 2, 3])
@pytest.mark.parametrize("way", WAYS)
@on_worker(0)
def test_a_pass_over_gradients_gives_those_of_one_process(
    way: tuple[str, ...], passes: int
) -> None:
    a, b = whole(1, -1), whole(-1, 1)
    with da.context() as context_id:
        da.backward(context_id, [product_at(a, b, *way).sum()], create_graph=True)
        for left in range(passes - 1, 0, -1):
            found = da.get_gradients(context_id)
            root = of_gradients(found[a], found[b])
            da.backward(context_id, [root], create_graph=left > 1)
        found = da.get_gradients(context_id)
        assert a.grad is None and found[a].requires_grad
    product_along(a, b, len(way)).sum().backward(create_graph=True)
    for left in range(passes - 1, 0, -1):
        of_gradients(a.grad, b.grad).backward(create_graph=left > 1)
    assert same(found[a], a.grad) and same(found[b], b.grad)


@pytest.mark.parametrize("kind", KINDS)
@on_worker(0)
def test_every_kind_of_call_has_second_derivatives(kind: str) -> None:
    a, b = leaf(1), leaf(2)
    with da.context() as context_id:
        da.backward(context_id, [call(kind, "w1", mix, a, b).sum()], create_graph=True)
        found = da.get_gradients(context_id)
        da.backward(context_id, [of_gradients(found[a], found[b])])
        found = da.get_gradients(context_id)
    mix(a, b).sum().backward(create_graph=True)
    of_gradients(a.grad, b.grad).backward()
    assert same(found[a], a.grad) and same(found[b], b.grad)


@on_worker(0)
def test_a_graph_of_gradients_that_is_kept_can_be_gone_through_again() -> None:
    a, b = leaf(1), leaf(2)
    with da.context() as context_id:
        da.backward(context_id, [mix_at(a, b, "w1", "w2").sum()], create_graph=True)
        first = da.get_gradients(context_id)
        root = of_gradients(first[a], first[b])
        totals = [first[a].detach().numpy()]
        for retains in (True, False):
            da.backward(context_id, [root], retain_graph=retains)
            totals.append(da.get_gradients(context_id)[a].detach().numpy())
        with pytest.raises(GraphError, match="backward through the graph a second time"):
            da.backward(context_id, [root])
    once, twice = (total - totals[0] for total in totals[1:])
    np.testing.assert_allclose(twice, 2 * once, rtol=1e-12)


@on_worker(0)
def test_the_fast_mode_finds_second_derivatives_where_a_root_depends_on_all_results() -> None:
    a, b = whole(1, 2), whole(3, -1)
    with da.context() as context_id:
        loss = (product_at(a, b, "w1", "w2") ** 2).sum()
        da.backward(context_id, [loss], create_graph=True, mode="fast")
        found = da.get_gradients(context_id)
        root = of_gradients(found[a], found[b]) + loss
        da.backward(context_id, [root], mode="fast")
        found = da.get_gradients(context_id)
    loss = (product_along(a, b, 2) ** 2).sum()
    loss.backward(create_graph=True)
    (of_gradients(a.grad, b.grad) + loss).backward()
    assert same(found[a], a.grad) and same(found[b], b.grad)


@on_worker(0)
def test_the_fast_mode_names_results_that_only_the_first_pass_used() -> None:
    a, b = leaf(1), leaf(2)
    with da.context() as context_id:
        da.backward(context_id, [mix_at(a, b, "w1").sum()], create_graph=True, mode="fast")
        found = da.get_gradients(context_id)
        rpc._set_rpc_timeout(0.3)
        try:
            with pytest.raises(GraphError, match=r"stalled: no gradient.*worker 'w1'"):
                da.backward(context_id, [of_gradients(found[a], found[b])], mode="fast")
        finally:
            rpc._set_rpc_timeout(30)


@on_worker(0)
def test_gradients_of_a_linear_function_have_no_history() -> None:
    a = leaf(1)
    with da.context() as context_id:
        da.backward(context_id, [rpc.rpc_sync("w1", first_of, (a,)).sum()], create_graph=True)
        gradient = da.get_gradients(context_id)[a]
        assert not gradient.requires_grad
        with pytest.raises(GraphError, match="requires_grad not set on root"):
            da.backward(context_id, [gradient.sum()])


@on_worker(0)
def test_without_create_graph_gradients_have_no_history() -> None:
    a, b = leaf(1), leaf(2)
    with da.context() as context_id:
        da.backward(context_id, [mix_at(a, b, "w1").sum()], retain_graph=True)
        assert not da.get_gradients(context_id)[a].requires_grad
        assert len(da._current_context()._send_functions()) == 1


def dot_with_gradient(context_id: int, factor: float) -> Tensor:
    from tests.distributed.autograd.programs import _weight

    gradient = da.get_gradients(context_id)[_weight["w"]]
    return (gradient.sin() * factor).sum()


def gradient_of_weight(context_id: int) -> Tensor:
    from tests.distributed.autograd.programs import _weight

    return da.get_gradients(context_id)[_weight["w"]].detach()


@on_worker(0)
def test_gradients_of_leaves_elsewhere_are_differentiated_there() -> None:
    rpc.rpc_sync("w2", make_weight, (7,))
    x, w = leaf(1), leaf(7)
    with da.context() as context_id:
        z = rpc.rpc_sync("w1", rpc.rpc_sync, ("w2", times_weight, (x,)))
        da.backward(context_id, [(z**3).sum()], create_graph=True)
        da.backward(context_id, [rpc.rpc_sync("w2", dot_with_gradient, (context_id, 2.0))])
        found = da.get_gradients(context_id)[x]
        theirs = outside(rpc.rpc_sync, "w2", gradient_of_weight, (context_id,))
    ((x * w) ** 3).sum().backward(create_graph=True)
    (w.grad.sin() * 2.0).sum().backward()
    assert same(found, x.grad) and same(theirs, w.grad)


def adapt_and_test(x: Tensor, y: Tensor, w: Tensor, net: Any) -> Tensor:
    return F.mse_loss(net(x, w), y)


def remote_net(x: Tensor, w: Tensor) -> Tensor:
    return rpc.rpc_sync("w2", local_net, (rpc.rpc_sync("w1", local_net, (x, w)), w))


def local_net(x: Tensor, w: Tensor) -> Tensor:
    return (x @ w).tanh()


@on_worker(0)
def test_a_step_of_meta_learning_over_workers_is_that_of_one_process() -> None:
    x, y = leaf(3, 5, 4).detach(), leaf(4, 5, 4).detach()
    w = leaf(5, 4, 4)
    with da.context() as context_id:
        da.backward(context_id, [adapt_and_test(x, y, w, remote_net)], create_graph=True)
        adapted = w - 0.1 * da.get_gradients(context_id)[w]
        da.backward(context_id, [adapt_and_test(x, y, adapted, remote_net)])
        found = da.get_gradients(context_id)[w]

    def both(a: Tensor, b: Tensor) -> Tensor:
        return local_net(local_net(a, b), b)

    adapt_and_test(x, y, w, both).backward(create_graph=True)
    assert w.grad is not None
    adapt_and_test(x, y, w - 0.1 * w.grad, both).backward()
    np.testing.assert_allclose(found.detach().numpy(), w.grad.detach().numpy(), rtol=1e-12)


@on_worker(0)
def test_what_is_held_of_a_gradient_stays_when_another_pass_adds_to_it() -> None:
    a, b = leaf(1), leaf(2)
    with da.context() as context_id:
        loss = mix_at(a, b, "w1").sum()
        da.backward(context_id, [loss], create_graph=True)
        held = da.get_gradients(context_id)[a]
        before = held.detach().numpy().copy()
        da.backward(context_id, [loss])
        assert np.array_equal(held.detach().numpy(), before)
        assert np.array_equal(da.get_gradients(context_id)[a].detach().numpy(), 2 * before)


def test_gradients_with_a_history_are_freed_with_their_context(agent: FakeAgent) -> None:
    gc.collect()
    gc.disable()
    try:
        with da.context() as context_id:
            x = leaf(1)
            da.backward(context_id, [(x**3).sum()], create_graph=True)
            watched = ref(da.get_gradients(context_id)[x]), ref(da._current_context())
        assert [one() for one in watched] == [None, None]
    finally:
        gc.enable()


@pytest.mark.one_in(4)
def test_words_of_recorded_gradients_that_do_not_fit_are_refused() -> None:
    tensors = [fastdist.ones(1)]
    with pytest.raises(MessageError, match="'recorded' of worker 3"):
        unpack(tensors, {"messages": (7, 1), "recorded": (8, 9)}, 3)

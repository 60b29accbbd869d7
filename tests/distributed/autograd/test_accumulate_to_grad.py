"""On request, the leaves of each worker also accumulate their gradients into `.grad`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastdist
import fastdist.autograd.forward_ad as fwAD
import fastdist.distributed.autograd as da
from fastdist import Tensor, nn
from fastdist.core.errors import MessageError
from fastdist.distributed import rpc
from fastdist.distributed.autograd.pass_metadata import Terms
from fastdist.distributed.rpc.message.metadata_fields import filled
from fastdist.graph.accumulate_grad import accumulator_of
from tests.distributed.autograd.fake_agent import FakeAgent
from tests.distributed.autograd.on_worker import on_worker, outside
from tests.distributed.autograd.programs import close, leaf, make_weight, mix_along, mix_at

_seen: list[Any] = []


def note(*what: Any) -> None:
    _seen.append(what)


def weight() -> Tensor:
    from tests.distributed.autograd import programs

    return programs._weight["w"]


def times_weight(x: Tensor) -> Tensor:
    return x * weight()


def grad_of_weight() -> Tensor | None:
    return weight().grad


@on_worker(0)
def test_leaves_of_all_workers_get_their_grad_and_the_contexts_have_it_too() -> None:
    rpc.rpc_sync("w2", make_weight, (7,))
    x = leaf(1)
    for times in (1, 2):
        with da.context() as context_id:
            z = rpc.rpc_sync("w1", rpc.rpc_sync, ("w2", times_weight, (x,)))
            da.backward(context_id, [z.sum()], accumulate_to_grad=True)
            assert close(da.get_gradients(context_id)[x], leaf(7))
        theirs = outside(rpc.rpc_sync, "w2", grad_of_weight)
        assert close(x.detach() * times, theirs)
        assert close(leaf(7).detach() * times, x.grad)


@on_worker(0)
def test_second_derivatives_accumulate_in_grad_as_in_one_process() -> None:
    a, b = leaf(1), leaf(2)
    with da.context() as context_id:
        loss = mix_at(a, b, "w1", "w2").sum()
        da.backward(context_id, [loss], create_graph=True, accumulate_to_grad=True)
        assert a.grad is not None and b.grad is not None
        da.backward(context_id, [(a.grad * b.grad).sum()], accumulate_to_grad=True)
    c, d = leaf(1), leaf(2)
    mix_along(c, d, 2).sum().backward(create_graph=True)
    assert c.grad is not None and d.grad is not None
    (c.grad * d.grad).sum().backward()
    for ours, theirs in ((a.grad, c.grad), (b.grad, d.grad)):
        np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-12)


def test_without_it_grad_is_left_alone(agent: FakeAgent) -> None:
    x = leaf(1)
    with da.context() as context_id:
        da.backward(context_id, [(x * 3).sum()])
        da.backward(context_id, [(x * 3).sum()], accumulate_to_grad=True)
        assert x.grad is not None and (x.grad.numpy() == 3).all()
        assert (da.get_gradients(context_id)[x].numpy() == 6).all()


def test_the_two_places_share_no_memory(agent: FakeAgent) -> None:
    x = leaf(1)
    with da.context() as context_id:
        da.backward(context_id, [(x * 3).sum()], accumulate_to_grad=True)
        assert x.grad is not None
        x.grad.zero_()
        assert (da.get_gradients(context_id)[x].numpy() == 3).all()


def test_hooks_run_once_and_in_the_order_of_one_process(agent: FakeAgent) -> None:
    _seen.clear()
    x = leaf(1)
    x.register_hook(lambda grad: note("tensor") or grad * 2)
    accumulator_of(x).register_prehook(lambda grads: note("before"))
    accumulator_of(x).register_hook(lambda *_: note("after", x.grad is not None))
    x.register_post_accumulate_grad_hook(lambda t: note("accumulated"))
    with da.context() as context_id:
        da.backward(context_id, [(x * 3).sum()], accumulate_to_grad=True)
        assert (da.get_gradients(context_id)[x].numpy() == 6).all()
    assert x.grad is not None and (x.grad.numpy() == 6).all()
    assert _seen == [("tensor",), ("before",), ("accumulated",), ("after", True)]


def test_sparse_gradients_and_tangents_go_along(agent: FakeAgent) -> None:
    table = nn.Embedding(4, 2, sparse=True)
    x = leaf(1, 2)
    with da.context() as context_id:
        rows = table(fastdist.tensor([1, 1]))
        da.backward(context_id, [rows.sum()], accumulate_to_grad=True)
        assert table.weight.grad is not None and table.weight.grad.is_sparse
        with fwAD.dual_level():
            dual = fwAD.make_dual(x, fastdist.ones(2, dtype=fastdist.float64))
            da.backward(context_id, [(dual**3).sum()], accumulate_to_grad=True)
            assert x.grad is not None
            tangent = fwAD.unpack_dual(x.grad).tangent
            assert tangent is not None
            np.testing.assert_allclose(tangent.detach().numpy(), 6 * x.detach().numpy())


def test_gradients_of_devices_accumulate_there(agent: FakeAgent) -> None:
    x = fastdist.ones(3, device="sim:0", requires_grad=True)
    with da.context() as context_id:
        for _ in range(2):
            da.backward(context_id, [(x * 3.0).sum()], accumulate_to_grad=True)
    assert x.grad is not None and str(x.grad.device) == "sim:0"
    assert x.grad.to("cpu").tolist() == [6.0] * 3


def test_the_smart_mode_says_what_to_take_instead(agent: FakeAgent) -> None:
    with (
        da.context() as context_id,
        pytest.raises(ValueError, match=r"'smart' of PyTorch's design notes.*use mode=\"auto\""),
    ):
        da.backward(context_id, [leaf(1).sum()], mode="smart")


@pytest.mark.one_in(4, each=True)
@pytest.mark.parametrize("name", ["create_graph", "to_grad"])
def test_the_terms_of_a_pass_travel_with_its_gradients_and_are_checked(name: str) -> None:
    words = Terms(1, 2, True, True)._replace(**{name: True})._asdict()
    assert filled(Terms, words, 3)._asdict() == words
    with pytest.raises(MessageError, match=f"'{name}' of worker 3"):
        filled(Terms, {**words, name: "x"}, 3)

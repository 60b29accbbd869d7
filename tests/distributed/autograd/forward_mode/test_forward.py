"""Calls inside a context record exactly what a backward pass needs."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

import fastdist
import fastdist.distributed.autograd as da
from fastdist import Tensor
from fastdist.core.errors import RpcTimeoutError
from fastdist.distributed import rpc
from tests.distributed.autograd.on_worker import on_worker, outside
from tests.distributed.autograd.programs import (
    KINDS,
    call,
    close_gate,
    contexts_of,
    current_ids,
    first_of,
    leaf,
    mix_at,
    nothing,
    open_gate,
    wait_at_gate,
)

pytestmark = pytest.mark.usefixtures("workers_hold_nothing")


@pytest.mark.seed("U12", "U3")
@pytest.mark.parametrize("kind", KINDS)
@on_worker(0)
def test_a_function_sees_its_callers_context(kind: str) -> None:
    with da.context() as context_id:
        assert call(kind, "w1", current_ids) == (context_id, context_id)
    assert rpc.rpc_sync("w1", da.current_context_id) == -1


@pytest.mark.seed("C20", "C30", "U3", "U11")
@on_worker(0)
def test_leaving_the_block_releases_the_context_on_all_workers() -> None:
    with da.context():
        mix_at(leaf(1), leaf(2), "w1", "w2")
        assert (contexts_of("w1"), contexts_of("w2")) == (1, 1)
        assert da._current_context()._known_worker_ids() == {1, 2}


def ask_in_every_way(x: Tensor) -> Tensor:
    y = rpc.rpc_sync("w1", fastdist.add, (x, 1))
    z = rpc.rpc_async("w2", first_of, (x,)).wait()
    r = rpc.remote("w1", fastdist.mul, (x, 2)).to_here()
    return x * y + z + r


@pytest.mark.parametrize("inside", [False, True])
@on_worker(0)
def test_a_trace_says_which_answers_of_others_it_holds(inside: bool) -> None:
    x = fastdist.ones(2)
    with da.context() if inside else nullcontext():
        trace = fastdist.trace(ask_in_every_way)(x)
    line = ask_in_every_way.__code__.co_firstlineno
    told = [(one.op, one.note, int(one.site.rpartition(":")[2]) - line) for one in trace]
    assert told[:4] == [
        ("rpc", "answer of w1, baked in", 1),
        ("rpc", "answer of w2, baked in", 2),
        ("remote", "answer of w1, baked in", 3),
        ("to_here", "answer of w1, baked in", 3),
    ]
    assert [name for name, *_ in told[4:]] == ["mul", "add", "add"]
    assert [len(one.args) for one in trace.calls[:4]] == [1, 1, 1, 0]
    assert trace(3 * x).tolist() == [3 * 2 + 2 + 2.0] * 2


@pytest.mark.seed("U7")
@on_worker(0)
def test_a_call_outside_of_contexts_makes_none() -> None:
    got = rpc.rpc_sync("w1", first_of, (leaf(1),))
    assert contexts_of("w1") == 0 and got.is_leaf and got.requires_grad


@pytest.mark.seed("U8", "U10")
@on_worker(0)
def test_a_python_function_without_tensors_is_wrapped_all_the_same() -> None:
    with da.context():
        rpc.rpc_sync("w1", nothing)
        assert contexts_of("w1") == 1 and da._current_context()._send_functions() == {}


@pytest.mark.seed("U7", "U8")
@on_worker(0)
def test_an_op_of_tensors_that_require_no_grad_is_not_wrapped() -> None:
    ones = fastdist.ones(2)
    with da.context():
        assert rpc.rpc_sync("w1", fastdist.add, (ones, ones)).tolist() == [2.0, 2.0]
        assert contexts_of("w1") == 0
        rpc.rpc_sync("w1", fastdist.add, (ones, leaf(1, 2)))
        assert contexts_of("w1") == 1


def recv_functions(*tensors: Tensor) -> tuple[list[int], list[bool], list[bool], set[int]]:
    context = da._current_context()
    functions = context._recv_functions()
    of_them = [tensor.grad_fn in functions.values() for tensor in tensors]
    sender = {function.from_worker.id for function in functions.values()}
    return sorted(functions), of_them, [t.requires_grad for t in tensors], sender


@pytest.mark.seed("U1", "U2", "U4", "U5", "U6")
@on_worker(0)
def test_sends_and_receives_match_and_leave_out_what_needs_no_grad() -> None:
    a, plain, b = leaf(1), leaf(2).detach(), leaf(3)
    with da.context():
        ids, received, require_grad, sender = rpc.rpc_sync("w1", recv_functions, (a, plain, b))
        sends = da._current_context()._send_functions()
        assert list(sends) == ids and sender == {0}
        assert received == require_grad == [True, False, True]
        (send,) = sends.values()
        assert send.name() == "torch::distributed::autograd::SendRpcBackward"
        named = [node.name() for node, _ in send.next_functions]
        assert named == ["torch::autograd::AccumulateGrad"] * 2
        assert repr(send.next_functions[0][0]).startswith("<AccumulateGrad object at 0x")


@pytest.mark.seed("U4")
@on_worker(0)
def test_tensors_sent_without_recording_have_no_history_on_the_other_side() -> None:
    a = leaf(1)
    with da.context() as context_id:
        with fastdist.no_grad():
            ids, received, require_grad, _ = rpc.rpc_sync("w1", recv_functions, (a,))
        assert (ids, received, require_grad) == ([], [False], [True])
        da.backward(context_id, [rpc.rpc_sync("w1", first_of, (a,)).sum()])


@pytest.mark.seed("U18")
@on_worker(0)
def test_the_timeout_of_a_call_holds_inside_a_context() -> None:
    rpc.rpc_sync("w1", close_gate)
    with da.context():
        with pytest.raises(RpcTimeoutError, match=r"^RPC ran for more than set timeout"):
            rpc.rpc_sync("w1", wait_at_gate, (leaf(1),), timeout=0.1)
        outside(rpc.rpc_sync, "w1", open_gate)


@pytest.mark.one_in(4)
@on_worker(0)
def test_a_gradient_passes_a_conjugated_view_that_was_sent() -> None:
    x = fastdist.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    with da.context() as context_id:
        y = rpc.rpc_sync("w1", fastdist.mul, (x.conj(), x))
        z = rpc.rpc_sync("w2", fastdist.neg, (x.conj(),))
        da.backward(context_id, [y.real.sum() + z.imag.sum()])
        assert da.get_gradients(context_id)[x].tolist() == [2 + 5j, 6 - 1j]

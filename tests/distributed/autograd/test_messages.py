"""Messages are wrapped as in PyTorch, down to the bytes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fastdist
import fastdist.distributed.autograd as da
from fastdist import Tensor
from fastdist.core.device import Device
from fastdist.core.errors import ContextError, WorkerLostError
from fastdist.distributed.autograd import messages
from fastdist.distributed.autograd.container import force_current_context_id, get_instance
from fastdist.distributed.autograd.lost_workers import handle_lost_worker
from fastdist.distributed.autograd.message_autograd import context_guard
from fastdist.distributed.autograd.outbox import unpack
from fastdist.distributed.rpc import interceptors
from fastdist.distributed.rpc.calls.serving import Incoming
from fastdist.distributed.rpc.message.layout import NO_INDEX, AutogradBlock
from fastdist.distributed.rpc.message.message import Message, decode
from fastdist.distributed.rpc.message.tensors import pack_tensors, unpack_tensors
from fastdist.distributed.rpc.message.types import MessageType, call_type_of, remote_type_of
from fastdist.distributed.rpc.metrics import CallCounts
from fastdist.distributed.rpc.workers.callers import CallerLane
from fastdist.distributed.rpc.workers.record import Record
from fastdist.tensor.tensor import from_array
from tests.distributed.autograd.fake_agent import FakeAgent
from tests.distributed.lives import Life, life
from tests.distributed.rpc.workers.by_hand import caller_of


def leaf() -> Tensor:
    return fastdist.tensor([1.0, 2.0], requires_grad=True)


def request(kind: MessageType, *tensors: Tensor, to: int = 1) -> Message:
    """Return an outgoing request as the interceptors leave it."""
    message = Message(kind, peer=life(to), tensors=list(tensors))
    interceptors.request_out(message)
    return message


def arrived(message: Message, tensors: list[Tensor], requires_grad: list[bool]) -> Message:
    """Return the message that a peer reconstructs from the message that was sent."""
    other = Message(message.type, peer=life(3), tensors=tensors, metadata=message.metadata)
    other.inner_type, other.autograd = message.inner_type, message.autograd
    other.requires_grad = requires_grad
    return other


@pytest.mark.seed("U7")
def test_a_request_outside_of_contexts_is_not_wrapped(agent: FakeAgent) -> None:
    message = request(MessageType.PYTHON_CALL, leaf())
    assert message.type == MessageType.PYTHON_CALL and message.autograd is None


def test_a_third_worker_is_told_which_life_has_the_context_and_nobody_else(
    agent: FakeAgent,
) -> None:
    with da.context():
        assert request(MessageType.PYTHON_CALL, leaf()).metadata == {}
    owner = life(5)
    get_instance().get_or_create_context(5 << 48, owner)
    with context_guard(5 << 48):
        assert request(MessageType.PYTHON_CALL, leaf(), to=5).metadata == {}
        to_third = request(MessageType.PYTHON_CALL, leaf())
    assert to_third.metadata == {"autograd.owner": owner.record.incarnation}


@pytest.mark.seed("U8", "U13")
@pytest.mark.parametrize(
    "kind",
    [
        MessageType.PYTHON_CALL,
        MessageType.PYTHON_REMOTE_CALL,
        MessageType.PYTHON_RREF_FETCH_CALL,
        MessageType.SCRIPT_RREF_FETCH_CALL,
    ],
)
def test_requests_whose_result_may_require_grad_are_always_wrapped(
    agent: FakeAgent, kind: MessageType
) -> None:
    with da.context():
        message = request(kind)
    assert (message.type, message.inner_type) == (MessageType.FORWARD_AUTOGRAD_REQ, kind)


@pytest.mark.seed("U7", "U8")
@pytest.mark.parametrize("kind", [MessageType.SCRIPT_CALL, MessageType.SCRIPT_REMOTE_CALL])
def test_calls_of_ops_are_wrapped_for_tensors_that_require_grad_alone(
    agent: FakeAgent, kind: MessageType
) -> None:
    with da.context():
        plain, wrapped = request(kind, leaf().detach()), request(kind, leaf())
    assert plain.autograd is None and plain.type == kind
    assert wrapped.autograd is not None and wrapped.effective_type == kind


@pytest.mark.seed("U8")
def test_ops_travel_as_built_in_operators_and_other_functions_do_not() -> None:
    assert call_type_of(fastdist.add) == call_type_of(fastdist.matmul) == MessageType.SCRIPT_CALL
    assert call_type_of(leaf) == call_type_of(print) == MessageType.PYTHON_CALL
    assert remote_type_of(fastdist.add) == MessageType.SCRIPT_REMOTE_CALL
    assert remote_type_of(leaf) == MessageType.PYTHON_REMOTE_CALL


@pytest.mark.parametrize(
    "kind", [MessageType.BACKWARD_AUTOGRAD_REQ, MessageType.RREF_USER_DELETE, MessageType.PING]
)
def test_messages_of_our_own_are_never_wrapped(agent: FakeAgent, kind: MessageType) -> None:
    with da.context():
        assert request(kind, leaf()).autograd is None


@pytest.mark.seed("U9", "U13")
def test_a_wrapped_message_tells_all_over_the_wire(agent: FakeAgent) -> None:
    agent.device_maps = {1: {Device.parse("sim:0"): Device.parse("sim:2")}}
    with da.context() as context_id:
        message = request(MessageType.PYTHON_CALL, leaf())
    sent = Message(
        message.type,
        source=3,
        inner_type=message.inner_type,
        autograd=message.autograd,
    )
    came = decode(sent.encode())
    assert came.type == MessageType.FORWARD_AUTOGRAD_REQ and came.source == 3
    assert came.inner_type == MessageType.PYTHON_CALL
    assert came.autograd == AutogradBlock(context_id, 3 << 48, ((2, 0, 2, 2),))
    assert NO_INDEX not in came.autograd.device_map[0]


@pytest.mark.seed("U1", "U2", "U11")
def test_a_send_is_filed_with_its_edges_and_its_receiver(agent: FakeAgent) -> None:
    a, b = leaf(), leaf()
    with da.context():
        block = request(MessageType.PYTHON_CALL, a, leaf().detach(), b, to=5).autograd
        context = da._current_context()
        assert block is not None and list(context._send_functions()) == [block.message_id]
        send = context._send_functions()[block.message_id]
        assert send.edges == (a._edge, b._edge) and send.output_layout == (a._layout, b._layout)
        assert context._known_worker_ids() == {5}


@pytest.mark.seed("U2")
def test_a_message_id_that_comes_twice_is_our_mistake(agent: FakeAgent) -> None:
    with da.context():
        context = da._current_context()
        request(MessageType.PYTHON_CALL, leaf())
        ((message_id, send),) = context._send_functions().items()
        with pytest.raises(AssertionError, match="used twice"):
            context.add_send_function(send, message_id)


@pytest.mark.seed("U3", "U4", "U10", "U12")
def test_a_wrapped_request_makes_its_context_current_while_it_runs(agent: FakeAgent) -> None:
    with da.context() as theirs:
        sent = request(MessageType.PYTHON_CALL)
        assert da._current_context()._send_functions() == {}
    da._stop(), da._init(3)  # forget the context, as on another worker
    came = arrived(sent, [], [])
    with interceptors.request_in(came):  # type: ignore[union-attr]
        assert da.current_context_id() == theirs
    assert da.current_context_id() == -1 and da._retrieve_context(theirs)._recv_functions() == {}


@pytest.mark.seed("U4", "U5", "U6")
def test_received_tensors_have_a_history_where_they_required_grad(agent: FakeAgent) -> None:
    with da.context():
        sent = request(MessageType.PYTHON_CALL, leaf(), leaf().detach(), leaf())
        context, block = da._current_context(), sent.autograd
        tensors = [leaf().detach() for _ in range(3)]
        with interceptors.request_in(arrived(sent, tensors, [True, False, True])):  # type: ignore[union-attr]
            pass
        (recv,) = context._recv_functions().values()
        assert block is not None and list(context._recv_functions()) == [block.message_id]
        assert [t.grad_fn for t in tensors] == [recv, None, recv]
        assert [tensors[0].output_nr, tensors[2].output_nr] == [0, 1]
        assert (
            recv.from_worker.id == 3
            and recv.name() == "torch::distributed::autograd::RecvRpcBackward"
        )


@pytest.mark.seed("U4")
def test_received_tensors_of_which_none_required_grad_get_no_receive(agent: FakeAgent) -> None:
    with da.context():
        sent = request(MessageType.PYTHON_CALL, leaf().detach())
        tensor = leaf().detach()
        with interceptors.request_in(arrived(sent, [tensor], [False])):  # type: ignore[union-attr]
            pass
        assert tensor.grad_fn is None and da._current_context()._recv_functions() == {}


@pytest.mark.seed("U7", "U11")
def test_a_response_without_gradients_is_not_wrapped(agent: FakeAgent) -> None:
    with da.context():
        asked = request(MessageType.PYTHON_CALL)
        plain = Message(MessageType.PYTHON_RET, peer=life(2), tensors=[leaf().detach()])
        interceptors.response_out(plain, asked)
        assert da._current_context()._known_worker_ids() == {1}
        wrapped = Message(MessageType.PYTHON_RET, peer=life(2), tensors=[leaf() * 2])
        interceptors.response_out(wrapped, asked)
        assert da._current_context()._known_worker_ids() == {1, 2}
    assert plain.autograd is None and plain.type == MessageType.PYTHON_RET
    assert wrapped.type == MessageType.FORWARD_AUTOGRAD_RESP


@pytest.mark.seed("C30")
def test_an_answer_tells_the_owner_whom_a_call_reached(agent: FakeAgent) -> None:
    with da.context():
        asked = request(MessageType.PYTHON_CALL, to=1)
        context = da._current_context()
        context.add_known_workers({life(7), life(8)})
        answer = Message(MessageType.PYTHON_RET, peer=life(1))
        interceptors.response_out(answer, asked)
        context._workers.clear()
        came = Message(MessageType.PYTHON_RET, peer=life(1))
        came.metadata = {name: tuple(value) for name, value in answer.metadata.items()}
        interceptors.response_in(came, asked)
        assert context._known_worker_ids() == {7, 8}


def test_nothing_of_a_context_that_ends_meanwhile_goes_to_who_would_not_hear_of_the_end(
    agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    with da.context() as context_id:
        context, asked = da._current_context(), request(MessageType.PYTHON_CALL, to=1)
        # The context ends right after another thread has looked it up.
        monkeypatch.setattr(da._init(3), "current_context", lambda: context)
        monkeypatch.setattr(da._init(3), "find_context", lambda context_id: context)
        da._release_context(context_id)
        force_current_context_id(context_id)
        with pytest.raises(ContextError, match=r"released while this thread was inside it$"):
            request(MessageType.PYTHON_CALL, leaf(), to=2)
        answer = Message(MessageType.PYTHON_RET, peer=life(2), tensors=[leaf() * 2])
        interceptors.response_out(answer, asked)
    assert answer.autograd is None
    assert context._known_worker_ids() == {1} and len(context._send_functions()) == 0


@pytest.mark.parametrize("is_found", [False, True])
def test_who_was_reached_by_a_call_whose_context_is_over_is_told_so(
    agent: FakeAgent, monkeypatch: pytest.MonkeyPatch, is_found: bool
) -> None:
    container = da._init(3)
    with da.context():
        asked = request(MessageType.PYTHON_CALL, to=1)
        context = da._current_context()
    if is_found:
        monkeypatch.setattr(container, "find_context", lambda context_id: context)
    came = Message(MessageType.PYTHON_RET, peer=life(1), metadata={"autograd.reached": (3, 7, 8)})
    interceptors.response_in(came, asked)
    agent.notice_sender.send_gathered()
    assert sorted(sent[0] for sent in agent.sent) == [1, 7, 8]


def test_an_answer_brings_no_context_back_whose_owner_is_lost(agent: FakeAgent) -> None:
    container, owned_elsewhere = da._init(3), 5 << 48
    container.get_or_create_context(owned_elsewhere, life(1), life(5).record.incarnation)
    force_current_context_id(owned_elsewhere)
    asked = request(MessageType.PYTHON_CALL, leaf(), to=1)
    life(5).is_dead = True
    handle_lost_worker(life(5))
    for shard in container.shards:
        shard.released.clear()  # as if a minute had passed
    came = arrived(asked, [leaf().detach()], [True])
    with pytest.raises(
        WorkerLostError, match=r"^worker 'w5' \(rank 5\), in whose context this was sent, was lost"
    ):
        interceptors.response_in(came, asked)
    assert container.number_of_contexts() == 0


class DiesMeanwhile(Life):
    """Is alive at the first check, and dead at all later checks."""

    def __init__(self, rank: int) -> None:
        self._looks = iter([False])
        super().__init__(rank)

    @property
    def is_dead(self) -> bool:  # type: ignore[override]
        return next(self._looks, True)

    @is_dead.setter
    def is_dead(self, value: bool) -> None:
        pass


def test_a_worker_that_is_lost_while_its_request_begins_brings_no_context(
    agent: FakeAgent,
) -> None:
    with da.context():
        left = request(MessageType.PYTHON_CALL, leaf())
    came = arrived(left, [leaf().detach()], [True])
    came.autograd = AutogradBlock(5 << 48, 7, ())
    came.peer = DiesMeanwhile(3)
    came.metadata["autograd.owner"] = life(5).record.incarnation
    with pytest.raises(
        WorkerLostError, match=r"^worker 'w3' \(rank 3\), which sent this, was lost$"
    ):
        interceptors.request_in(came)
    assert da._get_debug_info()["num_autograd_contexts"] == 0


def test_a_request_that_comes_too_late_to_run_is_known_to_a_pass_all_the_same(
    agent: FakeAgent,
) -> None:
    # The sender of this request runs a pass that waits for a message about these tensors.
    with da.context():
        left = request(MessageType.PYTHON_CALL, leaf())
    message = Message(
        left.type,
        5,
        tensors=left.tensors,
        inner_type=left.inner_type,
        timeout_ms=1,
        autograd=AutogradBlock(5 << 48, 7, ()),
    )
    caller = Record("w5", 5, 6, 100, {}, {}, "none")
    server: Any = SimpleNamespace(counts=CallCounts(), me=caller)
    late = Incoming(server, CallerLane(caller_of(caller), 0), decode(message.encode()), 0)
    late.deadline = 0.0
    late.run()
    (receive,) = da._retrieve_context(5 << 48)._recv_functions().values()
    assert (receive.message_id, receive.from_worker.id) == (7, 5)
    assert da.current_context_id() == -1


@pytest.mark.seed("C19", "C30")
def test_a_clean_up_is_passed_on_once_and_not_to_where_it_came_from(agent: FakeAgent) -> None:
    container = da._init(3)
    container.get_or_create_context(9).add_known_workers({life(0), life(1), life(5)})
    words = {"context_ids": (9, 10)}
    message = Message(MessageType.CLEANUP_AUTOGRAD_CONTEXT_REQ, peer=life(1), metadata=words)
    messages.handle_clean_up(message)
    messages.handle_clean_up(message)
    agent.notice_sender.send_gathered()
    assert sorted(worker_id for worker_id, *_ in agent.sent) == [0, 5]


@pytest.mark.parametrize("array", [np.ones(4), np.ones((2, 4))[:, 1:]])
def test_gradients_that_arrive_in_one_buffer_get_memory_of_their_own(array: Any) -> None:
    # The gradients of x + y, for example, share memory; adding to one must not change the other.
    tensors, requires_grad = unpack_tensors(*pack_tensors([from_array(array), from_array(array)]))
    assert np.shares_memory(*[tensor._array for tensor in tensors]) and not any(requires_grad)
    alone = from_array(np.zeros(2))
    (came,) = unpack([*tensors, alone], {"messages": (7, 3)}, 1)
    assert came.tensors is not None and came.tensors[2] is alone
    first, second = (tensor._array for tensor in came.tensors[:2] if tensor is not None)
    assert not np.shares_memory(first, second)
    np.testing.assert_array_equal(second, array)

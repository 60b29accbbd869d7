"""Errors in a message of distributed autograd are reported to the message's sender as text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fastdist.core.errors import MessageError
from fastdist.distributed.autograd.backward_pass import BackwardPass
from fastdist.distributed.autograd.context import DistAutogradContext
from fastdist.distributed.autograd.messages import handle_abort, handle_clean_up, handle_gradients
from fastdist.distributed.autograd.outbox import unpack
from fastdist.distributed.autograd.pass_metadata import Progress, Terms
from fastdist.distributed.autograd.recv_rpc_backward import RecvRpcBackward
from fastdist.distributed.autograd.rref_backward import handle_rref_backward
from fastdist.distributed.autograd.send_rpc_backward import SendRpcBackward
from fastdist.distributed.autograd.stall import handle_progress
from fastdist.distributed.autograd.tangent_store import TangentInterceptor
from fastdist.distributed.rpc.message.body import serialize
from fastdist.distributed.rpc.message.message import Message
from fastdist.tensor.tensor import from_array
from tests.distributed.autograd.fake_agent import FakeAgent
from tests.distributed.lives import life

TERMS = Terms(1, 1, is_auto=True)._asdict()
HANDLERS: list[tuple[Callable[[Message], Any], dict[str, Any]]] = [
    (handle_gradients, {**TERMS, "messages": ()}),
    (handle_clean_up, {"context_ids": ()}),
    (handle_abort, {**TERMS, "reason": "x"}),
    (handle_progress, TERMS),
    (handle_rref_backward, {"context_id": 1, "retain_graph": False}),
]
OF_A_WORD = [(handler, words, name) for handler, words in HANDLERS for name in words]
OPTIONAL: list[tuple[Callable[[Message], Any], dict[str, Any]]] = [
    (handle_clean_up, {"levels": ("x",)}),
    (handle_clean_up, {"context_ids": ("x",), "held": True}),
    (handle_progress, {**TERMS, "sends": "x"}),
    (TangentInterceptor().request_in, {"tangents.current": "x"}),
    (TangentInterceptor().request_in, {"tangents.levels": 5}),
    (TangentInterceptor().request_in, {"tangents.levels": ("x",)}),
    (TangentInterceptor().request_in, {"tangents.levels": (1, 2), "tangents.owners": ("x", 0)}),
    (TangentInterceptor().request_in, {"tangents.levels": (1, 2), "tangents.owners": (7,)}),
]


@pytest.mark.parametrize(("handler", "words", "name"), OF_A_WORD)
def test_a_word_that_is_missing_or_wrong_is_an_error_that_names_it(
    agent: FakeAgent, handler: Callable[[Message], Any], words: dict[str, Any], name: str
) -> None:
    without = {other: value for other, value in words.items() if other != name}
    for wrong in (without, {**words, name: None}, {**words, name: 1.5}, {**words, name: [b""]}):
        with pytest.raises(MessageError, match=f"'{name}' of worker 3"):
            handler(Message(0, peer=life(3), metadata=wrong))


@pytest.mark.parametrize(("handler", "words"), OPTIONAL)
def test_a_word_that_need_not_be_there_is_checked_where_it_is(
    agent: FakeAgent, handler: Callable[[Message], Any], words: dict[str, Any]
) -> None:
    with pytest.raises(MessageError, match="of worker 3 is"):
        handler(Message(0, peer=life(3), metadata=words))


@pytest.mark.parametrize("messages", [(1,), (1, 2), (1, -2), (1, 1, 2, 1), (1, -1, 2)])
def test_gradients_that_do_not_fit_their_tensors_are_refused(messages: tuple[int, ...]) -> None:
    with pytest.raises(MessageError, match="'messages' of worker 3"):
        unpack([from_array(np.zeros(1))], {"messages": messages}, 3)


@pytest.mark.parametrize("value", [None, (), (1,), [1], (1, 2)])
def test_a_pass_of_something_else_than_a_reference_is_refused(value: Any) -> None:
    body, encoding = serialize(value, [])
    words: dict[str, Any] = {"context_id": 1, "retain_graph": False}
    message = Message(0, peer=life(3), body=body, encoding=encoding, metadata=words)
    with pytest.raises(MessageError, match="expected one RRef"):
        handle_rref_backward(message)


def test_progress_that_is_none_is_refused() -> None:
    told = Progress(0, 0, 0, True, (1,), (1,), (1,))
    good = told._asdict()
    assert Progress.read(good, 3) == told and len(good) == 7
    for name in good:
        with pytest.raises(MessageError, match=f"'{name}' of worker 3"):
            Progress.read({**good, name: "x"}, 3)
    with pytest.raises(MessageError, match="as many numbers"):
        Progress.read({**good, "waits_for": ()}, 3)


def test_a_message_id_that_comes_twice_and_gradients_too_few_are_refused() -> None:
    context = DistAutogradContext(1)
    layout = from_array(np.zeros(1))._layout
    context.add_recv_function(RecvRpcBackward(context, 5, life(3), (layout,)), 5)
    with pytest.raises(MessageError, match="message id 0:5 of worker 3 arrived twice"):
        context.add_recv_function(RecvRpcBackward(context, 5, life(3), (layout,)), 5)
    with pytest.raises(MessageError, match="0 gradients arrived from worker 3 for 1 tensors"):
        SendRpcBackward((None,), (layout,), life(3)).set_grads(BackwardPass(Terms(1, 1)), ())

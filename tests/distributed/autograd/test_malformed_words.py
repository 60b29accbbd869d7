"""What a worker writes wrongly into messages of distributed autograd is told to it in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fastdist.core.errors import MessageError
from fastdist.distributed.autograd.abort import handle_abort
from fastdist.distributed.autograd.context import DistAutogradContext
from fastdist.distributed.autograd.messages import handle_clean_up, handle_gradients
from fastdist.distributed.autograd.outbox import unpack
from fastdist.distributed.autograd.recv_rpc_backward import RecvRpcBackward
from fastdist.distributed.autograd.rref_backward import handle_rref_backward
from fastdist.distributed.autograd.send_rpc_backward import SendRpcBackward
from fastdist.distributed.autograd.stall import _progress_of, handle_progress
from fastdist.distributed.autograd.tangent_store import TangentInterceptor, handle_level_end
from fastdist.distributed.rpc.interceptors import Envelope
from fastdist.tensor.tensor import from_array

HANDLERS: list[tuple[Callable[[Envelope], Any], dict[str, Any]]] = [
    (
        handle_gradients,
        {"context_id": 1, "pass_id": 1, "retain_graph": False, "auto": True, "messages": ()},
    ),
    (handle_clean_up, {"context_ids": ()}),
    (handle_abort, {"context_id": 1, "pass_id": 1, "reason": "x"}),
    (handle_progress, {"context_id": 1, "pass_id": 1}),
    (handle_level_end, {"level": 1}),
    (handle_rref_backward, {"context_id": 1, "retain_graph": False}),
]
OF_A_WORD = [(handler, words, name) for handler, words in HANDLERS for name in words]
OPTIONAL: list[tuple[Callable[[Envelope], Any], dict[str, Any]]] = [
    (handle_clean_up, {"context_ids": (), "held": 5}),
    (handle_progress, {"context_id": 1, "pass_id": 1, "sends": "x"}),
    (TangentInterceptor().request_in, {"tangents.current": "x"}),
    (TangentInterceptor().request_in, {"tangents.levels": 5}),
    (TangentInterceptor().request_in, {"tangents.levels": ("x",)}),
]


@pytest.mark.parametrize(("handler", "words", "name"), OF_A_WORD)
def test_a_word_that_is_missing_or_wrong_is_an_error_that_names_it(
    handler: Callable[[Envelope], Any], words: dict[str, Any], name: str
) -> None:
    without = {other: value for other, value in words.items() if other != name}
    for wrong in (without, {**words, name: None}, {**words, name: 1.5}, {**words, name: [b""]}):
        with pytest.raises(MessageError, match=f"'{name}' of worker 3"):
            handler(Envelope(0, 3, [], wrong))


@pytest.mark.parametrize(("handler", "words"), OPTIONAL)
def test_a_word_that_need_not_be_there_is_checked_where_it_is(
    handler: Callable[[Envelope], Any], words: dict[str, Any]
) -> None:
    with pytest.raises(MessageError, match="of worker 3 is"):
        handler(Envelope(0, 3, [], words))


@pytest.mark.parametrize("messages", [(1,), (1, 2), (1, -2), (1, 1, 2, 1), (1, -1, 2)])
def test_gradients_that_do_not_fit_their_tensors_are_refused(messages: tuple[int, ...]) -> None:
    with pytest.raises(MessageError, match="'messages' of worker 3"):
        unpack([from_array(np.zeros(1))], {"messages": messages}, 3)


@pytest.mark.parametrize("value", [None, (), (1,), [1], (1, 2)])
def test_a_pass_of_something_else_than_a_reference_is_refused(value: Any) -> None:
    envelope = Envelope(0, 3, [], {"context_id": 1, "retain_graph": False})
    envelope.read_value = lambda: value
    with pytest.raises(MessageError, match="expected one RRef"):
        handle_rref_backward(envelope)


def test_progress_that_is_none_is_refused() -> None:
    good: dict[str, Any] = {
        **dict.fromkeys(("running", "sent", "received"), 0),
        **dict.fromkeys(("waiting", "waits_for", "workers"), (1,)),
        "begun": True,
    }
    assert _progress_of(3, good) == good
    for name in good:
        with pytest.raises(MessageError, match=f"'{name}' of worker 3"):
            _progress_of(3, {**good, name: "x"})
    with pytest.raises(MessageError, match="as many numbers"):
        _progress_of(3, {**good, "waits_for": ()})


def test_a_message_id_that_comes_twice_and_gradients_too_few_are_refused() -> None:
    context = DistAutogradContext(1)
    layout = from_array(np.zeros(1)).facts
    context.add_recv_function(RecvRpcBackward(context, 5, 3, (layout,)), 5)
    with pytest.raises(MessageError, match="message id 5 of worker 3 came twice"):
        context.add_recv_function(RecvRpcBackward(context, 5, 3, (layout,)), 5)
    with pytest.raises(MessageError, match="0 gradients came from worker 3 for 1 tensors"):
        SendRpcBackward((None,), (layout,), 3).set_grads(())

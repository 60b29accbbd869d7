"""Which function answers which kind of request."""

# A handler gets a request, which knows the incarnation of its sender (request.peer), and returns
# the content of the response: None, a Reply(tensors, metadata), or a Future of either, which is
# answered when it is done. Its exceptions are raised at the sender, with its traceback.
#
#     register_handler(MessageType.BACKWARD_AUTOGRAD_REQ, handle_gradients)
#     future = agent.send(worker, MessageType.BACKWARD_AUTOGRAD_REQ, gradients,
#                         {"context_id": 5}, timeout_s=0, retries=0)      # a Future of a Reply
#
# Handlers run on pool threads, uncounted: they never wait behind users' functions. A handler with a
# long wait should return a Future instead.

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from fastdist.concurrency.future import Future
from fastdist.tensor.tensor import Tensor

from .message.message import Message
from .message.metadata import Value


class Reply(NamedTuple):
    """The content of a response."""

    tensors: list[Tensor]
    metadata: dict[str, Value]


class ValueReply(NamedTuple):
    """A response whose body is a Python value, for the types that callers read as one."""

    value: Any


class DeferredResult(NamedTuple):
    """The result of a function or handler of this package whose Future is the answer.

    `what` names the function that gave it, for messages.
    """

    future: Future[Any]
    what: str = ""


Answer: TypeAlias = "Reply | ValueReply | None"
Handler: TypeAlias = Callable[[Message], "Answer | DeferredResult | Future[Any]"]

# Entries come and go one at a time.
_handlers: dict[int, Handler] = {}


def register_handler(message_type: int, handler: Handler) -> None:
    """Let handler answer requests of message_type, instead of whoever did."""
    _handlers[message_type] = handler


def unregister_handler(message_type: int) -> None:
    """Answer requests of message_type with an error again."""
    _handlers.pop(message_type, None)


def handler_of(message_type: int) -> Handler | None:
    """Return who answers message_type."""
    return _handlers.get(message_type)

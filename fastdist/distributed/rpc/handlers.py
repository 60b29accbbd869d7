"""The table of functions that answer requests, by message type."""

# A handler gets a request (request.peer is the sender's life), and returns the content of the
# response: None, a Reply(tensors, metadata), or a Future of one of these. In the last case the
# response is sent when the Future is done. An exception of the handler is raised at the sender,
# with the traceback.
#
#     register_handler(MessageType.BACKWARD_AUTOGRAD_REQ, handle_gradients)
#     future = agent.send(worker, MessageType.BACKWARD_AUTOGRAD_REQ, gradients,
#                         {"context_id": 5}, timeout_s=0, retries=0)      # a Future of a Reply
#
# Handlers run on pool threads, and do not count towards the limit for users' functions. So a
# handler never waits until a user's function ends. A handler that has to wait long should return a
# Future instead.

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
    """A response whose body is a Python value, for message types whose callers read a value."""

    value: Any


class DeferredResult(NamedTuple):
    """Returned by a function or a handler to send the later result of `future` as the response.

    `what` is the name of the function, for log lines and errors.
    """

    future: Future[Any]
    what: str = ""


Answer: TypeAlias = "Reply | ValueReply | None"
Handler: TypeAlias = Callable[[Message], "Answer | DeferredResult | Future[Any]"]

# Each operation on this dictionary is atomic.
_handlers: dict[int, Handler] = {}


def register_handler(message_type: int, handler: Handler) -> None:
    """Set the handler for requests of message_type; a former handler is replaced."""
    _handlers[message_type] = handler


def unregister_handler(message_type: int) -> None:
    """Remove the handler: requests of message_type are answered with an error."""
    _handlers.pop(message_type, None)


def handler_of(message_type: int) -> Handler | None:
    """Return the handler for message_type, or None."""
    return _handlers.get(message_type)

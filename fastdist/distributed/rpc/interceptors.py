"""Interceptors of messages: tangents, autograd and profiler, in this fixed order."""

# distributed/autograd and other packages extend rpc by this interface, so that rpc does not import
# them:
#
#     class AutogradInterceptor:
#         def request_out(self, request): ...  # caller: add a block, or tensors, or values
#         def request_in(self, request): ...  # callee: return None, or a context manager that is
#                                             # open while arguments are read and the function runs
#         def response_out(self, answer, request): ...  # callee
#         def response_in(self, answer, request): ...  # caller
#     install("autograd", AutogradInterceptor())
#
# An interceptor handles a Message: the type, the tensors, the metadata; it never needs the bytes.
# It may
#   - append to `tensors` (users do not see these, as their arguments refer to tensors by index),
#     and add a tensor and its tangent to `tangents` as TangentEntry(tensor, level id, tangent);
#   - set `autograd` to AutogradBlock(context_id, message_id);
#   - call the message's `wrap()` to change the type: the first type stays in `inner_type`;
#   - on arrival, set a tensor's place in a graph (`tensor._edge = ...`) before users get it.
#     A tensor whose sender had requires_grad set, and which has no edge after all interceptors,
#     becomes a leaf that requires grad, as in PyTorch;
#   - put values into `metadata` under its own keys (None, bool, int, float, str, bytes, lists).
# Interceptors run in ORDER for sent messages, and in reverse for received ones, so that the last
# additions are removed first.
# Each method must be cheap when it has nothing to do. An interceptor does not define a method that
# would never do anything. An interceptor that only serves requests of some types lists these types
# in `serves`; on the callee it is called for requests of these types alone. The argument `request`
# of response_out and response_in is the request that the response answers: as received in
# response_out, as sent in response_in. response_out runs on the thread that completes the result.
# If the function is async, request_in ran on another thread, so response_out must take all its data
# from `request`.
# A message without autograd block, tangents and metadata has nothing to remove. So such a request
# skips request_in, and such a response skips response_in if it answers a call or has no tensors. A
# response without tensors to such a request skips response_out. An error in request_out is raised
# to the caller. An error in request_in or response_out is sent to the caller like an error of the
# function. An error in response_in becomes the call's error.

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Final

from .message.message import Message

ORDER: Final = ("tangents", "autograd", "profiler")

# Guards changes of the tables below. Readers do not take this lock: they read one tuple each.
_installed_lock = threading.Lock()
_installed: dict[str, object] = {}
# The methods for each direction, in the order of the calls. For request types that some interceptor
# lists in `serves`, _in_of and _answer_out_of replace _in and _answer_out.
_out: tuple[Callable[[Message], None], ...] = ()
_in: tuple[Callable[[Message], AbstractContextManager[Any] | None], ...] = ()
_answer_out: tuple[Callable[[Message, Message], None], ...] = ()
_answer_in: tuple[Callable[[Message, Message], None], ...] = ()
_in_of: dict[int, tuple[Callable[[Message], AbstractContextManager[Any] | None], ...]] = {}
_answer_out_of: dict[int, tuple[Callable[[Message, Message], None], ...]] = {}


def install(name: str, interceptor: object) -> None:
    """Install an interceptor at its place in ORDER; a former one of this name is replaced.

    Raises  ValueError for a name that ORDER does not have
    """
    if name not in ORDER:
        raise ValueError(f"unknown interceptor {name!r}; the order is {', '.join(ORDER)}")
    with _installed_lock:
        _installed[name] = interceptor
        _sort()


def remove(name: str) -> None:
    """Remove an interceptor; do nothing if it is not installed."""
    with _installed_lock:
        _installed.pop(name, None)
        _sort()


def _sort() -> None:
    global _out, _in, _answer_out, _answer_in, _in_of, _answer_out_of
    known = [_installed[which] for which in ORDER if which in _installed]
    _out, _answer_in = _methods("request_out", known), _methods("response_in", known)[::-1]
    of = {one: getattr(one, "serves", None) for one in known}  # None: for requests of all types
    served = {kind for kinds in of.values() for kind in kinds or ()}

    def serving(kind: int | None) -> list[object]:
        return [one for one, kinds in of.items() if kinds is None or kind in kinds]

    _in = _methods("request_in", serving(None))[::-1]
    _answer_out = _methods("response_out", serving(None))
    _in_of = {kind: _methods("request_in", serving(kind))[::-1] for kind in served}
    _answer_out_of = {kind: _methods("response_out", serving(kind)) for kind in served}


def _methods(name: str, known: Sequence[object]) -> tuple[Callable[..., Any], ...]:
    return tuple([getattr(one, name) for one in known if hasattr(one, name)])


def request_out(request: Message) -> None:
    """Pass a request through all interceptors, in order."""
    for wrap in _out:
        wrap(request)


def request_in(request: Message) -> AbstractContextManager[Any] | None:
    """Pass a request through all interceptors, in reverse; return a context manager to enter."""
    all_opened = []
    for unwrap in _in_of.get(request.type, _in):
        opened = unwrap(request)
        if opened is not None:
            all_opened.append(opened)
    if len(all_opened) > 1:
        return _nested(all_opened)
    return all_opened[0] if all_opened else None


@contextmanager
def _nested(managers: Sequence[AbstractContextManager[Any]]) -> Iterator[None]:
    with ExitStack() as stack:
        for manager in managers:
            stack.enter_context(manager)
        yield


def response_out(answer: Message, request: Message) -> None:
    """Pass a response through all interceptors, in order."""
    for wrap in _answer_out_of.get(request.type, _answer_out):
        wrap(answer, request)


def response_in(answer: Message, request: Message) -> None:
    """Pass a response through all interceptors, in reverse."""
    for unwrap in _answer_in:
        unwrap(answer, request)

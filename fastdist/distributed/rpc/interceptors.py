"""What wraps a message on its way: tangents, autograd, profiler, in this written order."""

# How distributed/autograd, and later others, stand on rpc without rpc knowing them:
#
#     class AutogradInterceptor:
#         def request_out(self, envelope): ...      # caller: add a block, or tensors, or values
#         def request_in(self, envelope): ...       # callee: None, or a context manager that is
#         open
#                                                   # while arguments are read and the function runs
#         def response_out(self, envelope, request): ...   # callee
#         def response_in(self, envelope, request): ...    # caller
#     install("autograd", AutogradInterceptor())
#
# An interceptor sees an Envelope: the type, the tensors, small values; never bytes. It may
#   - append to `tensors` (what it appends is not seen by users: their arguments name tensors by
#     index), and name such a pair in `tangents` as TangentEntry(tensor, level id, tangent);
#   - set `autograd` to AutogradBlock(context_id, message_id);
#   - set `message_type` to a wrapping type: the type that was there goes into `inner_type`;
#   - on arrival, give a tensor its place in a graph (`tensor.edge = ...`) before anybody sees it.
#     A tensor whose sender had requires_grad set, and which has no edge after all interceptors,
#     becomes a leaf that requires grad, as PyTorch's do;
#   - put values into `metadata` under keys of its own (None, bool, int, float, str, bytes, lists).
# Out it goes in ORDER, in comes the reverse, so that what one adds last is taken off first.
# `request` is the envelope of the request that a response answers, as it was sent or came in.
# response_out runs on the thread that has the result, which for an async function is not the one
# that ran request_in: whatever it needs it takes from `request`.
# A message without block, tangents and metadata has nothing that could be taken off: such a call is
# not shown to request_in, such an answer to a call not to response_in, and what answers a call like
# that with a value without tensors not to response_out.
# An error in request_out is raised to the caller; in request_in or response_out it is sent to the
# caller as the function's would be; in response_in it becomes the call's error.

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

from fastdist.distributed.pipe.message import AutogradBlock, TangentEntry

if TYPE_CHECKING:
    from fastdist.distributed.pipe.metadata import Value
    from fastdist.tensor.tensor import Tensor


ORDER: Final = ("tangents", "autograd", "profiler")


class Envelope:
    """What interceptors and handlers see of a message. `peer` is the worker id at the other end."""

    __slots__ = (
        "autograd",
        "inner_type",
        "message_type",
        "metadata",
        "peer",
        "read_value",
        "requires_grad",
        "tangents",
        "tensors",
    )

    def __init__(
        self,
        message_type: int,
        peer: int,
        tensors: list[Tensor],
        metadata: dict[str, Value] | None = None,
    ) -> None:
        self.message_type = message_type
        self.inner_type = 0
        self.peer = peer
        self.tensors = tensors
        # On arrival: whether the sender's tensor required grad. Empty on the way out.
        self.requires_grad: Sequence[bool] = ()
        self.metadata: dict[str, Value] = {} if metadata is None else metadata
        self.tangents: list[TangentEntry] = []
        self.autograd: AutogradBlock | None = None
        # On arrival: reads the value that travels in the body, once; for handlers of this package.
        self.read_value: Callable[[], Any] | None = None

    def wrap(self, message_type: int) -> None:
        """Become a message of another type around the one it was."""
        if not self.inner_type:
            self.inner_type = self.message_type
        self.message_type = message_type

    @property
    def is_bare(self) -> bool:
        """Whether nothing travels but a body and tensors."""
        return not (self.metadata or self.tangents or self.autograd or self.inner_type)

    @property
    def effective_type(self) -> int:
        """The type of what is inside the wrapping, if there is one."""
        return self.inner_type or self.message_type


class Interceptor(Protocol):
    """Something that wraps messages; each method must be cheap when it has nothing to do."""

    def request_out(self, envelope: Envelope) -> None:
        """Add to a request that is about to be sent. Runs on the caller's thread."""

    def request_in(self, envelope: Envelope) -> AbstractContextManager[Any] | None:
        """Take a request; return what shall be open while its function runs."""

    def response_out(self, envelope: Envelope, request: Envelope) -> None:
        """Add to a response that is about to be sent."""

    def response_in(self, envelope: Envelope, request: Envelope) -> None:
        """Take a response, before its value is read."""


# Guards the changes of _installed; readers take the tuple as it is.
_installed_lock = threading.Lock()
_installed: tuple[tuple[str, Interceptor], ...] = ()


def install(name: str, interceptor: Interceptor) -> None:
    """Put an interceptor into its place in ORDER, instead of the one that is there.

    Raises  ValueError for a name that ORDER does not have
    """
    global _installed
    if name not in ORDER:
        raise ValueError(f"unknown interceptor {name!r}; the order is {', '.join(ORDER)}")
    with _installed_lock:
        others = {known: other for known, other in _installed if known != name}
        others[name] = interceptor
        _installed = tuple((known, others[known]) for known in ORDER if known in others)


def remove(name: str) -> None:
    """Take an interceptor out; nothing happens if it is not there."""
    global _installed
    with _installed_lock:
        _installed = tuple(pair for pair in _installed if pair[0] != name)


def request_out(envelope: Envelope) -> None:
    """Pass a request through all interceptors, in order."""
    for _, interceptor in _installed:
        interceptor.request_out(envelope)


def request_in(envelope: Envelope) -> AbstractContextManager[Any] | None:
    """Pass a request through all interceptors, in reverse; return what is to be open meanwhile."""
    all_opened = []
    for _, interceptor in reversed(_installed):
        opened = interceptor.request_in(envelope)
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


def response_out(envelope: Envelope, request: Envelope) -> None:
    """Pass a response through all interceptors, in order."""
    for _, interceptor in _installed:
        interceptor.response_out(envelope, request)


def response_in(envelope: Envelope, request: Envelope) -> None:
    """Pass a response through all interceptors, in reverse."""
    for _, interceptor in reversed(_installed):
        interceptor.response_in(envelope, request)

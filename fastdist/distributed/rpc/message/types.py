"""The types of messages, with PyTorch's numbers; fastdist's own begin at 0x80."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

REQUEST: Final = 0x100
RESPONSE: Final = 0x200
OURS: Final = 0x80


class MessageType(IntEnum):
    """The type of a request or an answer.

    Source  PyTorch, torch/csrc/distributed/rpc/message.h
    """

    # Calls of rpc_sync and rpc_async: SCRIPT_CALL runs an op of this package, PYTHON_CALL a user's
    # function.
    SCRIPT_CALL = 0x00 | REQUEST
    SCRIPT_RET = 0x01 | RESPONSE
    PYTHON_CALL = 0x02 | REQUEST
    PYTHON_RET = 0x03 | RESPONSE
    # Calls of remote(): the result stays on the worker that owns it.
    SCRIPT_REMOTE_CALL = 0x04 | REQUEST
    PYTHON_REMOTE_CALL = 0x05 | REQUEST
    REMOTE_RET = 0x06 | RESPONSE
    # The RRef protocol.
    SCRIPT_RREF_FETCH_CALL = 0x07 | REQUEST
    PYTHON_RREF_FETCH_CALL = 0x08 | REQUEST
    SCRIPT_RREF_FETCH_RET = 0x09 | RESPONSE
    PYTHON_RREF_FETCH_RET = 0x0A | RESPONSE
    RREF_USER_DELETE = 0x0B | REQUEST
    RREF_FORK_REQUEST = 0x0C | REQUEST
    RREF_CHILD_ACCEPT = 0x0D | REQUEST
    RREF_ACK = 0x0E | RESPONSE
    # A call wrapped with autograd information; the wrapped type is stored separately.
    FORWARD_AUTOGRAD_REQ = 0x0F | REQUEST
    FORWARD_AUTOGRAD_RESP = 0x10 | RESPONSE
    # Gradients of a backward pass.
    BACKWARD_AUTOGRAD_REQ = 0x11 | REQUEST
    BACKWARD_AUTOGRAD_RESP = 0x12 | RESPONSE
    # The end of contexts or of forward-mode levels.
    CLEANUP_AUTOGRAD_CONTEXT_REQ = 0x13 | REQUEST
    CLEANUP_AUTOGRAD_CONTEXT_RESP = 0x14 | RESPONSE
    RUN_WITH_PROFILING_REQ = 0x15 | REQUEST
    RUN_WITH_PROFILING_RESP = 0x16 | RESPONSE
    RREF_BACKWARD_REQ = 0x17 | REQUEST
    RREF_BACKWARD_RESP = 0x18 | RESPONSE
    EXCEPTION = 0x37 | RESPONSE
    UNKNOWN = 0x3C

    # Types that PyTorch does not have. A type without REQUEST or RESPONSE is a notice, which is not
    # answered.
    CREDIT = OURS
    HELLO = OURS + 0x01 | REQUEST
    BYE = OURS + 0x03
    CANCEL = OURS + 0x04
    PING = OURS + 0x05 | REQUEST
    PONG = OURS + 0x06 | RESPONSE
    SHUTDOWN_BARRIER_REQ = OURS + 0x07 | REQUEST
    SHUTDOWN_BARRIER_RESP = OURS + 0x08 | RESPONSE
    # A distributed pass has failed on a worker. Sent to all workers that the pass has reached.
    ABORT_AUTOGRAD_CONTEXT_REQ = OURS + 0x09 | REQUEST
    ABORT_AUTOGRAD_CONTEXT_RESP = OURS + 0x0A | RESPONSE
    # The query that the root worker of a stalled pass sends to all workers.
    PASS_PROGRESS_REQ = OURS + 0x0B | REQUEST
    PASS_PROGRESS_RESP = OURS + 0x0C | RESPONSE
    # The answer to a request on a connection on which no HELLO was sent before.
    GREET_FIRST = OURS + 0x11 | RESPONSE
    # A worker of the same machine offers the receiver memory for large tensors.
    ARENA_OFFER_REQ = OURS + 0x12 | REQUEST
    ARENA_OFFER_RESP = OURS + 0x13 | RESPONSE
    # Two notices: a query about the state of calls whose connection broke, and the reply to it.
    RECONCILE = OURS + 0x14
    RECONCILED = OURS + 0x15
    # The caller has given up some calls. References in these calls and their answers are taken back
    # if they have not arrived.
    RREF_GIVE_UP_REQ = OURS + 0x16 | REQUEST
    RREF_GIVE_UP_RESP = OURS + 0x17 | RESPONSE
    # A notice to a worker that has sent BYE: the sender has read all messages of that worker.
    FAREWELL = OURS + 0x18
    # Requests of the profiler: to begin to record time ranges, to read the clock, and to return the
    # recording.
    PROFILE_GROUP_REQ = OURS + 0x19 | REQUEST
    PROFILE_GROUP_RESP = OURS + 0x1A | RESPONSE
    # A worker of the same machine offers the receiver memory of a GPU for tensors.
    IPC_OFFER_REQ = OURS + 0x1B | REQUEST
    IPC_OFFER_RESP = OURS + 0x1C | RESPONSE
    # The owner of GPU memory requests it back.
    IPC_RELEASE_REQ = OURS + 0x1D | REQUEST
    IPC_RELEASE_RESP = OURS + 0x1E | RESPONSE


_T = MessageType

# The answer to NAME_REQ is NAME_RESP, and the answer to NAME_CALL is NAME_RET.
RESPONSE_OF: Final[dict[int, MessageType]] = {
    _T.SCRIPT_REMOTE_CALL: _T.REMOTE_RET,
    _T.PYTHON_REMOTE_CALL: _T.REMOTE_RET,
    _T.RREF_USER_DELETE: _T.RREF_ACK,
    _T.RREF_FORK_REQUEST: _T.RREF_ACK,
    _T.RREF_CHILD_ACCEPT: _T.RREF_ACK,
    _T.PING: _T.PONG,
}
for _kind in MessageType:
    _name, _, _end = _kind.name.rpartition("_")
    if _kind not in RESPONSE_OF and _end in ("REQ", "CALL"):
        RESPONSE_OF[_kind] = MessageType[f"{_name}_{'RESP' if _end == 'REQ' else 'RET'}"]

# Types that do not count as calls under way: messages of a shutdown's barrier, messages without an
# effect on users' data, and messages about a call that is over.
NOT_COUNTED: Final = frozenset(
    {
        _T.SHUTDOWN_BARRIER_REQ,
        _T.PING,
        _T.ARENA_OFFER_REQ,
        _T.IPC_OFFER_REQ,
        _T.IPC_RELEASE_REQ,
        _T.RREF_GIVE_UP_REQ,
    }
)

# Requests that run users' functions: their body is a function and its arguments. All other requests
# are short, or must never wait behind users' functions.
USER_WORK: Final = frozenset(
    {_T.SCRIPT_CALL, _T.PYTHON_CALL, _T.SCRIPT_REMOTE_CALL, _T.PYTHON_REMOTE_CALL}
)
# Requests whose Futures are never returned to users.
OURS_ALONE: Final = frozenset(
    {
        _T.BACKWARD_AUTOGRAD_REQ,
        _T.CLEANUP_AUTOGRAD_CONTEXT_REQ,
        _T.ABORT_AUTOGRAD_CONTEXT_REQ,
        _T.PASS_PROGRESS_REQ,
        _T.ARENA_OFFER_REQ,
        _T.IPC_OFFER_REQ,
        _T.IPC_RELEASE_REQ,
        _T.RREF_USER_DELETE,
        _T.RREF_FORK_REQUEST,
        _T.RREF_CHILD_ACCEPT,
        _T.RREF_GIVE_UP_REQ,
    }
)
# If the caller gives up one of these requests, the callee is always notified: the request or its
# answer may bring references, or tensors in lent memory.
TOLD_IF_GIVEN_UP: Final = frozenset(
    {
        _T.SCRIPT_CALL,
        _T.PYTHON_CALL,
        _T.SCRIPT_REMOTE_CALL,
        _T.PYTHON_REMOTE_CALL,
        _T.PYTHON_RREF_FETCH_CALL,
        _T.BACKWARD_AUTOGRAD_REQ,  # its answer has gradients
    }
)
# All types, to test a received number: MessageType(number) raises for an unknown number.
KINDS: Final = frozenset(MessageType)
# CALLS: the result is the body of the answer. REMOTE_CALLS: the result stays on the callee.
# WITH_VALUE: answers whose body is a value.
CALLS: Final = frozenset({_T.SCRIPT_CALL, _T.PYTHON_CALL})
REMOTE_CALLS: Final = frozenset({_T.SCRIPT_REMOTE_CALL, _T.PYTHON_REMOTE_CALL})
WITH_VALUE: Final = frozenset(
    {_T.SCRIPT_RET, _T.PYTHON_RET, _T.SCRIPT_RREF_FETCH_RET, _T.PYTHON_RREF_FETCH_RET}
)


def call_type_of(function: object) -> MessageType:
    """Return the message type for a call of `function`: SCRIPT_CALL for an op of this package.

    Interceptors rely on a property of ops: a result requires grad only if an input does.
    """
    is_op = getattr(function, "__module__", None) == "fastdist"
    return MessageType.SCRIPT_CALL if is_op else MessageType.PYTHON_CALL


def remote_type_of(function: object) -> MessageType:
    """Return the message type for a remote call of `function`; its result stays on the callee."""
    is_op = call_type_of(function) is MessageType.SCRIPT_CALL
    return MessageType.SCRIPT_REMOTE_CALL if is_op else MessageType.PYTHON_REMOTE_CALL

"""Sends and receives between two members of a group: the methods of ProcessGroup."""

from __future__ import annotations

import operator
import time
from datetime import timedelta
from typing import Any, Final

from fastdist.core.errors import CollectiveArgumentError, CollectiveError

from ...core.folded_frames import folds
from ...instrumentation.time_ranges import clock, time_ranges
from ...tensor.tensor import Tensor
from .arrays import Target, flat, require_readable, require_target, settle
from .caller import caller_line
from .carriers import Message, QueueingCarrier
from .group_base import GroupBase
from .transport import Call
from .work import Work, finished

_MOST_TAG: Final = (1 << 63) - 1


class Messages(GroupBase):
    """Methods that send and receive; messages of one pair, direction and tag are ordered."""

    @folds
    def send(self, tensors: Any, dst: int, tag: int = 0, *, is_async: bool = True) -> Work:
        """Send a tensor to a member.

        Raises  TypeError, ValueError or RuntimeError if an argument is wrong, immediately;
                CollectiveError (from wait() if is_async) if the receiver is lost, did not call in
                time, or expects another dtype or size

        Args:
            tensors: A tensor, or a list of one.
            dst: The group rank of the receiver.
            tag: A number that the receiver must give as well; it distinguishes messages.
            is_async: Whether to return before the tensor is sent.

        Returns:
            A Work; its wait() returns when the tensor may be changed.
        """
        (tensor,) = [tensors] if isinstance(tensors, Tensor) else tensors
        require_readable("send", "tensor", tensor)
        self._require_other("send", dst)
        tag = _checked_tag("send", tag)
        direction = ("send", dst, tag)
        transport, line, seconds = self._transport(tensor), caller_line(), self._seconds()
        if isinstance(transport, QueueingCarrier):
            return self._start_message(transport, tensor, dst, line, is_async=is_async)
        settle(tensor)

        def job(_: int) -> None:
            number = self._next_message(direction)
            call = Call(number, "send", _agreed(tensor), line, time.monotonic() + seconds)
            start_ns = clock() if time_ranges.on else 0
            transport.send(call, flat(tensor), dst, tag)
            if start_ns:
                self._note_time("send", start_ns, [tensor])

        if is_async:
            return self._pair(direction).start(job, Work([tensor]))
        self._pair(direction).run(job)
        return finished([tensor])

    @folds
    def recv(self, tensors: Any, src: int | None, tag: int = 0, *, is_async: bool = True) -> Work:
        """Fill a tensor with the next message of a member.

        Raises  TypeError, ValueError or RuntimeError if an argument is wrong, immediately;
                CollectiveError if a sender is lost, did not call in time, or uses another dtype or
                size: from wait() if is_async

        Args:
            tensors: A tensor, or a list of one; written.
            src: The group rank of the sender; None receives from any member.
            tag: The tag of the sender's call.
            is_async: Whether to return before the tensor is filled.

        Returns:
            A Work; its wait() returns when the tensor may be read.
        """
        (tensor,) = [tensors] if isinstance(tensors, Tensor) else tensors
        require_target("recv", "tensor", tensor)
        if src is not None:
            self._require_other("recv", src)
        tag = _checked_tag("recv", tag)
        direction = ("recv", src, tag)
        transport, line, seconds = self._transport(tensor), caller_line(), self._seconds()
        if isinstance(transport, QueueingCarrier):
            return self._start_message(
                transport, tensor, src, line, is_async=is_async, is_send=False
            )
        settle(tensor)
        work = Work([tensor])

        def job(_: int) -> None:
            number = -1 if src is None else self._next_message(direction)
            call = Call(number, "send", _agreed(tensor), line, time.monotonic() + seconds)
            target = Target(tensor, reads=False)
            start_ns = clock() if time_ranges.on else 0
            sender = transport.recv(call, target._array, src, tag)
            if src is None:
                self._next_message(("recv", sender, tag))
            target.done()
            if start_ns:
                self._note_time("recvAnySource" if src is None else "recv", start_ns, [tensor])
            work._source = self._ranks[sender]

        if is_async:
            return self._pair(direction).start(job, work)
        self._pair(direction).run(job)
        work._finish()
        return work

    @folds
    def recv_anysource(self, tensors: Any, tag: int = 0) -> Work:
        """Fill a tensor with the next message of any member; see recv.

        Raises  TypeError, ValueError or RuntimeError if an argument is wrong, immediately;
                CollectiveError if a sender is lost, did not call in time, or uses another dtype or
                size: from wait()

        Args:
            tensors: A tensor, or a list of one; written.
            tag: The tag of the sender's call.

        Returns:
            A Work; its source_rank() is the global rank of the sender.
        """
        return self.recv(tensors, None, tag)

    def _start_message(
        self,
        carrier: QueueingCarrier,
        tensor: Tensor,
        peer: int | None,
        line: str,
        *,
        is_async: bool,
        is_send: bool = True,
    ) -> Work:
        """Queue a send or a receive on a GPU."""
        if peer is None:
            raise CollectiveError(
                f"recv, called at {line}: Backend nccl does not support receiving from any source; "
                "name the sender with src="
            )
        name = "send" if is_send else "recv"
        call = Call(0, name, _agreed(tensor), line, time.monotonic() + self._seconds())
        message = Message(is_send, tensor, peer)
        return carrier.start_message(call, message, is_async=is_async)

    def _start_batch(self, messages: Any) -> Work | None:
        """Queue entries (is_send, tensor, peer) together; return None for tensors on the CPU."""
        carrier = self._transport(messages[0][1])
        if not isinstance(carrier, QueueingCarrier):
            return None
        for is_send, tensor, peer in messages:
            what = "isend" if is_send else "irecv"
            (require_readable if is_send else require_target)(what, "tensor", tensor)
            self._require_other(what, peer)
        call = Call(
            0,
            "batch_isend_irecv",
            f"{len(messages)} messages",
            caller_line(),
            time.monotonic() + self._seconds(),
        )
        return carrier.start_batch(call, [Message(*one) for one in messages])

    def _seconds(self, timeout: timedelta | None = None) -> float:
        return (timeout or self._timeout).total_seconds()

    def _require_other(self, what: str, rank: int) -> None:
        if not 0 <= rank < self._size:
            raise ValueError(
                f"{what}: invalid rank {rank}; the group has ranks 0 to {self._size - 1}"
            )
        if rank == self._rank:
            kind = "destination" if what.endswith("send") else "source"
            raise ValueError(
                f"Invalid {kind} rank: {kind} rank should not be the same as the rank of the "
                "current process."
            )


def _checked_tag(what: str, tag: Any) -> int:
    """Check a tag before anything is sent, and return it as an int.

    Raises  TypeError if the tag is not an integer; CollectiveArgumentError if the tag is negative,
            or has more than 63 bits
    """
    try:
        number = operator.index(tag)
    except TypeError:
        raise TypeError(f"{what}: tag is {tag!r}; expected an integer") from None
    if number < 0:
        raise CollectiveArgumentError(f"{what}: Tag must be nonnegative, got {number}")
    if number > _MOST_TAG:
        raise CollectiveArgumentError(f"{what}: tag {number} is larger than {_MOST_TAG}")
    return number


def _agreed(tensor: Tensor) -> str:
    return f"{tensor._layout.dtype.name}, {tensor._layout.numel} numbers"

"""Ends a context or a level on all workers that have it; it has the same id on all of them."""

# Note [Notices of ends]
# A worker that has sent a context or a level to other workers notifies these workers when the
# context or level ends, and each of them forwards the notice. A notice is lost if its sender is
# lost. So a worker that loses a peer ends all contexts and levels that the peer owned. The worker
# also queries all other owners about ended contexts and levels, and from then on these owners
# send it the notices directly.

from __future__ import annotations

import functools
import logging
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from fastdist.system.foreign_text import one_line

from ...core.errors import MessageError, RpcNotRunningError
from ..rpc.agent import get_current_agent, is_current_agent_set
from ..rpc.handlers import Reply
from ..rpc.message.ids import id_text
from ..rpc.message.message import Message
from ..rpc.message.metadata import Value
from ..rpc.message.metadata_fields import numbers
from ..rpc.message.types import MessageType
from ..rpc.workers.worker import Worker

_logger = logging.getLogger(__name__)

_KIND: Final = MessageType.CLEANUP_AUTOGRAD_CONTEXT_REQ
_RETRIES: Final = 20
# Marks a query: the sender has the contexts or levels with these ids, and asks which have ended.
_HELD: Final = "held"


class EndsEverywhere(ABC):
    """All contexts or levels of this worker; `ids` is the message field that has their ids.

    Thread  any
    """

    what: str
    ids: str
    # The text and the level of the log entry for a worker that could not be notified.
    failure: str
    level = logging.INFO

    @abstractmethod
    def end(self, number: int, notified_by: Worker | None = None) -> None:
        """End the context or level with this id if it exists, and notify the workers to which this
        worker has sent it, except notified_by.
        """

    @abstractmethod
    def open_to(self, numbers: Sequence[int], worker: Worker) -> Collection[int]:
        """Return which of the ids are open here; `worker` will be notified when these end."""

    @abstractmethod
    def held(self) -> Mapping[Worker, list[int]]:
        """Return the ids that belong to other workers and exist here, by owner."""

    def tell_end(self, workers: Collection[Worker], number: int) -> None:
        """Queue a notice to workers that the context or level has ended.

        Never raises: a worker that gets no notice ends the context or level when it loses the
        owner.
        """
        if not workers:
            return
        try:
            notice_sender = get_current_agent().notice_sender
        except RpcNotRunningError:
            text = "no RPC agent: %s %s is not released on workers %s"
            _logger.info(text, self.what, id_text(number), sorted(one.id for one in workers))
            return
        for worker in workers:
            notice_sender.enqueue(self._tell, worker, number)

    def wait_if_notices_are_late(self) -> None:
        """Let the thread that sends notices catch up: the receivers keep values until then."""
        if is_current_agent_set():
            get_current_agent().notice_sender.wait_if_late()

    def _tell(self, worker: Worker, over: Sequence[int]) -> None:
        metadata: dict[str, Value] = {self.ids: [*over]}
        get_current_agent().notice_sender.send(
            *(worker, _KIND, metadata), failure=self.failure, level=self.level, retries=_RETRIES
        )

    def handle_end(self, request: Message) -> Reply | None:
        """End the ids in a notice, or reply to a query with those ids that have ended."""
        sender = request.peer
        named = numbers(request.metadata, self.ids, sender.id)
        if _HELD in request.metadata:
            still = self.open_to(named, sender)
            return Reply([], {"over": [number for number in named if number not in still]})
        for number in named:
            self.end(number, sender)
        return None

    def worker_lost(self, worker: Worker) -> None:
        """End all contexts or levels that a lost worker owned, and query each other owner which of
        the owner's ids have ended.
        """
        for number in self.held().get(worker, ()):
            self.end(number)
        for owner, ids in self.held().items() if is_current_agent_set() else ():
            metadata: dict[str, Value] = {self.ids: [*ids], _HELD: True}
            get_current_agent().notice_sender.send(
                *(owner, _KIND, metadata),
                failure=f"could not query which {self.what}s have ended",
                then=functools.partial(self._read, owner),
            )

    def _read(self, owner: Worker, reply: Reply) -> None:
        try:
            over = numbers(reply.metadata, "over", owner.id)
        except MessageError as error:
            text = "cannot read the reply of worker %d about its %ss: %s"
            _logger.warning(text, owner.id, self.what, one_line(error))
            return
        for number in over:
            self.end(number, owner)

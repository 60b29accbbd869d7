"""How what several workers know by one id, a context or a level, ends at all of them."""

# Note [Notices of ends]
# A worker that has taken a context or a level to other workers notifies them of its end, and each
# of them passes the notice on. A worker may be lost together with such a notice. So a worker that
# loses a peer queries the owners of all that it holds about what has ended, and is notified of the
# other ends from then on; all that the lost worker owned ends at once.

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
# Marks ids of a message as not over: the sender holds them, and queries which have ended.
_HELD: Final = "held"


class EndsEverywhere(ABC):
    """All that this worker knows of one kind: `what` it is called, and in messages `ids`.

    Thread  any
    """

    what: str
    ids: str
    # The log line for workers that could not be notified, and its level.
    failure: str
    level = logging.INFO

    @abstractmethod
    def end(self, number: int, notified_by: Worker | None = None) -> None:
        """End one here, if it exists, and notify all that this worker notified of it, except
        notified_by.
        """

    @abstractmethod
    def open_to(self, numbers: Sequence[int], worker: Worker) -> Collection[int]:
        """Return which of this worker's are open; the other worker is notified when these end."""

    @abstractmethod
    def held(self) -> Mapping[Worker, list[int]]:
        """Return those of other workers that are known here, by owner."""

    def tell_end(self, workers: Collection[Worker], number: int) -> None:
        """Let workers hear soon that one is over.

        Never raises: where a message does not arrive, the lease on the owner's life does the rest.
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

    def _tell(self, worker: Worker, over: Sequence[int]) -> None:
        metadata: dict[str, Value] = {self.ids: [*over]}
        get_current_agent().notice_sender.send(
            *(worker, _KIND, metadata), failure=self.failure, level=self.level, retries=_RETRIES
        )

    def handle_end(self, request: Message) -> Reply | None:
        """End what is over, or reply with the ended ones among those that the sender holds."""
        sender = request.peer
        named = numbers(request.metadata, self.ids, sender.id)
        if _HELD in request.metadata:
            still = self.open_to(named, sender)
            return Reply([], {"over": [number for number in named if number not in still]})
        for number in named:
            self.end(number, sender)
        return None

    def worker_lost(self, worker: Worker) -> None:
        """End what a lost worker owned, and ask the other owners which of theirs are over."""
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

"""Two processes that say they are one worker: how the one that works hears of the other."""

from __future__ import annotations

import logging
import time
from typing import Final

from fastdist.core.errors import FastdistError, RankTakenError, StoreError
from fastdist.distributed.pipe.context import Context
from fastdist.distributed.pipe.lane import LaneClosed, LaneInDoubt, LaneTimeout
from fastdist.distributed.sockets import Doorbell
from fastdist.distributed.store import Store

from ..message.message import Message
from ..message.types import MessageType
from .record import Record

# The one that works answers at once, unless it has ended.
_ANSWERS_S: Final = 1.5
_WHO: Final = "twin"
# Of what the other says of itself.
_MOST_LETTERS: Final = 500

_logger = logging.getLogger(__name__)


def make_known(context: Context, store: Store, me: Record, taken: RankTakenError) -> RankTakenError:
    """Tell who works as this worker's rank, and the store's host, of this one; return its error.

    Note    who still waits for the group hears it from the store
    """
    first, second = map(Record.decode, taken.claims)
    if second.incarnation != me.incarnation:
        return taken  # this one came first, or is a third
    try:
        store.ask_at_the_door(
            f"a second worker that says it is rank {me.rank} was refused: {me.whereabouts}; the "
            f"first is {first.whereabouts}"
        )
    except StoreError as error:
        _logger.info("the store's host could not be told of a second rank %d: %s", me.rank, error)
    what = "has been told of this one" if answers(context, me, first) else "does not answer"
    return RankTakenError(f"{taken}; the first {what}", taken.claims)


def answers(context: Context, me: Record, first: Record) -> bool:
    """Greet the other as what this one says it is; return whether it has answered."""
    greeting = Message(
        MessageType.HELLO,
        source=me.rank,
        incarnation=me.incarnation,
        metadata={"to": f"{first.incarnation:x}", _WHO: me.whereabouts},
    )
    deadline = time.monotonic() + _ANSWERS_S
    bell = Doorbell()
    try:
        transport = context.choose(first.addresses, same_host=me.shares_host_with(first))
        address = first.addresses[transport]
        lane = context.connect(transport, address, bell, f"rank:{first.rank}")
        try:
            lane.send(greeting.encode(), deadline)
            lane.receive(deadline)
            return True
        finally:
            lane.close()
    except (FastdistError, OSError, LaneClosed, LaneInDoubt, LaneTimeout):
        return False
    finally:
        bell.close()


def refuse_twin(me: Record, greeting: Message) -> None:
    """Warn of who greets as this very worker, and is another.

    Raises  RankTakenError, which is the answer to the greeting
    """
    if greeting.source != me.rank or greeting.incarnation == me.incarnation:
        return
    who = str(greeting.metadata.get(_WHO, "it did not say who it is"))[:_MOST_LETTERS]
    _logger.warning(
        "a second worker says that it is rank %d, and was refused: %s; this one, %s, goes on",
        *(me.rank, who, me.whereabouts),
    )
    raise RankTakenError(f"rank {me.rank} is that of {me.whereabouts}")

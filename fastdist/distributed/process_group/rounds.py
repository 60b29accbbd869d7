"""Rounds of init_process_group: restarted members meet the other members in a new round."""

# Note [Rounds]
# Each call of init_process_group by a member takes part in one round. Each round uses a separate
# part of the store. The store counts the rounds of each rank, since a restarted process has lost
# its own count. The store also keeps the number of the latest round that any member has begun. A
# call takes part in the round after the member's last one, or in the latest round if that has a
# greater number. For example, a member that was restarted or that gave up a round begins a later
# round, while the others still wait in the earlier one. That round can then never be completed. So
# a member that waits in a round checks from time to time for a later round, and joins it.

from __future__ import annotations

from typing import Final

from fastdist.core.errors import CollectiveLostError, StoreTimeoutError
from fastdist.distributed.store import PrefixStore, Store
from fastdist.distributed.store.answers import Timeout
from fastdist.distributed.store.requests import Op
from fastdist.system.foreign_text import one_line

_LATEST: Final = "process_group.latest"


class RoundStore(PrefixStore):
    """The part of a store that belongs to one round.

    Raises  CollectiveLostError from a wait that times out after another member has begun a later
            round
    """

    def __init__(self, number: int, store: Store) -> None:
        super().__init__(f"process_group.{number}", store)
        self.number = number

    def _ask(self, op: Op, arguments: list[bytes], timeout: Timeout | None = None) -> list[bytes]:
        try:
            return super()._ask(op, arguments, timeout)
        except StoreTimeoutError as late:
            if not self.is_over():
                raise
            _, rank = _latest(self.underlying_store.get(_LATEST))
            raise CollectiveLostError(
                f"rank {rank} does not come: it has begun to make its groups again, after it was "
                "started again or had failed"
            ) from late

    def is_over(self) -> bool:
        """Return whether another member has begun a later round."""
        return _latest(self.underlying_store.get(_LATEST))[0] > self.number


def begin_round(store: Store, rank: int) -> RoundStore:
    """Return the part of the store for this member's next round."""
    counted = f"process_group.inits.{rank}"
    mine = store.add(counted, 1) - 1
    held, wanted = b"", f"{mine} {rank}".encode()
    while True:
        found = store.compare_set(_LATEST, held, wanted)
        number, _ = _latest(found)
        if number >= mine:
            break
        held = found
    if number > mine:
        store.add(counted, number - mine)
    return RoundStore(number, store)


def _latest(text: bytes) -> tuple[int, int]:
    """Return the number of the latest round, and the rank that began it."""
    number, _, rank = text.partition(b" ")
    if not (number.isdigit() and rank.isdigit()):
        raise CollectiveLostError(f"{_LATEST} of the store is {one_line(text)}")
    return int(number), int(rank)

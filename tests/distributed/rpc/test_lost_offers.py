"""What becomes of an offer of memory whose owner is lost while it is looked into."""

from __future__ import annotations

from typing import Any

from fastdist.distributed.pipe.channels.arena_borrower import GONE, borrow
from fastdist.distributed.pipe.context import Context
from fastdist.distributed.rpc.arena_offers import ArenaOffers
from fastdist.distributed.rpc.membership import Membership, Record
from fastdist.distributed.store import HashStore
from tests.distributed.pipe.arena_of_both import SIZE, Both


class AllAreLost:
    """An agent for which every other worker is lost."""

    def is_dead(self, worker_id: int) -> bool:
        return True


def test_memory_that_is_offered_by_a_worker_lost_meanwhile_is_given_back() -> None:
    # By the time the offer is looked into, what was lost with the worker has been settled.
    both = Both()
    me, other = (Record(f"w{rank}", rank, 2, 100, {}, {}, "none") for rank in range(2))
    members: Any = Membership(HashStore(), me, [me, other])
    offers: Any = ArenaOffers(AllAreLost(), members, {}, None, Context())  # type: ignore[arg-type]
    block = both.lend(b"proof" * 7, peer=offers)
    try:
        proof = offers._try(other, both.arena.id, both.arena.fd, SIZE, block)
        assert proof.startswith(b"proof") and offers._borrowed == {}
        assert borrow(block, 5) is GONE
    finally:
        both.arena.close()

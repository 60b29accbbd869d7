"""Offers of memory whose owner is lost while the offer is checked."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fastdist.distributed.arena.borrower import REVOKED, borrow
from fastdist.distributed.rpc.arena_offers import ArenaOffers
from fastdist.distributed.rpc.workers.record import Record
from tests.distributed.arena.arena_of_both import SIZE, Both
from tests.distributed.rpc.workers.by_hand import caller_of


def record(rank: int) -> Record:
    return Record(f"w{rank}", rank, 2, 100 + rank, {}, {}, "none")


@pytest.mark.parametrize("who_has_ended", ["its owner", "this worker"])
def test_memory_that_is_offered_when_either_end_has_ended_is_given_back(who_has_ended: str) -> None:
    # The loss was handled before the offer is checked, so the check must return the memory.
    both = Both()
    other, here = caller_of(record(1)), SimpleNamespace(me=record(0))
    other.is_dead = who_has_ended == "its owner"
    offers: Any = ArenaOffers(here, is_wanted=True, by_ipc=True)  # type: ignore[arg-type]
    block = both.lend(b"proof" * 7, peer=offers)
    if who_has_ended == "this worker":
        offers.close()
    try:
        proof = offers._try(other, both.arena.id, both.arena.fd, SIZE, block)
        assert proof.startswith(b"proof") and not offers._borrowed
        assert borrow(block, 5) is REVOKED
    finally:
        both.arena.close()


def test_what_a_lost_worker_holds_is_looked_at_again_though_a_look_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    later: list[Any] = []
    workers = SimpleNamespace(call_after=lambda seconds, function: later.append(function))
    here: Any = SimpleNamespace(me=record(0), workers=workers)
    offers = ArenaOffers(here, is_wanted=True, by_ipc=False)
    looks = [OSError("/proc is not there now"), True, False]

    def end_all(lender: object, *, is_gone: bool) -> bool:
        look = looks.pop(0)
        if isinstance(look, OSError):
            raise look
        return bool(look)

    arena: Any = SimpleNamespace(end_all=end_all)
    lender: Any = object()
    with pytest.raises(OSError, match="not there"):  # the pool logs this error
        offers._end_in_time(arena, lender, record(1))
    while later:
        later.pop()()
    assert looks == []

"""Whether an earlier life of a worker is over, for another that wants its rank and its name."""

# A process that is there, or a host that takes connections at the address, is a worker that lives,
# however long its Python may be busy: who comes by mistake as a second one must not take the place
# of one that works. Where nothing answers, the host may be gone or the network be down; then the
# members would give the worker up after frozen_s, and so does this.
#
# One that is frozen is there, too. It keeps its place until a member has given it up, which says so
# in the store, and then as long as it answers: who gave it up may have been cut off itself. If it
# wakes once another has its place, the members tell it that it was given up.

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from fastdist.core.errors import RpcError, StoreTimeoutError
from fastdist.distributed.pipe.host import process_lives
from fastdist.distributed.sockets import knock
from fastdist.distributed.store import PrefixStore, Store
from fastdist.distributed.store.waiting_line import WaitingLine

from .group import GIVEN_UP
from .record import Record

_TRY_AGAIN_S: Final = 1.0

_logger = logging.getLogger(__name__)


def leaves_its_place(
    store: Store,
    earlier: Record,
    me: Record,
    frozen_s: float,
    answers: Callable[[Record], bool],
) -> bool:
    """Return whether an earlier life is over, or was given up by a member and does not answer.

    `answers` greets it. One that lives and does not answer is waited for, for as long as the store
    is: it may answer yet, end, or be given up.

    Raises  StoreError; RpcError for an address that is none
    """
    given_up = PrefixStore(GIVEN_UP, store)
    with WaitingLine(f"{me.name!r} (rank {me.rank})", store.timeout.total_seconds()) as line:
        while not is_over(earlier, me, frozen_s):
            if answers(earlier):
                return False
            if given_up.check([str(earlier.incarnation)]):
                _logger.warning("%s was given up by the others", earlier.whereabouts)
                return True
            if line.is_over:
                return False
            line.tell_now_and_again(f"the others to give up {earlier.whereabouts}")
            with suppress(StoreTimeoutError):
                given_up.wait([str(earlier.incarnation)], _TRY_AGAIN_S)
    return True


def is_over(earlier: Record, me: Record, frozen_s: float) -> bool:
    """Return whether an earlier life has ended, or has given no sign of life for frozen_s.

    Thread  waits: not at all where the process table tells, a round trip where its host answers
    Raises  RpcError for an address that is none
    """
    if me.shares_processes_with(earlier):
        return not process_lives(earlier.pid, earlier.process_start)
    address = earlier.addresses.get("uv")
    if address is None:
        return False  # it can only be asked by who shares its processes
    until = time.monotonic() + frozen_s
    while True:
        try:
            answer = knock(address, min(until, time.monotonic() + _TRY_AGAIN_S))
        except (ValueError, OverflowError) as error:
            raise RpcError(f"a worker's address in the store is none: {address[:80]!r}") from error
        if answer is not None:
            return not answer
        if time.monotonic() >= until:
            _logger.warning(
                "%s has given no sign of life for %g s, and is taken for ended",
                *(earlier.whereabouts, frozen_s),
            )
            return True

"""The group as its store knows it: who is in it, who has left, who has come to its shutdown."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from typing import Final

from fastdist.core.errors import RpcError, StoreError
from fastdist.distributed.store import PrefixStore, Store

from . import group_log
from .group_log import view
from .record import Record
from .worker import Worker

TELL_S: Final = 1.0  # how long the store is waited for where it need not answer
# And where somebody wants to call a worker, or to let others know of its loss.
LOOK_S: Final = 5.0
# Under this the members say whom they gave up, by incarnation: see joining.py.
GIVEN_UP: Final = "given_up"
# What no key holds: to expect it of one reads it, and does not wait where a member has just left.
_ABSENT: Final = b"\0absent"

_logger = logging.getLogger(__name__)


class Group:
    """What a worker reads and writes in the store of its group.

    A static group has its `founders`, one of each rank. With restarts, a founder that was lost may
    be followed by another life of its rank; in a dynamic group members come and go.

    Thread  any
    """

    def __init__(
        self, store: Store, me: Record, founders: Sequence[Record] = (), *, restarts: bool = False
    ) -> None:
        self.me = me
        self.is_static = me.world_size > 0
        # Whether another life may have a rank, or a member come, after this worker has.
        self.may_change = not self.is_static or restarts
        self.founders = tuple(founders)
        # The members as they were when they were last read.
        self.latest = list(founders)
        # Whether this worker follows an earlier life in a group that had met.
        self.came_back = self.is_static and me not in founders
        self._store = store

    def read(self, timeout_s: float | None = None) -> list[Record]:
        """Return the members that are in it now.

        Units   timeout_s for the store in seconds; None is its own
        Raises  StoreError; RpcError for what none of ours wrote
        """
        if not self.may_change:
            return list(self.founders)
        self.latest = read_members(self._store, self.founders, timeout_s)
        return list(self.latest)

    def publish(self) -> None:
        """Tell name and addresses of this worker under torch's keys."""
        PrefixStore("names", self._store).set(str(self.me.rank), self.me.name)
        addresses = json.dumps(self.me.addresses)
        PrefixStore("addrs", self._store).set(self.me.name, addresses)

    def leave(self) -> None:
        """Take this worker out of a dynamic group; a store that does not answer is not waited for.

        Note    another one may have the rank by now, if this worker was given up: its entries stay
        Raises  StoreError
        """
        if self.is_static:
            return
        present = group_log.read_present(self._store, timeout_s=TELL_S)
        if self.me.incarnation in {entry.incarnation for entry in present}:
            # Before the rank and the name are free: after it, these may be another's.
            for prefix, key in (("names", str(self.me.rank)), ("addrs", self.me.name)):
                view(prefix, self._store, TELL_S).delete_key(key)
        withdraw(self._store, self.me.incarnation)

    def strike_out(self, gone: Record) -> None:
        """Take a member out of a dynamic group whose end is certain: it cannot do so itself.

        Never raises: another one may, and who wants its name asks after it (joining.py).
        """
        if self.is_static:
            return
        try:
            present = group_log.read_present(self._store, timeout_s=TELL_S)
            if gone.incarnation in {entry.incarnation for entry in present}:
                withdraw(self._store, gone.incarnation, was_lost=True)
        except StoreError as error:
            _logger.info("worker %r could not be taken out of the group: %s", gone.name, error)

    def tell_given_up(self, gone: Record, why: str) -> None:
        """Note in the store that this worker has given up a member, which may live.

        Never raises: another one may, and a member that has ended is found to have.
        """
        try:
            given_up = view(GIVEN_UP, self._store, LOOK_S)
            given_up.set(str(gone.incarnation), f"by {self.me.name}: {why}")
        except StoreError as error:
            _logger.info("the store could not be told that %r was lost: %s", gone.name, error)

    def tell_shutdown(self) -> None:
        """Note in the store that this worker has come to its shutdown; waits for a second at most.

        Note    the barrier goes by messages; this tells who has come where its leader cannot
        """
        try:
            self._shutdown_store().set(str(self.me.rank), self.me.name)
        except StoreError as error:
            _logger.info("the store could not be told of the shutdown: %s", error)

    def not_in_shutdown(self, members: Iterable[Worker]) -> list[Worker]:
        """Return the members that have not come to their shutdown, as far as can be told."""
        store = self._shutdown_store()
        try:
            return [one for one in members if not store.check([str(one.id)])]
        except StoreError as error:
            _logger.info("the store does not tell who has come to the shutdown: %s", error)
            return []

    def _shutdown_store(self) -> PrefixStore:
        return view("shutdown", self._store, TELL_S)


def withdraw(store: Store, incarnation: int, *, was_lost: bool = False) -> None:
    """Free the name and rank that a worker has claimed, or may have, in a dynamic group.

    Raises  StoreError; a store that does not answer is not waited for
    """
    group_log.leave(store, incarnation, TELL_S, was_lost=was_lost)
    view("members", store, TELL_S).delete_key(str(incarnation))


def write_record(store: Store, record: Record) -> None:
    """Let others find what a worker tells of itself, before its line is in the group's log."""
    PrefixStore("members", store).set(str(record.incarnation), record.encode())


def read_members(
    store: Store, founders: Sequence[Record] = (), timeout_s: float | None = None
) -> list[Record]:
    """Return the founders that are in the group yet, and those who entered later and are.

    Units   timeout_s in seconds, for each question to the store; None is the store's own
    Raises  StoreError; RpcError for what none of ours wrote
    """
    known = {record.incarnation: record for record in founders}
    entries = [group_log.Entry(one.incarnation, one.rank, one.name) for one in founders]
    members = view("members", store, timeout_s)
    found: list[Record] = []
    for one in group_log.read_present(store, entries, timeout_s):
        record = known.get(one.incarnation)
        if record is None:
            written = members.compare_set(str(one.incarnation), _ABSENT, _ABSENT)
            if written == _ABSENT:
                continue  # it has just left
            record = Record.decode(written)
            if (record.incarnation, record.rank, record.name) != one:
                raise RpcError(f"the store holds {record.whereabouts}, as the record of {one}")
        found.append(record)
    return found

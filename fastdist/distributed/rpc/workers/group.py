"""The group as its store knows it: who is in it, who has left, who has come to its shutdown."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from fastdist.core.errors import RpcError, StoreError, StoreTimeoutError
from fastdist.distributed.restarts import DECLARED_LOST, ENDED, NO_RESTARTS
from fastdist.distributed.store import PrefixStore, Store
from fastdist.distributed.store.environment import store_is_hosted
from fastdist.distributed.store.wait_log import own_node

from . import group_log
from .group_log import view
from .record import Record
from .worker import Worker

TELL_S: Final = 1.0  # how long the store is waited for where it need not answer
# And where somebody wants to call a worker, or to let others know of its loss.
LOOK_S: Final = 5.0
# Under this the members say whom they gave up, by incarnation: see joining.py.
GIVEN_UP: Final = "given_up"
# And under this why they ended, where that was without rpc.shutdown().
_ENDED: Final = "ended"
# What no key holds: to expect it of one reads it, and does not wait where a member has just left.
_ABSENT: Final = b"\0absent"

_logger = logging.getLogger(__name__)


class Group:
    """What a worker reads and writes in the store of its group.

    In a static group these are its `members`, one of each rank. With restarts, one that was lost
    may be followed by another life of its rank; in a dynamic group members come and go.

    Thread  any; read: one at a time
    """

    def __init__(
        self,
        store: Store,
        me: Record,
        members: Sequence[Record] = (),
        *,
        restarts: bool = False,
        came_back: bool = False,
    ) -> None:
        self.me = me
        self.is_static = me.world_size > 0
        # Whether another life may have a rank, or a member come, after this worker has.
        self.takes_members_later = not self.is_static or restarts
        # As they were when they were last read.
        self.members = list(members)
        self._counted: tuple[list[Record], Counter[str]] = ([], Counter())
        # Whether this worker follows an earlier life that was lost.
        self.came_back = came_back
        # Whether it has come to its shutdown, and the rank that logs for its node what that waits
        # for: this one where no launcher says who is on a node.
        self.is_in_shutdown, self.speaker = False, me.rank
        self._store = store

    def read_members(self, timeout_s: float | None = None) -> list[Record]:
        """Return the members that are in it now.

        Units   timeout_s for the store in seconds; None is its own
        Raises  StoreError; RpcError for what none of ours wrote
        """
        if self.takes_members_later:
            # A store that has another host since may know nothing of the group yet.
            self.members = read_members(self._store, self.members, timeout_s) or self.members
        return list(self.members)

    def num_on_machine(self, member: Record) -> int:
        """Return how many members run on the machine of one, as they were last read; at least 1."""
        counted, by_machine = self._counted
        if counted is not self.members:
            by_machine = Counter(one.boot_id for one in self.members)
            self._counted = (self.members, by_machine)
        return max(1, by_machine[member.boot_id])

    def publish(self) -> None:
        """Tell name and addresses of this worker under torch's keys."""
        PrefixStore("names", self._store).set(str(self.me.rank), self.me.name)
        addresses = json.dumps(self.me.addresses)
        PrefixStore("addrs", self._store).set(self.me.name, addresses)

    def take_out(self, gone: Record, *, was_lost: bool = False) -> None:
        """Take a member out of a dynamic group: this one, which leaves, or one that is surely over,
        which cannot do so itself. A store that does not answer is not waited for.

        Never raises: another one may do it, and who wants its name asks after it (joining.py).

        Note    if this worker was given up another one may have the rank by now, whose entries stay
        """
        if self.is_static:
            return
        try:
            if entry_of(gone) in group_log.read_present(self._store, TELL_S):
                # Before the rank and the name are free: after it, these may be another's.
                for prefix, key in (("names", str(gone.rank)), ("addrs", gone.name)):
                    view(prefix, self._store, TELL_S).delete_key(key)
                count = gone.restart_count
                withdraw(self._store, gone.incarnation, was_lost=was_lost, restart_count=count)
        except StoreError as error:
            _logger.info("could not remove worker %r from the group: %s", gone.name, error)

    def tell_given_up(self, gone: Record, why: str) -> None:
        """Note in the store that this worker has given up a member, which may live.

        Never raises: another one may, and a member that has ended is found to have.
        """
        try:
            given_up = view(GIVEN_UP, self._store, LOOK_S)
            given_up.set(str(gone.incarnation), f"by {self.me.name}: {why}")
            self.report_to_launcher(gone, why)
        except StoreError as error:
            _logger.info("could not report to the store that %r was lost: %s", gone.name, error)

    def report_to_launcher(self, gone: Record, why: str, *, hangs: bool = False) -> None:
        """Let a launcher kill a member that was lost, or that hangs, and start it again.

        Never raises: then nobody starts it again.
        """
        if not (self.takes_members_later and store_is_hosted()):
            return
        mine = (
            self.me.incarnation,
            gone.incarnation,
            gone.rank,
            gone.pid,
            self.me.name,
            why,
            hangs,
        )
        try:
            root_of(self._store).append(DECLARED_LOST, json.dumps(mine) + "\n")
        except StoreError as error:
            _logger.info("could not report to the launcher that %r was lost: %s", gone.name, error)

    def never_start_again(self, ranks: Sequence[int]) -> set[int]:
        """Return those of these ranks that the launcher will not start again, as far as known.

        That is all once the job ends, else those whose workers have ended with status 0.
        """
        if not store_is_hosted():
            return set()
        root = root_of(self._store)
        try:
            if root.check([NO_RESTARTS]):
                return set(ranks)
            root.wait([f"{ENDED}{rank}" for rank in ranks], 0)
            return set(ranks)
        except StoreTimeoutError as error:
            running = {key.rpartition("/")[2] for key in error.missing}
            return {rank for rank in ranks if str(rank) not in running}
        except StoreError:
            return set()

    def tell_ended(self, why: str) -> None:
        """Note in the store why this worker ends without rpc.shutdown(); no matter if it
        cannot.

        Note    for members that it has not met, which get no goodbye of it
        """
        try:
            view(_ENDED, self._store, TELL_S).set(str(self.me.incarnation), why)
        except StoreError as error:
            _logger.info("could not report the end to the store: %s", error)

    def why_ended(self, incarnation: int) -> str | None:
        """Return the reason that a life has noted for its end without a shutdown; empty if none,
        and None if the store does not answer.
        """
        try:
            ended = view(_ENDED, self._store, TELL_S)
            noted = ended.compare_set(str(incarnation), _ABSENT, _ABSENT)
        except StoreError as error:
            _logger.info("cannot read from the store why a worker has ended: %s", error)
            return None
        return "" if noted == _ABSENT else noted.decode(errors="replace")

    def tell_shutdown(self) -> None:
        """Note in the store that this worker has come to its shutdown; waits for a second at most.

        Note    the barrier goes by messages; this tells who has come where its leader cannot
        """
        self.is_in_shutdown = True
        try:
            store = self._shutdown_store()
            store.set(str(self.me.rank), self.me.name)
            node = own_node(self.me.rank)
            if node is not None:
                # The first of a node to come speaks for it: see Leaving.for_whom_it_waits.
                mine = str(self.me.rank)
                self.speaker = int(store.compare_set(f"node {node}", "", mine) or mine)
        except (StoreError, ValueError) as error:
            _logger.info("could not report the shutdown to the store: %s", error)

    def not_in_shutdown(self, members: Iterable[Worker]) -> list[Worker]:
        """Return the members that have not come to their shutdown, as far as can be told."""
        all_members = list(members)
        try:
            # One question: all who wait ask, of all, and one of each would be n * n.
            self._shutdown_store().wait([str(one.id) for one in all_members], 0)
        except StoreTimeoutError as error:
            absent = {key.rpartition("/")[2] for key in error.missing}
            return [one for one in all_members if str(one.id) in absent]
        except StoreError as error:
            _logger.info("cannot read from the store which workers are in shutdown(): %s", error)
        return []

    def _shutdown_store(self) -> PrefixStore:
        return view("shutdown", self._store, TELL_S)


def root_of(store: Store) -> Store:
    """Return the store whose keys have no prefix."""
    while isinstance(store, PrefixStore):
        store = store.underlying_store
    return store


def withdraw(
    store: Store, incarnation: int, *, was_lost: bool = False, restart_count: int = 0
) -> None:
    """Free the name and rank that a worker has claimed, or may have, in a dynamic group.

    Raises  StoreError; a store that does not answer is not waited for
    """
    group_log.leave(store, incarnation, TELL_S, was_lost=was_lost, restart_count=restart_count)
    view("members", store, TELL_S).delete_key(str(incarnation))


def take_place(
    store: Store, me: Record, over: group_log.Entry | None = None, restart_count: int = 0
) -> group_log.Entry | None:
    """Enter as group_log.enter does; what a life that is over has told of itself goes."""
    other = group_log.enter(store, entry_of(me), over, restart_count)
    if over is not None:
        view("members", store, TELL_S).delete_key(str(over.incarnation))
    return other


def entry_of(record: Record) -> group_log.Entry:
    """Return what the group's log tells of a life."""
    return group_log.Entry(record.incarnation, record.rank, record.name)


def write_record(store: Store, record: Record) -> None:
    """Let others find what a worker tells of itself, before its line is in the group's log."""
    PrefixStore("members", store).set(str(record.incarnation), record.encode())


def read_members(
    store: Store, known: Iterable[Record] = (), timeout_s: float | None = None
) -> list[Record]:
    """Return those who entered the group, and have not left; what is known is not read again.

    Units   timeout_s in seconds, for each question to the store; None is the store's own
    Raises  StoreError; RpcError for what none of ours wrote
    """
    records = {entry_of(one): one for one in known}
    members = view("members", store, timeout_s)
    found: list[Record] = []
    for one in group_log.read_present(store, timeout_s):
        if one not in records:
            written = members.compare_set(str(one.incarnation), _ABSENT, _ABSENT)
            if written == _ABSENT:
                continue  # it has just left
            records[one] = record = Record.decode(written)
            if entry_of(record) != one:
                raise RpcError(f"the store holds {record.whereabouts}, as the record of {one}")
        found.append(records[one])
    return found

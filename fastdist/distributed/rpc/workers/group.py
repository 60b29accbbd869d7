"""A group's entries in the store: its members, and their reports of leaving and of shutdown."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Sequence
from typing import Final

from fastdist.core.errors import StoreError, StoreTimeoutError
from fastdist.distributed.restarts import DECLARED_LOST, ENDED, NO_RESTARTS
from fastdist.distributed.sockets.liveness_timeouts import crowding
from fastdist.distributed.store import PrefixStore, Store
from fastdist.distributed.store.environment import store_is_hosted
from fastdist.distributed.store.wait_log import own_node

from .directory import StoreDirectory, machine_label, view
from .record import Record

TELL_S: Final = 1.0  # the timeout of requests to the store whose answers are optional
# The timeout of requests to the store when a user calls a worker, or a loss is reported.
LOOK_S: Final = 5.0
# The key prefix under which members record incarnations that they gave up: see joining.py.
GIVEN_UP: Final = "given_up"
# The key prefix for the reasons of ends without rpc.shutdown().
_ENDED: Final = "ended"
_SHUTDOWN: Final = b"shutdown"
# A value that no key holds. A compare_set that expects this value only reads the key. Unlike get,
# compare_set does not wait for a missing key.
_ABSENT: Final = b"\0absent"

_logger = logging.getLogger(__name__)


class Group:
    """The store's entries of a worker's group, which the worker reads and writes.

    A static group has one member for each rank. With restarts, a lost member may be followed by
    another life of its rank. In a dynamic group members come and go. `members` are the members that
    this worker knows: all members if `knows_all` (see Note [Who is looked up when]).

    Thread  any; find and read_members by one thread at a time
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
        # Whether members, or new lives of a rank, may join after this worker.
        self.takes_members_later = not self.is_static or restarts
        self.knows_all = len(members) == me.world_size > 0
        self._known = {one.rank: one for one in members}
        # Whether any member has device maps.
        self.has_maps = any(one.device_maps for one in members)
        # The number of members on each machine, by the machine's label.
        self._on_machine = Counter(map(machine_label, members))
        # The revision up to which this worker has read the group's changes; 0 before the first
        # read.
        self._revision = 0
        # Whether this worker follows an earlier life that was lost.
        self.came_back = came_back
        # `is_in_shutdown`: whether this worker has called shutdown. `speaker`: the rank of the one
        # worker on this machine that logs for which workers the shutdown waits.
        self.is_in_shutdown, self.speaker = False, me.rank
        self._store = store

    @property
    def members(self) -> list[Record]:
        """The members that this worker has read so far, in the order of their ranks."""
        return [self._known[rank] for rank in sorted(self._known)]

    def read_members(self, timeout_s: float | None = None) -> list[Record]:
        """Return all present members; only changes since the last call are read.

        Units   timeout_s for the store in seconds; None takes the store's own timeout
        Raises  StoreError; RpcError for an invalid entry
        """
        if self.knows_all and not self.takes_members_later:
            return self.members
        changes = StoreDirectory(self._store, timeout_s).changes(self._revision)
        known = {} if changes.is_whole else dict(self._known)
        for rank in [rank for rank, one in known.items() if one.incarnation in changes.ended]:
            del known[rank]
        known.update((one.rank, one) for one in changes.came)
        if known:
            # An answer without members comes from a store on a new host, which does not have the
            # group yet: such an answer is ignored.
            self._revision, self.knows_all = changes.revision, True
            self._known, self._on_machine = known, Counter(map(machine_label, known.values()))
        return self.members

    def find(self, key: int | str, timeout_s: float | None = None) -> Record | None:
        """Return the present member with a rank or a name, or None.

        Raises  the errors of read_members
        """
        if self.knows_all and not self.takes_members_later:
            return next((one for one in self._known.values() if key in (one.rank, one.name)), None)
        if timeout_s is not None:
            # A crowded machine slows the store down, and a timeout would look like a missing
            # worker. So the timeout grows with the number of members on the machine.
            timeout_s *= crowding(self.num_on_machine(self.me))
        directory = StoreDirectory(self._store, timeout_s)
        (found,) = directory.find([key])
        if found is not None:
            self.note(found, directory)
        return found

    def note(self, member: Record, directory: StoreDirectory) -> None:
        """Add a member, and count the members on its machine."""
        self._known[member.rank] = member
        for one in (member, self.me):
            label = machine_label(one)
            if label not in self._on_machine:
                self._on_machine[label] = directory.count(label)

    def set_on_machine(self, count: int) -> None:
        """Set the number of members on this worker's machine."""
        self._on_machine[machine_label(self.me)] = count

    def num_on_machine(self, member: Record) -> int:
        """Return how many members ran on a member's machine at the last read; at least 1."""
        return max(1, self._on_machine.get(machine_label(member), 1))

    def publish(self) -> None:
        """Write the name and the addresses of this worker under the keys that torch uses."""
        keys = [f"names/{self.me.rank}", f"addrs/{self.me.name}"]
        self._store.multi_set(keys, [self.me.name, json.dumps(self.me.addresses)])

    def take_out(self, gone: Record, *, was_lost: bool = False) -> None:
        """Remove a member from a dynamic group.

        The member is this worker, which leaves, or a member that has certainly ended. Each request
        waits for the store for at most TELL_S.

        Never raises. If the removal fails, another member may remove the member; and a worker that
        wants the same name checks whether the member has ended (joining.py).

        Note    if this worker was given up, another worker may have taken its rank by now; the
                entries of that worker stay
        """
        if self.is_static:
            return
        directory = StoreDirectory(self._store, TELL_S)
        try:
            (present,) = directory.find([gone.rank])
            if present is not None and present.incarnation == gone.incarnation:
                # Delete these keys before the rank and name become free. Afterwards a new worker
                # with this rank or name may write them.
                for prefix, key in (("names", str(gone.rank)), ("addrs", gone.name)):
                    view(prefix, self._store, TELL_S).delete_key(key)
                if was_lost:
                    directory.declare_lost(present)
                else:
                    directory.leave(present)
        except StoreError as error:
            _logger.info("could not remove worker %r from the group: %s", gone.name, error)

    def tell_given_up(self, gone: Record, why: str) -> None:
        """Record in the store that this worker has given up a member, which may still live.

        Never raises: another member may record the same, and if the member has ended, the record is
        not needed.
        """
        try:
            given_up = view(GIVEN_UP, self._store, LOOK_S)
            given_up.set(str(gone.incarnation), f"by {self.me.name}: {why}")
            self.report_to_launcher(gone, why)
        except StoreError as error:
            _logger.info("could not report to the store that %r was lost: %s", gone.name, error)

    def report_to_launcher(self, gone: Record, why: str, *, hangs: bool = False) -> None:
        """Ask the launcher to kill a member that was lost or hangs, and to start it again.

        Never raises; after an error the member is not started again.
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
        """Return the given ranks that the launcher will not start again, as far as known.

        While the job runs, these are the ranks whose workers ended with status 0. After the job,
        these are all given ranks.
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
        """Write to the store why this worker ends without rpc.shutdown(); errors are ignored.

        Note    for members that get no goodbye, as they have no connection to this worker
        """
        try:
            view(_ENDED, self._store, TELL_S).set(str(self.me.incarnation), why)
        except StoreError as error:
            _logger.info("could not report the end to the store: %s", error)

    def why_ended(self, incarnation: int) -> str | None:
        """Return the reason that a life wrote to the store for its end without a shutdown.

        The text is empty if the life wrote no reason. It is None if the store does not answer.
        """
        try:
            ended = view(_ENDED, self._store, TELL_S)
            noted = ended.compare_set(str(incarnation), _ABSENT, _ABSENT)
        except StoreError as error:
            _logger.info("cannot read from the store why a worker has ended: %s", error)
            return None
        return "" if noted == _ABSENT else noted.decode(errors="replace")

    def tell_shutdown(self) -> None:
        """Record in the store that this worker has called shutdown; waits for a second at most.

        Note    the barrier uses messages, not this entry; the entry shows which workers have called
                shutdown, even if the barrier's leader cannot report them
        """
        self.is_in_shutdown = True
        try:
            StoreDirectory(self._store, TELL_S, _SHUTDOWN).claim(self.me)
            # The first worker in shutdown logs for its machine: see Leaving.for_whom_it_waits.
            node, mine = own_node(self.me.rank), str(self.me.rank)
            where = machine_label(self.me) if node is None else f"node {node}"
            speakers = view("speakers", self._store, TELL_S)
            self.speaker = int(speakers.compare_set(where, "", mine) or mine)
        except (StoreError, ValueError) as error:
            _logger.info("could not report the shutdown to the store: %s", error)

    def not_in_shutdown(self) -> tuple[list[int], int]:
        """Return the first ranks that have not called shutdown, and the number of further ones.

        Both results are empty if the store does not answer.
        """
        try:
            return StoreDirectory(self._store, TELL_S, _SHUTDOWN).missing()
        except StoreError as error:
            _logger.info("cannot read from the store which workers are in shutdown(): %s", error)
        return [], 0


def root_of(store: Store) -> Store:
    """Return the store without any key prefix."""
    while isinstance(store, PrefixStore):
        store = store.underlying_store
    return store

"""The values that this worker owns, and the references to them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

from fastdist.core.errors import RpcError, RpcTimeoutError, WorkerLostError

from ..message.ids import RANK_SHIFT, id_text
from ..workers.latest import remember
from ..workers.record import in_words
from ..workers.worker import Worker
from ..workers.workers import Workers
from .kept import Event, State
from .rref import OwnedValue


class OwnedValues:
    """The values of one owner; a value is removed when nothing refers to it any more.

    Thread  any
    """

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        # Guards the three attributes below. A thread that holds this lock must not drop a value.
        self._lock = threading.RLock()
        self._by_id: dict[int, OwnedValue] = {}
        # Id of each of the latest removed values -> why it was never made, or None if it was made.
        self._dropped: dict[int, str | None] = {}
        # The latest forks whose end was reported before their beginning.
        self._ended_early: dict[int, None] = {}

    def hear_of(self, rref_id: int, life: int = 0, *, for_local: bool = False) -> OwnedValue:
        """Return the record of a value, even if the call that makes it has not arrived yet.

        `life` is the incarnation of the worker that makes the value: the id has only its rank. If
        `life` is 0, the present life of that rank is assumed.
        """
        owned = self._by_id.get(rref_id)
        if owned is not None and (owned.state is not State.AWAITED or not life):
            return self.get_or_create(rref_id, owned.maker, for_local=for_local)
        rank = rref_id >> RANK_SHIFT
        maker = self._workers.find_life(rank, life) if life else self._workers.find(rank)
        owned = self.get_or_create(rref_id, maker, for_local=for_local)
        if life:
            owned.maker = maker  # an earlier request may not have named the life
        return owned

    def get_or_create(
        self, rref_id: int, maker: Worker | None, *, for_local: bool = False
    ) -> OwnedValue:
        """Return the record of a value; an unregistered new record if the value was removed."""
        with self._lock:
            owned = self._by_id.get(rref_id)
            if owned is None:
                owned = OwnedValue(rref_id, maker)
                if rref_id not in self._dropped:
                    self._by_id[rref_id] = owned
            owned.num_local += for_local
        return owned

    def begin(self, rref_id: int, maker: Worker) -> OwnedValue:
        """Return the record of a value whose call has arrived."""
        owned = self.get_or_create(rref_id, maker)
        with self._lock:
            owned.step(Event.CALLED)
        return owned

    def add_user(self, owned: OwnedValue, fork_id: int, holder: Worker) -> None:
        """Count a fork, which keeps the value until the fork or its holder ends."""
        with self._lock:
            # If the fork's end was reported first, its holder has given up the call meanwhile, and
            # the fork is not counted.
            if self._ended_early.pop(fork_id, self) is self:
                owned.users[fork_id] = holder
        # The request may have waited on this worker until the loss of its sender was handled.
        if holder.is_dead:
            self.end_uses([(owned.rref_id, fork_id)])

    def end_uses(self, forks: Sequence[tuple[int, int]]) -> None:
        """Record that forks have ended, given as pairs of value id and fork id."""
        with self._lock:
            for rref_id, fork_id in forks:
                owned = self._by_id.get(rref_id)
                if owned is None or owned.users.pop(fork_id, None) is None:
                    remember(self._ended_early, fork_id)
        for rref_id, _ in forks:
            self.drop_if_unused(rref_id)

    def local_ended(self, _: None, ended: Sequence[OwnedValue]) -> None:
        """Record that RRefs of this worker to its own values have ended."""
        with self._lock:
            for owned in ended:
                owned.num_local -= 1
        for owned in ended:
            self.drop_if_unused(owned.rref_id)

    def complete(
        self, owned: OwnedValue, value: object, error: BaseException | None = None
    ) -> None:
        """Set a value, or the error of the function that should have made it; end all waits."""
        owned.future.try_complete(value, error)
        with self._lock:
            owned.step(Event.MADE)
        if error is not None and owned.maker is not None:
            who = f"of worker {owned.maker.name!r}"
            owned.future.describe_failure(f"a call of rpc.remote() {who} that runs here")
        # The last reference may have ended already.
        self.drop_if_unused(owned.rref_id)

    def _end_wait(self, owned: OwnedValue, error: BaseException) -> None:
        """Set an error for a value that is never made, without a warning if it is not read."""
        self.complete(owned, None, error)
        owned.future.was_read()

    def fail(self, rref_id: int, error: BaseException) -> None:
        """Set an error as the value, if anything refers to the value."""
        with self._lock:
            owned = self._by_id.get(rref_id)
        if owned is not None:
            self._end_wait(owned, error)

    def fail_if_unborn(self, owned: OwnedValue) -> None:
        """End the wait for a value that does not exist and never will."""
        if owned.state not in (State.AWAITED, State.RUNNING):
            return
        if owned.maker is None or owned.maker.is_dead:
            self._fail_unborn(owned)
        elif owned.rref_id in self._dropped:
            # The value was removed. Another worker passed on the reference, and died or gave up
            # before the owner knew of the new reference.
            why_unmade = self._dropped.get(owned.rref_id)
            value = f"the value of RRef {id_text(owned.rref_id)}"
            gone = RpcError(f"{value} is gone: all its other references ended")
            self._end_wait(owned, RpcTimeoutError(why_unmade) if why_unmade else gone)

    def fail_unmade(self, rref_ids: Iterable[int], maker: Worker) -> None:
        """End the wait for values whose remote calls worker `maker` gave up before they ran."""
        for rref_id in rref_ids:
            text = (
                f"worker {self._workers.me.name!r} did not run the remote call of worker "
                f"{maker.name!r} that should have made this value: it was given up before"
            )
            with self._lock:
                owned = self._by_id.get(rref_id)
                if owned is None:
                    remember(self._dropped, rref_id, text)
                must_fail = owned is not None and owned.step(Event.GIVEN_UP)
            if owned is not None and must_fail:
                self._end_wait(owned, RpcTimeoutError(text))

    def drop_if_unused(self, rref_id: int) -> None:
        """Remove a value if it exists and nothing refers to it."""
        with self._lock:
            owned = self._by_id.get(rref_id)
            if owned is None or not owned.leave():
                return
            del self._by_id[rref_id]
            remember(self._dropped, rref_id)
        del owned  # frees the value after the lock is released: its finalizer may run any code

    def maker_lost(self, worker: Worker) -> None:
        """End the wait for values that calls of a lost worker should have made."""
        with self._lock:
            unborn = [owned for owned in self._by_id.values() if owned.maker is worker]
        for owned in unborn:
            self._fail_unborn(owned)

    def end_uses_of(self, worker: Worker) -> None:
        """Remove all forks that a lost worker holds."""
        with self._lock:
            for owned in self._by_id.values():
                for fork_id in [f for f, life in owned.users.items() if life is worker]:
                    del owned.users[fork_id]
            unused = [rref_id for rref_id, owned in self._by_id.items() if not owned.users]
        for rref_id in unused:
            self.drop_if_unused(rref_id)

    def clear(self) -> None:
        """Forget all values."""
        with self._lock:
            gone, self._by_id = self._by_id, {}
        del gone

    def values(self) -> list[OwnedValue]:
        """Return all values."""
        with self._lock:
            return list(self._by_id.values())

    def get_debug_info(self) -> dict[str, str]:
        """Return counts under torch's names."""
        values = self.values()
        return {
            "num_owner_rrefs": str(len(values)),
            "num_pending_futures": str(sum(not owned.future.done() for owned in values)),
            "num_forks": str(sum(len(owned.users) for owned in values)),
        }

    def _fail_unborn(self, owned: OwnedValue) -> None:
        with self._lock:
            if not owned.step(Event.MAKER_LOST):
                return
        rank, maker = owned.rref_id >> RANK_SHIFT, owned.maker
        name = self._workers.in_words(rank) if maker is None else in_words(maker)
        what = "which should have made this value, was lost"
        self._end_wait(owned, WorkerLostError(f"{name}, {what}"))

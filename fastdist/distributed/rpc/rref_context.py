"""The protocol of RRefs: what this worker makes, owns and uses, and who must hear of it."""

# Note [The life of a reference]
# The owner keeps a value while somebody refers to it: an RRef object here, or a user (a fork) that
# it has been told of. A user of remote() is known by the call itself. When a reference travels, it
# forks: the receiver gets a reference of its own, and until the owner knows of it the sender keeps
# its own alive ("pending child": rref_forks.py). The receiver tells the owner (RREF_FORK_REQUEST),
# then the sender (RREF_CHILD_ACCEPT). If the sender is the owner, it registers the fork when it
# packs the message. A reference that is not confirmed yet is kept alive here ("pending user"), so
# that its end (RREF_USER_DELETE) is never told before its beginning. Whoever dies or leaves holds
# nothing any more: its users and the children that went to it are dropped.
#
# Nobody waits to hear of an end or of an acceptance: they go out together (rref_notices.py).

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from weakref import WeakValueDictionary

from fastdist.core.errors import RpcError
from fastdist.core.future import Future

from .agent import RpcAgent, first_number
from .handlers import ValueReply, register_handler
from .incoming import Later, run_function
from .interceptors import Envelope
from .membership import WorkerInfo
from .message_types import MessageType
from .outgoing import packing
from .rref import OwnedValue, RRef
from .rref_forks import Forks
from .rref_notices import RETRIES, Notices, ids_of, lists_of
from .rref_owned import OwnedValues, remember
from .rref_proxy import type_on_owner
from .words import number, refuse

_logger = logging.getLogger(__name__)


class RRefContext:
    """All RRefs of one agent.

    Thread  any
    """

    def __init__(self, agent: RpcAgent) -> None:
        self.me: WorkerInfo = agent.get_worker_info()
        self._agent = agent
        self._numbers = itertools.count(first_number())
        self.owned = OwnedValues(agent)
        # Guards the three below it. Nothing is sent and no reference dropped while it is held.
        self._lock = threading.Lock()
        self._pending_users: dict[int, RRef[Any]] = {}
        self._users: WeakValueDictionary[int, RRef[Any]] = WeakValueDictionary()
        self._refused: dict[int, None] = {}  # the latest forks that are not to come any more
        self._notices = Notices()
        self._forks = Forks(agent, self._notices, self.owned, self._hold_or_refuse)
        self.gave_up = self._forks.gave_up
        for kind, handler in (
            (MessageType.PYTHON_REMOTE_CALL, self._remote_call_came),
            (MessageType.PYTHON_RREF_FETCH_CALL, self._fetch_came),
            (MessageType.RREF_USER_DELETE, self._delete_came),
            (MessageType.RREF_FORK_REQUEST, self._fork_came),
            (MessageType.RREF_CHILD_ACCEPT, self._accept_came),
            (MessageType.RREF_GIVE_UP_REQ, self._forks.given_up),
        ):
            register_handler(kind, handler)
        agent.add_lost_callback(self.owned.worker_lost)
        agent.add_lost_callback(self._forks.worker_lost)

    def create_remote(
        self,
        to: WorkerInfo,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        timeout_s: float,
    ) -> RRef[Any]:
        """Run function on another worker, and return at once an RRef to what it returns."""
        rref_id = self._new_id()
        is_owner = to.id == self.me.id
        fork_id = rref_id if is_owner else self._new_id()
        owned = self._hold_here(rref_id) if is_owner else None
        rref: RRef[Any] = RRef._make(self, to, rref_id, fork_id, owned)
        if not is_owner:
            self._add_pending_user(rref)
        metadata = {"rref": rref_id, "fork": fork_id}
        value = (function, tuple(args), dict(kwargs))
        try:
            creation = self._agent.request(
                to.id, MessageType.PYTHON_REMOTE_CALL, value, metadata, timeout_s, function
            )
        except BaseException:
            rref._is_deleted = True  # the owner has never heard of it
            self._confirm(fork_id)
            raise
        rref._creation = creation
        creation.when_done(lambda done: self._creation_ended(rref_id, fork_id, done))
        return rref

    def new_owned(self) -> OwnedValue:
        """Return the record of a new value that lives here."""
        return self._hold_here(self._new_id())

    def fetch(self, rref: RRef[Any], timeout: float) -> Any:
        """Return the value of an RRef that another worker owns; waits until it is there."""
        kind, metadata = MessageType.PYTHON_RREF_FETCH_CALL, {"rref": rref._id}
        return self._agent.request_and_wait(
            rref._owner.id, kind, metadata, timeout, f"to_here of {rref}"
        )

    def fetch_type(self, rref: RRef[Any], timeout: float) -> Future[type]:
        """Return a Future of the class of an RRef's value."""
        return self._agent.call_async(rref._owner, type_on_owner, (rref,), {}, timeout)

    def user_died(self, owner_id: int, rref_id: int, fork_id: int) -> None:
        """Tell the owner, soon, that a reference here has ended."""
        self._notices.put(self._tell_delete, owner_id, (rref_id, fork_id))

    def owned_died(self, owned: OwnedValue) -> None:
        """Look, soon, whether a value that lives here is needed any more."""
        self._notices.put(self.owned.local_ended, None, owned)

    def delete_all(self, deadline: float) -> None:
        """Give all references of this worker up, telling the owners; before a graceful shutdown."""
        with self._lock:
            waiting = [rref._creation for rref in self._pending_users.values()]
        for creation in waiting:
            if creation is not None:
                try:
                    creation.wait(max(0.0, deadline - time.monotonic()))
                except Exception:
                    _logger.info("a remote call had not succeeded at shutdown", exc_info=True)
        with self._lock:
            users = list(self._users.values())
        for rref in users:
            rref._is_deleted = True
            self._notices.put(self._tell_delete, rref._owner.id, (rref._id, rref._fork_id))
        self._notices.flush()

    def close(self) -> None:
        """Forget everything, and end the thread."""
        self._notices.close()
        with self._lock:
            gone, self._pending_users = self._pending_users, {}
        del gone
        self.owned.clear()
        self._forks.clear()

    def get_debug_info(self) -> dict[str, str]:
        """Return counts under torch's names."""
        with self._lock:
            return {
                **self.owned.get_debug_info(),
                "num_pending_users": str(len(self._pending_users)),
                "num_pending_children": str(len(self._forks)),
                "num_users": str(len(self._users)),
            }

    # ---- travelling ----------------------------------------------------------------------------

    def fork(self, rref: RRef[Any]) -> tuple[int, int, int, int]:
        """Return (owner id, rref id, fork id, parent) of a reference that is about to travel."""
        parcel = packing.parcel
        fork_id = self._new_id()
        if rref._owned is not None and parcel is not None and parcel.goes_to != self.me.id:
            self.owned.add_user(rref._owned, fork_id, parcel.goes_to)
        self._forks.leave(fork_id, rref, parcel)
        return rref._owner.id, rref._id, fork_id, self.me.id

    def arrive(self, owner_id: int, rref_id: int, fork_id: int, parent: int) -> RRef[Any]:
        """Return this worker's own reference of one that has travelled here."""
        if owner_id == self.me.id:
            # Held before it is accepted: the last reference elsewhere may end at that very moment.
            owned = self._hold_here(rref_id)
            rref = RRef._make(self, self.me, rref_id, rref_id, owned)
            self._require_wanted(rref, fork_id)
            self.owned.fail_if_unborn(owned)
            self._accept(parent, fork_id)
            return rref
        rref = RRef._make(self, self._agent.get_worker_info(owner_id), rref_id, fork_id)
        self._add_pending_user(rref)
        self._require_wanted(rref, fork_id)
        if parent == owner_id:
            self._confirm(fork_id)
            self._accept(parent, fork_id)
            return rref
        metadata = {"rref": rref_id, "fork": fork_id}
        kind = MessageType.RREF_FORK_REQUEST
        told = self._agent.send(owner_id, kind, (), metadata, retries=RETRIES)
        told.when_done(lambda done: self._fork_acknowledged(owner_id, parent, fork_id, done))
        return rref

    def _hold_here(self, rref_id: int) -> OwnedValue:
        self._notices.start()
        return self.owned.get_or_create(rref_id, for_local=True)

    def _hold_or_refuse(self, fork_ids: Iterable[int]) -> list[int]:
        """Return which references are here; let the others not come any more."""
        with self._lock:
            held = [fork_id for fork_id in fork_ids if fork_id in self._users]
            for fork_id in set(fork_ids).difference(held):
                remember(self._refused, fork_id)
        return held

    def _require_wanted(self, rref: RRef[Any], fork_id: int) -> None:
        """Raise RpcError for a reference that is not to come any more.

        Note    looked at when it is here: until then its sender has been told that it is not
        """
        if fork_id in self._refused:
            rref._is_deleted = True
            self._confirm(fork_id)
            raise RpcError(
                f"{rref} comes too late: its sender has given up the call that brings it"
            )

    def _fork_acknowledged(
        self, owner_id: int, parent: int, fork_id: int, done: Future[Any]
    ) -> None:
        self._confirm(fork_id)
        # A dead owner needs no telling, and its values are gone.
        if done.exception() is None or self._agent.is_dead(owner_id):
            self._accept(parent, fork_id)

    def _accept(self, parent: int, fork_id: int) -> None:
        if parent == self.me.id:
            self._forks.accepted([fork_id])
            return
        self._notices.put(self._tell_accept, parent, fork_id)

    def _tell_accept(self, parent: int, fork_ids: Sequence[int]) -> None:
        metadata = {"fork": tuple(fork_ids)}
        kind = MessageType.RREF_CHILD_ACCEPT
        self._agent.send(parent, kind, (), metadata, retries=RETRIES)

    # ---- what others ask -----------------------------------------------------------------------

    def _remote_call_came(self, request: Envelope) -> Future[None] | None:
        rref_id, fork_id = ids_of(request)
        owned = self.owned.get_or_create(rref_id)
        owned.is_begun = True
        if fork_id != rref_id:
            self.owned.add_user(owned, fork_id, request.peer)
        assert request.read_value is not None
        try:
            result = run_function(*request.read_value())
        except BaseException as error:  # whoever fetches the value gets it
            self.owned.complete(owned, None, error)
            return None
        if not isinstance(result, Later):
            self.owned.complete(owned, result)
            return None
        answer: Future[None] = Future()

        def finish(done: Future[Any]) -> None:
            error = done.exception()
            self.owned.complete(owned, None if error else done.value(), error)
            answer.set_result(None)

        result.future.add_done_callback(finish)
        return answer

    def _fetch_came(self, request: Envelope) -> Any:
        owned = self.owned.get_or_create(number(request.metadata, "rref", request.peer))
        self.owned.fail_if_unborn(owned)
        if owned.future.done():
            return ValueReply(owned.value())
        return owned.future.then(lambda done: ValueReply(owned.value()))

    def _delete_came(self, request: Envelope) -> None:
        rref_ids, fork_ids = lists_of(request, "rref", "fork")
        if len(rref_ids) != len(fork_ids):
            refuse(request.metadata, "fork", request.peer, "as many ids as in 'rref'")
        self.owned.end_uses(list(zip(rref_ids, fork_ids, strict=True)))

    def _fork_came(self, request: Envelope) -> None:
        rref_id, fork_id = ids_of(request)
        owned = self.owned.get_or_create(rref_id)
        self.owned.add_user(owned, fork_id, request.peer)
        self.owned.fail_if_unborn(owned)

    def _accept_came(self, request: Envelope) -> None:
        self._forks.accepted(*lists_of(request, "fork"))

    # ---- beginnings and ends -------------------------------------------------------------------

    def _new_id(self) -> int:
        return self.me.id << 48 | next(self._numbers) + 1

    def _add_pending_user(self, rref: RRef[Any]) -> None:
        with self._lock:
            self._pending_users[rref._fork_id] = rref
            self._users[rref._fork_id] = rref
        self._notices.start()

    def _creation_ended(self, rref_id: int, fork_id: int, done: Future[Any]) -> None:
        error = done.exception()
        if error is not None:
            self.owned.fail(rref_id, error)
        self._confirm(fork_id)

    def _confirm(self, fork_id: int) -> None:
        with self._lock:
            rref = self._pending_users.pop(fork_id, None)
        if rref is not None:
            rref._confirmed = True

    def _tell_delete(self, owner_id: int, ended: Sequence[tuple[int, int]]) -> None:
        if self._agent.is_dead(owner_id):
            return
        rref_ids, fork_ids = zip(*ended, strict=True)
        metadata = {"rref": rref_ids, "fork": fork_ids}
        kind = MessageType.RREF_USER_DELETE
        self._agent.send(owner_id, kind, (), metadata, retries=RETRIES)

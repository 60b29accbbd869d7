"""This worker's bookkeeping of RRefs: what it owns, what it uses, and who must hear of it."""

# Note [The life of a reference]
# The owner keeps a value while somebody refers to it: an RRef object here, or a user (a fork) that
# it has been told of. A user of remote() is known by the call itself. When a reference travels, it
# forks: the receiver gets a reference of its own, and until the owner knows of it the sender keeps
# its own alive ("pending child"). The receiver tells the owner (RREF_FORK_REQUEST), then the sender
# (RREF_CHILD_ACCEPT). If the sender is the owner, it registers the fork when it packs the message,
# and nobody need be told. A reference that is not confirmed yet is kept alive here ("pending
# user"), so that its end (RREF_USER_DELETE) is never told before its beginning. Whoever dies or
# leaves holds nothing any more: its users and the children that went to it are dropped.
#
# Nobody waits to hear of an end or of an acceptance: they go out together (rref_notices.py).

from __future__ import annotations

import functools
import itertools
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from weakref import WeakValueDictionary

from fastdist.core.errors import RpcError, WorkerLostError
from fastdist.core.future import Future

from .agent import RpcAgent, first_number
from .handlers import ValueReply, register_handler
from .incoming import Later, run_function
from .interceptors import Envelope
from .membership import WorkerInfo
from .message_types import MessageType
from .outgoing import packing
from .rref import OwnedValue, RRef
from .rref_notices import Notices, ids_of, lists_of
from .rref_proxy import type_on_owner

_logger = logging.getLogger(__name__)

# What the protocol says may be said twice, so it is repeated when it could not be said.
_RETRIES = 5
_REMEMBERED = 8192


class RRefContext:
    """All RRefs of one agent.

    Thread  any
    """

    def __init__(self, agent: RpcAgent) -> None:
        self.me: WorkerInfo = agent.get_worker_info()
        self._agent = agent
        self._numbers = itertools.count(first_number())
        # Guards the five below it. Nothing is sent and no reference dropped while it is held.
        self._lock = threading.Lock()
        self._owned: dict[int, OwnedValue] = {}
        self._dropped: dict[int, None] = {}  # the latest values that lived here
        self._pending_users: dict[int, RRef[Any]] = {}
        self._pending_children: dict[int, tuple[int, RRef[Any]]] = {}  # fork id -> to whom, parent
        self._users: WeakValueDictionary[int, RRef[Any]] = WeakValueDictionary()
        self._notices = Notices()
        for kind, handler in (
            (MessageType.PYTHON_REMOTE_CALL, self._remote_call_came),
            (MessageType.PYTHON_RREF_FETCH_CALL, self._fetch_came),
            (MessageType.RREF_USER_DELETE, self._delete_came),
            (MessageType.RREF_FORK_REQUEST, self._fork_came),
            (MessageType.RREF_CHILD_ACCEPT, self._accept_came),
        ):
            register_handler(kind, handler)
        agent.add_lost_callback(self._worker_lost)

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
        owned = self._get_or_create(rref_id, for_local=True) if is_owner else None
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
        return self._get_or_create(self._new_id(), for_local=True)

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
        self._notices.put(self._local_ended, None, owned)

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
            gone = (self._owned, self._pending_users, self._pending_children)
            self._owned, self._pending_users, self._pending_children = {}, {}, {}
        del gone

    def get_debug_info(self) -> dict[str, str]:
        """Return counts under torch's names."""
        with self._lock:
            futures = [owned.future.done() for owned in self._owned.values()]
            return {
                "num_owner_rrefs": str(len(self._owned)),
                "num_pending_futures": str(futures.count(False)),
                "num_pending_users": str(len(self._pending_users)),
                "num_pending_children": str(len(self._pending_children)),
                "num_users": str(len(self._users)),
                "num_forks": str(sum(len(owned.users) for owned in self._owned.values())),
            }

    # ---- travelling ----------------------------------------------------------------------------

    def fork(self, rref: RRef[Any]) -> tuple[int, int, int, int]:
        """Return (owner id, rref id, fork id, parent) of a reference that is about to travel."""
        parcel = packing.parcel
        fork_id, to = self._new_id(), -1 if parcel is None else parcel.peer
        with self._lock:
            if rref._owned is None or to == self.me.id:
                self._pending_children[fork_id] = (to, rref)
            else:
                rref._owned.users[fork_id] = to
        # Looked at last: who is lost only now drops what is here when that is heard of.
        if self._agent.is_dead(to):
            self._take_back(None, [(rref._id, fork_id)])
        elif parcel is not None:
            undo = functools.partial(self._notices.put, self._take_back, None, (rref._id, fork_id))
            parcel.undo = [*(parcel.undo or ()), undo]
        return rref._owner.id, rref._id, fork_id, self.me.id

    def _take_back(self, _: None, forks: Sequence[tuple[int, int]]) -> None:
        """Forget forks that have not arrived, and will not."""
        with self._lock:
            parents = [self._pending_children.pop(fork_id, None) for _, fork_id in forks]
        del parents
        self._end_uses(forks)

    def arrive(self, owner_id: int, rref_id: int, fork_id: int, parent: int) -> RRef[Any]:
        """Return this worker's own reference of one that has travelled here."""
        if owner_id == self.me.id:
            # Held before it is accepted: the last reference elsewhere may end at that very moment.
            owned = self._get_or_create(rref_id, for_local=True)
            self._fail_if_unborn(owned)
            self._accept(parent, fork_id)
            return RRef._make(self, self.me, rref_id, rref_id, owned)
        owner = self._agent.get_worker_info(owner_id)
        rref = RRef._make(self, owner, rref_id, fork_id)
        self._add_pending_user(rref)
        if parent == owner_id:
            self._confirm(fork_id)
            return rref
        metadata = {"rref": rref_id, "fork": fork_id}
        kind = MessageType.RREF_FORK_REQUEST
        told = self._agent.send(owner_id, kind, (), metadata, retries=_RETRIES)
        told.when_done(lambda done: self._fork_acknowledged(owner_id, parent, fork_id, done))
        return rref

    def _fork_acknowledged(
        self, owner_id: int, parent: int, fork_id: int, done: Future[Any]
    ) -> None:
        self._confirm(fork_id)
        # A dead owner needs no telling, and its values are gone.
        if done.exception() is None or self._agent.is_dead(owner_id):
            self._accept(parent, fork_id)

    def _accept(self, parent: int, fork_id: int) -> None:
        if parent == self.me.id:
            self._child_accepted(fork_id)
            return
        self._notices.put(self._tell_accept, parent, fork_id)

    def _tell_accept(self, parent: int, fork_ids: Sequence[int]) -> None:
        metadata = {"fork": tuple(fork_ids)}
        kind = MessageType.RREF_CHILD_ACCEPT
        self._agent.send(parent, kind, (), metadata, retries=_RETRIES)

    # ---- what others ask -----------------------------------------------------------------------

    def _remote_call_came(self, request: Envelope) -> Future[None] | None:
        rref_id, fork_id = ids_of(request)
        owned = self._get_or_create(rref_id)
        if fork_id != rref_id:
            self._add_user(owned, fork_id, request.peer)
        assert request.read_value is not None
        try:
            result = run_function(*request.read_value())
        except BaseException as error:  # whoever fetches the value gets it
            self._complete(owned, None, error)
            return None
        if not isinstance(result, Later):
            self._complete(owned, result)
            return None
        answer: Future[None] = Future()

        def finish(done: Future[Any]) -> None:
            error = done.exception()
            self._complete(owned, None if error else done.value(), error)
            answer.set_result(None)

        result.future.add_done_callback(finish)
        return answer

    def _fetch_came(self, request: Envelope) -> Any:
        owned = self._get_or_create(int(request.metadata["rref"]))  # type: ignore[arg-type]
        self._fail_if_unborn(owned)
        if owned.future.done():
            return ValueReply(owned.value())
        return owned.future.then(lambda done: ValueReply(owned.value()))

    def _delete_came(self, request: Envelope) -> None:
        self._end_uses(list(zip(*lists_of(request, "rref", "fork"), strict=True)))

    def _fork_came(self, request: Envelope) -> None:
        rref_id, fork_id = ids_of(request)
        owned = self._get_or_create(rref_id)
        self._add_user(owned, fork_id, request.peer)
        self._fail_if_unborn(owned)

    def _accept_came(self, request: Envelope) -> None:
        (fork_ids,) = lists_of(request, "fork")
        for fork_id in fork_ids:
            self._child_accepted(fork_id)

    def _child_accepted(self, fork_id: int) -> None:
        with self._lock:
            parent = self._pending_children.pop(fork_id, None)
        del parent

    # ---- beginnings and ends -------------------------------------------------------------------

    def _new_id(self) -> int:
        return self.me.id << 48 | next(self._numbers) + 1

    def _get_or_create(self, rref_id: int, *, for_local: bool = False) -> OwnedValue:
        with self._lock:
            owned = self._owned.get(rref_id)
            if owned is None:
                owned = OwnedValue(rref_id)
                if rref_id not in self._dropped:
                    self._owned[rref_id] = owned
            owned.num_local += for_local
        self._notices.start()
        return owned

    def _add_user(self, owned: OwnedValue, fork_id: int, holder: int) -> None:
        with self._lock:
            owned.users[fork_id] = holder
        # Its request may have waited here for longer than it lived, and nobody will drop this then.
        if self._agent.is_dead(holder):
            self._end_uses([(owned.rref_id, fork_id)])

    def _end_uses(self, forks: Sequence[tuple[int, int]]) -> None:
        with self._lock:
            for rref_id, fork_id in forks:
                owned = self._owned.get(rref_id)
                if owned is not None:
                    owned.users.pop(fork_id, None)
        for rref_id, _ in forks:
            self._drop_if_unused(rref_id)

    def _fail_if_unborn(self, owned: OwnedValue) -> None:
        if owned.future.done():
            return
        if self._agent.is_dead(maker := owned.rref_id >> 48):
            self._fail_unborn(owned, f"rank {maker}")
        elif owned.rref_id in self._dropped:
            # Passed on by somebody who died, or gave up, before the owner heard of it.
            text = f"the value of RRef {owned.rref_id:#x} is gone: all its other references ended"
            self._complete(owned, None, RpcError(text))

    def _fail_unborn(self, owned: OwnedValue, maker: str) -> None:
        """End the wait for a value that was fetched before it was made, and never will be."""
        self._complete(owned, None, WorkerLostError(f"worker {maker} was lost"))

    def _add_pending_user(self, rref: RRef[Any]) -> None:
        with self._lock:
            self._pending_users[rref._fork_id] = rref
            self._users[rref._fork_id] = rref
        self._notices.start()

    def _creation_ended(self, rref_id: int, fork_id: int, done: Future[Any]) -> None:
        error = done.exception()
        with self._lock:
            owned = self._owned.get(rref_id)
        if error is not None and owned is not None:
            self._complete(owned, None, error)
        self._confirm(fork_id)

    def _complete(
        self, owned: OwnedValue, value: object, error: BaseException | None = None
    ) -> None:
        owned.future.try_complete(value, error)
        # The last reference may have ended before.
        self._drop_if_unused(owned.rref_id)

    def _confirm(self, fork_id: int) -> None:
        with self._lock:
            rref = self._pending_users.pop(fork_id, None)
        if rref is not None:
            rref._confirmed = True

    def _drop_if_unused(self, rref_id: int) -> None:
        with self._lock:
            owned = self._owned.get(rref_id)
            if owned is None or owned.users or owned.num_local or not owned.future.done():
                return
            del self._owned[rref_id]
            self._dropped[rref_id] = None
            if len(self._dropped) > _REMEMBERED:
                del self._dropped[next(iter(self._dropped))]
        del owned  # the value goes here, without the lock: its end may run anything

    def _local_ended(self, _: None, ended: Sequence[OwnedValue]) -> None:
        with self._lock:
            for owned in ended:
                owned.num_local -= 1
        for owned in ended:
            self._drop_if_unused(owned.rref_id)

    def _tell_delete(self, owner_id: int, ended: Sequence[tuple[int, int]]) -> None:
        if self._agent.is_dead(owner_id):
            return
        rref_ids, fork_ids = zip(*ended, strict=True)
        metadata = {"rref": rref_ids, "fork": fork_ids}
        kind = MessageType.RREF_USER_DELETE
        self._agent.send(owner_id, kind, (), metadata, retries=_RETRIES)

    def _worker_lost(self, worker: WorkerInfo) -> None:
        with self._lock:
            for owned in self._owned.values():
                for fork_id in [f for f, holder in owned.users.items() if holder == worker.id]:
                    del owned.users[fork_id]
            unused = [rref_id for rref_id, owned in self._owned.items() if not owned.users]
            unborn = [o for o in self._owned.values() if o.rref_id >> 48 == worker.id]
            lost = [
                fork_id
                for fork_id, (to, rref) in self._pending_children.items()
                if worker.id in (to, rref._owner.id)
            ]
            children = [self._pending_children.pop(fork_id) for fork_id in lost]
        for owned in unborn:
            self._fail_unborn(owned, repr(worker.name))
        for rref_id in unused:
            self._drop_if_unused(rref_id)
        del children

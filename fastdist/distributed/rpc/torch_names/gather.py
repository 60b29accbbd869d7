"""_all_gather and _barrier: one worker gathers all workers' objects and sends them to each."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any, Final

from fastdist.concurrency.future import Future, InternalFuture
from fastdist.core.errors import RpcError, RpcTimeoutError, WorkerLostError

from ....core.short_repr import short_repr
from .. import agent as agents
from .. import constants
from ..agent import get_current_agent
from ..handlers import DeferredResult
from ..message import gate
from ..message.types import MessageType
from ..workers.record import in_words
from ..workers.worker import Worker


class AllGatherStates:
    """The objects of one gathering, on its leader. `proceed_signal` is set when it has ended."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.missing = set(names)
        self.gathered_objects: dict[str, Any] = {}
        self.outcome: Future[dict[str, Any]] = InternalFuture()
        self.proceed_signal = signal = threading.Event()
        self.outcome.add_done_callback(lambda _: signal.set())


# Guards the three tables below. Futures are completed without this lock.
_lock: Final = threading.Lock()
_gatherings: dict[str, AllGatherStates] = {}
_failed: dict[str, RpcError] = {}  # the latest failures, for workers that call later
_MOST_FAILED: Final = 64
_numbers: dict[tuple[str, ...], int] = {}


def all_gather(
    obj: object,
    worker_names: Iterable[str] | None = None,
    timeout: float = constants.UNSET_RPC_TIMEOUT,
) -> dict[str, Any]:
    """Return {worker name: object} when all workers in `worker_names` have called this function.

    `worker_names` defaults to all workers of the group. The worker whose name sorts first is the
    leader.

    Units   timeout in seconds; 0 and the default wait as long as the other workers live
    Raises  RpcTimeoutError, on each waiting worker, naming the missing workers; WorkerLostError
            naming a lost worker; RpcError if this worker is not in `worker_names`, or a name is not
            in the group
    """
    agent = get_current_agent()
    me = agent.get_worker_info().name
    names = set(worker_names or [info.name for info in agent.get_worker_infos()])
    if me not in names:
        raise RpcError(f"worker {short_repr(me)} is not among those that gather: {sorted(names)}")
    workers = [agent.worker(name) for name in sorted(names)]
    key = tuple(worker.name for worker in workers)
    with _lock:
        number = _numbers[key] = _numbers.get(key, 0) + 1
    timeout_s = 0.0 if timeout == constants.UNSET_RPC_TIMEOUT else timeout
    given = (f"{number} of {' '.join(key)}", me, obj, key)
    if not workers[0].is_self:
        call = (_take_part, given, dict[str, Any]())
        kind = MessageType.PYTHON_CALL
        asked = agent.client.request(workers[0], kind, call, (), None, timeout_s, "_all_gather")
        gathered: dict[str, Any] = asked.wait()
        return gathered
    outcome: Future[dict[str, Any]] = _take_part(*given).future
    for worker in workers[1:]:
        # Connect to the worker: without a connection the worker's death would not be noticed.
        if agent.workers.reach(worker).is_dead:
            _worker_lost(worker)
    try:
        return outcome.wait(timeout_s or None)
    except TimeoutError:
        _give_up(given[0], timeout_s)
        return outcome.wait()  # has a value if the missing workers have called just now


def _give_up(which: str, timeout_s: float) -> None:
    with _lock:
        gathering = _gatherings.get(which)
    if gathering is not None:
        missing = sorted(gathering.missing)
        words = f"timed out in _all_gather after {timeout_s:.2f} seconds"
        error = RpcTimeoutError(f"Followers {missing} {words}: they have not called theirs")
        _fail([which], error)


def _fail(ended: Iterable[str], error: RpcError) -> None:
    gatherings = []
    with _lock:
        for which in ended:
            gathering = _gatherings.pop(which, None)
            if gathering is not None:
                gatherings.append(gathering)
                _failed[which] = error
        while len(_failed) > _MOST_FAILED:
            del _failed[next(iter(_failed))]
    for gathering in gatherings:
        gathering.outcome.try_complete(error=error)


@gate.export
def _take_part(which: str, name: str, obj: object, names: tuple[str, ...]) -> DeferredResult:
    """Add the object of the worker `name`; the response, sent later, has the objects of all."""
    with _lock:
        gathering = _gatherings.get(which)
        if gathering is None:
            if which in _failed:
                raise _failed[which]
            gathering = _gatherings[which] = AllGatherStates(names)
        if name not in gathering.missing:
            raise RpcError(f"{name} reported intent sequence id {which} twice, or is not expected")
        gathering.missing.discard(name)
        gathering.gathered_objects[name] = obj
        is_whole = not gathering.missing
        if is_whole:
            del _gatherings[which]
    if is_whole:
        gathering.outcome.try_complete(gathering.gathered_objects)
    return DeferredResult(gathering.outcome, "_all_gather")


def _worker_lost(worker: Worker) -> None:
    with _lock:
        ended = [which for which, known in _gatherings.items() if worker.name in known.missing]
    words = "was lost, or has left, before it called its _all_gather"
    _fail(ended, WorkerLostError(f"{in_words(worker)} {words}"))


def _stopped() -> None:
    with _lock:
        gatherings = list(_gatherings.values())
        _gatherings.clear()
        _failed.clear()
        _numbers.clear()
    for gathering in gatherings:
        gathering.outcome.try_complete(
            error=RpcError("RPC ended before all had called their _all_gather")
        )


agents.add_hooks(lambda worker_id: None, _stopped, _worker_lost)

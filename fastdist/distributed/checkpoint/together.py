"""Saves by several workers for one checkpoint: the data that these workers exchange."""

# Note [Pulled, not pushed] A worker that needs data of another worker calls that worker and waits.
# The first worker of the group calls the others for their parts, and they call the first one for
# the result. So if a worker dies, the calls to it end with an error, and the callers learn
# immediately which worker died. At the beginning, all workers must join the save within the RPC
# timeout. The duration of the writing is unknown, so the waits for the parts and for the result
# have no timeout.

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ...concurrency.future import Future, InternalFuture, outcomes
from ...core.errors import RpcTimeoutError
from .. import rpc
from ..rpc.functions import async_execution
from .errors import CheckpointException
from .metadata import FileRow

# Guards the two fields below.
_announced_lock = threading.Lock()
_announced: dict[str, Future[Any]] = {}
_saves: Counter[str] = Counter()


@rpc.export
@async_execution
def announced(key: str) -> Future[Any]:
    """Return a Future of the value that this worker publishes under a key."""
    return _promise(key)


@rpc.export
def nobody_waits(key: str) -> None:
    """End all waits for a key of this worker with an error; a worker that gave up calls this."""
    _promise(key).try_complete(error=CheckpointException("nobody waits for this any more"))


def _promise(key: str) -> Future[Any]:
    with _announced_lock:
        return _announced.setdefault(key, InternalFuture())


def require_group(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the workers that save together, which must include this one.

    Raises  TypeError or CheckpointException for invalid names; RpcError for unknown workers
    """
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"process_group: expected a list of workers' names, got {names!r}")
    group = tuple(names)
    own = rpc.get_worker_info().name
    if own not in group or len(set(group)) != len(group):
        raise CheckpointException(
            f"process_group={list(group)}: it names each worker that saves once, this one, "
            f"{own!r}, included"
        )
    for name in group:
        rpc.get_worker_info(name)
    return group


class Together:
    """One worker's state in a save by a group of workers."""

    def __init__(self, group: tuple[str, ...], folder: str) -> None:
        self._group = group
        self._folder = folder
        self._own = rpc.get_worker_info().name
        # Whether all other workers have stopped writing.
        self.has_gathered = False
        stem = f"{folder}\0{','.join(group)}"
        with _announced_lock:
            _saves[stem] += 1
            number = _saves[stem]
            self._stem = f"{stem}\0{number}\0"
            # All other workers have joined the previous save. So they have ended the save before
            # that, and have fetched its results.
            for key in [key for key in _announced if key.startswith(f"{stem}\0{number - 2}\0")]:
                del _announced[key]

    @property
    def is_first(self) -> bool:
        """Whether this worker is the first of the group, which writes the manifest."""
        return self._own == self._group[0]

    def tell_parts(self, rows: list[FileRow] | None, error: BaseException | None) -> None:
        """Publish this worker's parts, or its error, for the first worker."""
        self.come()
        _promise(f"{self._stem}parts {self._own}").try_complete(rows, error)

    def come(self) -> None:
        """Publish that this worker has joined the save."""
        _promise(f"{self._stem}here {self._own}").try_complete(None)

    def gathered(self) -> list[FileRow]:
        """Return the parts that all other workers have written.

        Raises  CheckpointException if a worker did not join; WorkerLostError if one died; the error
                because of which another worker did not write its parts
        """
        others = [name for name in self._group if name != self._own]
        try:
            self._meet(others)
            futures = [self._ask(name, f"parts {name}", timeout=0) for name in others]
            return [row for rows in outcomes(futures) for row in rows]
        finally:
            self.has_gathered = True

    def await_first(self) -> None:
        """Wait until the first worker has written the manifest.

        Raises  CheckpointException or WorkerLostError if the first worker failed
        """
        first = self._group[0]
        self._meet([first])
        self._ask(first, "outcome", timeout=0).wait()

    def tell_outcome(self, error: BaseException | None) -> None:
        """Publish the outcome of the save, for which the other workers wait."""
        _promise(f"{self._stem}outcome").try_complete(None, error)

    def _meet(self, names: list[str]) -> None:
        for name, here in [(name, self._ask(name, f"here {name}")) for name in names]:
            try:
                here.wait()
            except RpcTimeoutError as error:
                rpc.rpc_async(name, nobody_waits, (f"{self._stem}here {name}",))
                raise CheckpointException(
                    f"save to {self._folder!r}: the worker {name!r} did not come to save with "
                    f"{self._own!r} within {rpc.get_rpc_timeout():g} s; all of process_group="
                    f"{list(self._group)} call save, in the same order"
                ) from error

    def _ask(self, name: str, what: str, timeout: float | None = None) -> Future[Any]:
        timeout = rpc.get_rpc_timeout() if timeout is None else timeout
        return rpc.rpc_async(name, announced, (self._stem + what,), timeout=timeout)

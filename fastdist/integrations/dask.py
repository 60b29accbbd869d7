"""Workers in the processes of a Dask cluster: `run` and `FastdistPlugin`."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, suppress
from typing import Any

from fastdist.core.errors import EngineError, FastdistError
from fastdist.launch.flags import WORKER
from fastdist.launch.lost_workers import LostWorker

from .group import Run, names_of, require_seconds, settings_of_driver, supervise
from .worker import Life, Outcome, Whereabouts, environment_of, live

try:
    import distributed
except ImportError as error:
    raise ImportError(
        "fastdist.integrations.dask needs the package distributed: pip install distributed",
        name="distributed",
    ) from error

from distributed.diagnostics.plugin import WorkerPlugin
from distributed.protocol.pickle import dumps

from .dask_groups import (
    call_hub,
    claim_workers,
    close_group,
    end_workers,
    join_group,
    leave_group,
    lost_ranks,
    open_group,
)

__all__ = ["FastdistPlugin", "run"]

_logger = logging.getLogger(__name__)
_LOOK_S = 0.25
# The longest pause before a worker without a rank tries again to join a group.
_MOST_LOOK_S = 2.0
# How long a closing worker waits for the other workers of its group.
_LEAVE_S = 5.0


def run(
    client: Any,
    train: Callable[..., Any],
    workers: int | Collection[Any] | None = None,
    *args: Any,
    max_restarts: int = 0,
    restart: str = WORKER,
    start_timeout: float = 60.0,
) -> list[Any]:
    """Run train(*args) in workers of a Dask cluster that form a group; return the results by rank.

    Each process is one worker with a rank, a common store and a shared secret. `train` calls
    `init_rpc("name")` or `init_process_group()` without more arguments, and shuts down before it
    returns. Dask calls `train` in a thread of the process's thread pool. If a worker process is
    lost, its nanny restarts the process, or another free process takes its rank.

    Raises  WorkerFailedError with the rank and the traceback if a worker raised an exception or was
            lost, and may not be restarted (`__cause__` is the worker's exception); EngineError with
            the cluster's number of workers if too few became free in time; TypeError if an argument
            has a wrong type, such as a config in the place of `workers`; ValueError if an argument
            is out of range, or a worker is named twice

    Args:
        client: A `distributed.Client`.
        train: A function that can be pickled.
        workers: How many workers, or the names or addresses of the workers to use; the whole
            cluster by default.
        *args: Arguments of train, such as a config.
        max_restarts: How often each worker, or with restart="group" the whole group, may be
            restarted.
        restart: "worker" or "group", as for `fastdist run --restart`.
        start_timeout: Seconds to wait for free workers, at the start and at each restart.

    Example:
        with Client(LocalCluster(n_workers=4)) as client:
            results = run(client, train, 4, {"lr": 0.1}, max_restarts=3)
    """
    if client.asynchronous:
        raise EngineError("run waits for the workers: give it a client that is not asynchronous")
    names = names_of(workers)
    require_seconds("start_timeout", start_timeout)
    if workers is None:
        size = len(client.nthreads())
        if not size:
            raise EngineError("this Dask cluster has no workers; start some, or say how many come")
    else:
        size = workers if isinstance(workers, int) else len(workers)
    group = secrets.token_hex(4)
    plan = Run(size, max_restarts, restart, f"dask.{group}")
    hub = _RemoteHub(client, group)
    try:
        engine = _DaskEngine(client, group, names, (train, args), start_timeout)
        return supervise(engine, hub, plan)
    finally:
        hub.close()


class FastdistPlugin(WorkerPlugin):  # type: ignore[misc]
    """Joins the workers of a Dask cluster to an RPC group, so that any task may make RPC calls.

    Worker K is named "workerK". Workers beyond world_size wait. If a worker is lost, a waiting
    worker or a worker that starts later takes its rank, and the hooks of `dist.on_restart` run.
    Unregistering the plugin shuts RPC down.

    Raises  ValueError if world_size is not a positive integer

    Args:
        world_size: The number of workers in the group.
        name: The prefix of the workers' names.

    Example:
        client.register_plugin(FastdistPlugin(world_size=4))
        client.submit(rpc.rpc_sync, "worker1", torch.add, args=(x, y)).result()
    """

    def __init__(self, world_size: int, name: str = "worker") -> None:
        self.name = "fastdist"
        self._plan = Run(world_size, 0, WORKER, f"dask.{secrets.token_hex(4)}")
        self._prefix, self._settings = name, settings_of_driver()

    async def setup(self, worker: Any) -> None:
        """Join the group, or wait for a free rank. Dask calls this in each worker."""
        self._rank: int | None = None
        self._entered = ExitStack()
        self._closing = asyncio.Event()
        self._waiting: asyncio.Task[None] | None = None
        is_member = False
        try:
            is_member = await self._join(worker)
        finally:
            if not is_member:
                self._waiting = asyncio.ensure_future(self._wait_for_place(worker))

    async def _join(self, worker: Any) -> bool:
        """Join the group if a rank is free, and return whether one was. RPC starts in a thread."""
        claim = await _on_scheduler(worker, join_group, self._plan, worker.address)
        if claim is None:
            return False
        place, local_rank, count, secret = claim
        life = Life(
            *(place, local_rank, count, self._plan.run_id, WORKER, 0, self._settings, secret)
        )
        try:
            self._entered.enter_context(environment_of(life))
            await asyncio.to_thread(_init_rpc, f"{self._prefix}{life.rank}")
        except BaseException:
            self._entered.close()
            await self._leave(worker, life.rank)
            raise
        self._entered.callback(_shut_down_rpc)
        self._rank = life.rank
        return True

    async def _wait_for_place(self, worker: Any) -> None:
        """Join the group when a rank becomes free. Try again after an attempt that fails."""
        pause_s = _LOOK_S
        while not self._closing.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), pause_s)
                return
            pause_s = min(2 * pause_s, _MOST_LOOK_S)
            try:
                if await self._join(worker):
                    return
            except (FastdistError, OSError) as error:
                _logger.warning("%s has not joined its group: %s", worker.address, error)

    async def teardown(self, worker: Any) -> None:
        """Leave the group. Dask calls this when the worker closes, or the plugin is removed."""
        self._closing.set()
        if self._waiting is not None:
            await self._waiting
        await asyncio.to_thread(self._entered.close)
        if self._rank is not None:
            with suppress(OSError):  # the scheduler may have stopped first
                await self._leave(worker, self._rank)

    async def _leave(self, worker: Any, rank: int) -> None:
        await _on_scheduler(worker, leave_group, self._plan.run_id, rank, worker.address)


def _init_rpc(name: str) -> None:
    from fastdist.distributed import rpc

    rpc.init_rpc(name)


def _shut_down_rpc() -> None:
    from fastdist.distributed import rpc

    with suppress(FastdistError):  # other workers may be lost, or may have closed first
        rpc.shutdown(timeout=_LEAVE_S)


async def _on_scheduler(worker: Any, function: Callable[..., Any], *args: Any) -> Any:
    reply = await worker.scheduler.run_function(
        function=dumps(function), args=dumps(args), kwargs=dumps({}), wait=True
    )
    if reply["status"] == "error":
        _, error, tb = distributed.core.clean_exception(**reply)
        raise error.with_traceback(tb)
    return reply["result"]


# ---- in the driver ------------------------------------------------------------------------------


class _RemoteHub:
    """A proxy of the scheduler's Hub: each method calls the same method of the Hub."""

    def __init__(self, client: Any, group: str) -> None:
        self._client, self._group = client, group
        self.host, self.port, self.secret = client.run_on_scheduler(open_group, group, client.id)

    def _call(self, method: str, *args: Any) -> Any:
        return self._client.run_on_scheduler(call_hub, self._group, method, args)

    def tell_ended(self, rank: int, world_size: int) -> None:
        self._call("tell_ended", rank, world_size)

    def begin_round(self) -> None:
        self._call("begin_round")

    def begin_run(self, world_size: int) -> None:
        self._call("begin_run", world_size)

    def tell_no_restarts(self) -> None:
        self._call("tell_no_restarts")

    def take_lost(self) -> list[LostWorker]:
        lost: list[LostWorker] = self._call("take_lost")
        return lost

    def close(self) -> None:
        with suppress(OSError, RuntimeError):  # the cluster may have stopped first
            self._client.run_on_scheduler(close_group, self._group)


class _DaskEngine:
    """The processes of a Dask cluster; `group.Engine` documents the methods."""

    def __init__(
        self,
        client: Any,
        group: str,
        names: Sequence[Any] | None,
        program: tuple[Callable[..., Any], tuple[Any, ...]],
        timeout_s: float,
    ) -> None:
        self._client, self._group, self._names = client, group, names
        self._program, self._timeout_s = program, timeout_s
        self._addresses: dict[int, str] = {}
        self._places: dict[int, Whereabouts] = {}
        self._futures: dict[int, Any] = {}
        self._gone: set[int] = set()

    def start(self, ranks: Sequence[int]) -> dict[int, Whereabouts]:
        until = time.monotonic() + self._timeout_s
        while True:
            found = self._on_scheduler(claim_workers, list(ranks), self._names)
            if isinstance(found, dict):
                self._addresses.update(found)
                places = self._client.run(
                    Whereabouts.here, workers=list(found.values()), on_error="ignore"
                )
                if places.keys() == set(found.values()):
                    self._places.update({rank: places[found[rank]] for rank in found})
                    return self._places
                found = f"Dask workers {sorted(found.values())} did not answer"
            if time.monotonic() > until:
                raise EngineError(f"within {self._timeout_s:g} s {found}")
            self._pause()

    def _pause(self) -> None:
        # A plain pause: a wait for the client's own events would end at each change of any task.
        threading.Event().wait(_LOOK_S)

    def _on_scheduler(self, function: Callable[..., Any], *args: Any) -> Any:
        return self._client.run_on_scheduler(function, self._group, *args)

    def begin(self, rank: int, life: Life) -> None:
        self._gone.discard(rank)
        self._futures[rank] = self._client.submit(
            _live_in,
            self._places[rank].pid,
            life,
            *self._program,
            key=f"fastdist-{self._group}-rank-{rank}-start-{life.restart_count}",
            workers=[self._addresses[rank]],
            allow_other_workers=False,
            retries=0,
            pure=False,
        )

    def wait(self, timeout_s: float) -> Sequence[int]:
        if not self._futures:
            return ()
        with suppress(TimeoutError):
            distributed.wait(
                list(self._futures.values()), timeout=timeout_s, return_when="FIRST_COMPLETED"
            )
        done = [rank for rank, future in self._futures.items() if future.done()]
        if not done:
            self._gone.update(set(self._on_scheduler(lost_ranks)) & self._futures.keys())
        return done or sorted(self._gone & self._futures.keys())

    def outcome(self, rank: int) -> Outcome:
        future = self._futures.pop(rank)
        where = f"the Dask worker {self._addresses[rank]}"
        if not future.done():
            future.cancel()
            return Outcome(failure=f"{where} has left the cluster", is_lost=True)
        try:
            outcome: Outcome = future.result()
        except distributed.KilledWorker as error:
            return Outcome(failure=f"{where} was lost: {error}", is_lost=True)
        except Exception as error:
            # The task was cancelled, or its function, arguments or result cannot be pickled.
            return Outcome(failure=f"{type(error).__name__}: {error}", error=error)
        return outcome

    def end(self, ranks: Sequence[int]) -> None:
        running = [rank for rank in ranks if rank in self._futures]
        for rank in running:
            self._futures.pop(rank).cancel()
        self._on_scheduler(end_workers, list(ranks), running)


def _live_in(
    pid: int, life: Life, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> Outcome:
    """Run a life, but only in the process `pid`: Dask runs the tasks of lost workers again in other
    processes.
    """
    if os.getpid() != pid:
        return Outcome(failure=f"its process {pid} has ended", is_lost=True)
    return live(life, function, arguments)

"""Workers as Ray actors: `WorkerGroup`."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import ModuleType
from typing import Any

from fastdist.core.errors import EngineError, WorkerLostError
from fastdist.launch.flags import WORKER

from .group import Hub, Run, require_seconds, supervise
from .worker import Life, Outcome, Whereabouts, live

__all__ = ["RemoteWorker", "WorkerGroup"]

# The number of `rpc` calls that may run in one worker at the same time, in addition to `run`.
_CALLS = 8
_CALL_GROUP = "calls"
_STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")
# Resources that Ray takes by an own argument of an actor.
_ARGUMENTS = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}


def _ray() -> ModuleType:
    try:
        import ray

        module: ModuleType = ray
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise ModuleNotFoundError(
            "fastdist.integrations.ray needs Ray, which is not installed: pip install ray",
            name="ray",
        ) from None
    return module


class _Actor:
    """The process of a worker. Ray writes the actor's repr before each line of its output."""

    def __init__(self, rank: int) -> None:
        self._rank = rank

    def __repr__(self) -> str:
        return f"rank {self._rank}"

    def whereabouts(self) -> Whereabouts:
        return Whereabouts(os.getpid(), _ray().get_runtime_context().get_node_id())

    def live(self, life: Life, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Outcome:
        return live(life, function, arguments)

    def call(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Any) -> Any:
        return function(*args, **kwargs)


class RemoteWorker:
    """One worker of a group, as seen from the driver; a restart keeps its rank."""

    def __init__(self, engine: _RayEngine, rank: int) -> None:
        self._engine = engine
        self.rank = rank

    def __repr__(self) -> str:
        return f"RemoteWorker(rank={self.rank})"

    def rpc(
        self, function: Callable[..., Any], *args: Any, timeout: float | None = None, **kwargs: Any
    ) -> Any:
        """Call function(*args, **kwargs) in the worker's process, and return the result.

        The function runs in a separate thread, even while `WorkerGroup.run` runs another function
        in that process. The called function may use `fastdist.distributed.rpc`. Ray transports the
        arguments and the result.

        Raises  WorkerLostError if the process was lost (the function may have run before);
                TimeoutError if the call did not end in time (the function still runs); Exception of
                the function, as Ray raises it, with the worker's traceback

        Args:
            timeout: Seconds to wait; None waits until the call has ended.

        Example:
            group.workers[1].rpc(os.getpid)
        """
        return self._engine.call(self.rank, function, args, kwargs, timeout)


class WorkerGroup:
    """Workers in Ray actors, each with a rank, a common store and a shared secret.

    The actors are in one placement group, and live until `shutdown`. They also end when the driver
    ends, even by SIGKILL. A WorkerGroup is a context manager.

    Raises  ModuleNotFoundError if Ray is not installed; EngineError naming what is missing if the
            resources did not become available in time; TypeError if an argument has a wrong type;
            ValueError if an argument is out of range

    Args:
        num_workers: The number of workers.
        resources: The resources to reserve for each worker, by Ray's names; {"CPU": 1} by
            default. Ray shows each worker only its own GPUs, as cuda:0 and so on.
        max_restarts: How often each worker, or with restart="group" the whole group, may be
            restarted.
        restart: "worker": only the lost worker is restarted, and the others go on, as with
            `fastdist run --restart=worker`. "group": all workers are restarted.
        strategy: Ray's strategy of the placement group: "PACK", "SPREAD", "STRICT_PACK",
            "STRICT_SPREAD".
        start_timeout: Seconds to wait for Ray's resources, and for the start of actors.

    Threads: not thread-safe, except for `workers[i].rpc`, which any thread may call.

    Example:
        with WorkerGroup(num_workers=2, resources={"GPU": 1}, max_restarts=3) as group:
            results = group.run(train, {"lr": 0.1})
    """

    def __init__(
        self,
        num_workers: int,
        resources: Mapping[str, float] | None = None,
        max_restarts: int = 0,
        restart: str = WORKER,
        *,
        strategy: str = "PACK",
        start_timeout: float = 60.0,
    ) -> None:
        self._plan = Run(num_workers, max_restarts, restart, "")
        bundle = _checked({"CPU": 1.0} if resources is None else resources)
        require_seconds("start_timeout", start_timeout)
        if strategy not in _STRATEGIES:
            raise ValueError(f"strategy is {strategy!r}; expected one of {', '.join(_STRATEGIES)}")
        self._num_runs = 0
        ray = _ray()
        if not ray.is_initialized():
            ray.init()
        if ray.util.client.ray.is_connected():
            raise EngineError(
                "this driver is connected by Ray Client (ray://), outside of the cluster, where "
                "workers cannot reach its store: start it in the cluster, by `ray job submit`"
            )
        self._engine = _RayEngine(ray, num_workers, bundle, strategy, start_timeout)
        try:
            self._engine.start(range(num_workers))
            self._hub = Hub(ray.util.get_node_ip_address())
        except BaseException:
            self._engine.close()
            raise
        self.workers = [RemoteWorker(self._engine, rank) for rank in range(num_workers)]
        self._is_running = self._is_closed = False

    def run(self, train: Callable[..., Any], *args: Any) -> list[Any]:
        """Run train(*args) in every worker; return the results by rank when all have ended.

        `train` calls `init_rpc("name")` or `init_process_group()` without more arguments, and shuts
        down before it returns. A restarted worker runs `train` again, with `dist.restart_count()`
        increased by one. Ray may call `train` in a thread that is not the main thread of its
        process.

        Raises  WorkerFailedError with the rank and the traceback if a worker raised an exception or
                was lost, and may not be restarted (`__cause__` is the worker's exception);
                EngineError if a process could not be restarted, or the group is shut down

        Args:
            train: A function that can be pickled. It may be defined in `__main__`.
            *args: Arguments of train, such as a config.
        """
        if self._is_closed:
            raise EngineError("this WorkerGroup is shut down; make another one")
        if self._is_running:
            raise EngineError("this WorkerGroup runs a function already; make a second group")
        self._is_running = True
        try:
            self._num_runs += 1
            plan = Run(
                self._plan.world_size,
                self._plan.max_restarts,
                self._plan.restart,
                f"ray.{self._num_runs}",
            )
            self._engine.program = (train, args)
            return supervise(self._engine, self._hub, plan)
        finally:
            self._is_running = False

    def shutdown(self) -> None:
        """End all workers and release the resources; a second call does nothing."""
        if not self._is_closed:
            self._is_closed = True
            self._engine.close()
            self._hub.close()

    def __enter__(self) -> WorkerGroup:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()


class _RayEngine:
    """The actors of a group; `group.Engine` documents the methods."""

    def __init__(
        self,
        ray: ModuleType,
        size: int,
        bundle: dict[str, float],
        strategy: str,
        timeout_s: float,
    ) -> None:
        self._ray, self._bundle, self._timeout_s = ray, bundle, timeout_s
        self.program: tuple[Callable[..., Any], tuple[Any, ...]] = (int, ())
        self._actors: dict[int, Any] = {}
        self._places: dict[int, Whereabouts] = {}
        # Maps Ray's reference to the result of each running life to the life's rank.
        self._lives: dict[Any, int] = {}
        self._ended: dict[int, Any] = {}
        self._size = size
        self._placement = ray.util.placement_group([bundle] * size, strategy=strategy)
        try:
            if not self._placement.wait(timeout_s):
                raise EngineError(self._what_is_missing(strategy))
        except BaseException:
            ray.util.remove_placement_group(self._placement)
            raise

    def _what_is_missing(self, strategy: str) -> str:
        whole, free = self._ray.cluster_resources(), self._ray.available_resources()
        lines = []
        for name, each in self._bundle.items():
            needed, there, left = each * self._size, whole.get(name, 0), free.get(name, 0)
            if needed > there:
                lines.append(f"{needed:g} {name}, and the cluster has {there:g}")
            elif needed > left:
                lines.append(f"{needed:g} {name}, and of the cluster's {there:g} {left:g} are free")
        missing = "; ".join(lines) or f"that no set of nodes has them as {strategy} asks"
        return (
            f"Ray did not place {self._size} workers of {self._bundle} within "
            f"{self._timeout_s:g} s: they need {missing}; add nodes, ask for less, or give a "
            "longer start_timeout"
        )

    def start(self, ranks: Sequence[int]) -> dict[int, Whereabouts]:
        died = self._ray.exceptions.RayActorError
        asked = {}
        for rank in ranks:
            if rank in self._actors:
                with suppress(died):  # the actor was lost since the last run
                    self._places[rank] = self._whereabouts(rank)
                    continue
            self._actors[rank] = self._make(rank)
            asked[rank] = self._actors[rank].whereabouts.remote()
        try:
            found = self._ray.get(list(asked.values()), timeout=self._timeout_s)
        except (self._ray.exceptions.GetTimeoutError, died) as error:
            raise EngineError(
                f"Ray did not start the actors of ranks {list(asked)} within {self._timeout_s:g} "
                f"s: {_first_line(error)}"
            ) from error
        self._places.update(zip(asked, found))
        return self._places

    def _whereabouts(self, rank: int) -> Whereabouts:
        asked = self._actors[rank].whereabouts.remote()
        found: Whereabouts = self._ray.get(asked, timeout=self._timeout_s)
        return found

    def _make(self, rank: int) -> Any:
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        make = self._ray.remote(concurrency_groups={_CALL_GROUP: _CALLS})(_Actor)
        place = PlacementGroupSchedulingStrategy(self._placement, placement_group_bundle_index=rank)
        own = {argument: self._bundle.get(name, 0) for name, argument in _ARGUMENTS.items()}
        others = {name: n for name, n in self._bundle.items() if name not in _ARGUMENTS}
        return make.options(**own, resources=others, scheduling_strategy=place).remote(rank)

    def begin(self, rank: int, life: Life) -> None:
        self._lives[self._actors[rank].live.remote(life, *self.program)] = rank

    def wait(self, timeout_s: float) -> Sequence[int]:
        if not self._lives:
            return ()
        done, _ = self._ray.wait(list(self._lives), timeout=timeout_s)
        ranks = []
        for reference in done:
            rank = self._lives.pop(reference)
            self._ended[rank] = reference
            ranks.append(rank)
        return ranks

    def outcome(self, rank: int) -> Outcome:
        reference = self._ended.pop(rank)
        try:
            outcome: Outcome = self._ray.get(reference)
        except self._ray.exceptions.RayActorError as error:
            return Outcome(failure=_first_line(error), is_lost=True)
        except self._ray.exceptions.RayError as error:
            # The function, its arguments or its result cannot be pickled.
            return Outcome(failure=str(error), error=error)
        return outcome

    def end(self, ranks: Sequence[int]) -> None:
        self._lives = {one: rank for one, rank in self._lives.items() if rank not in ranks}
        for rank in ranks:
            actor = self._actors.pop(rank, None)
            if actor is not None:
                self._ray.kill(actor)

    def call(
        self,
        rank: int,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        timeout: float | None,
    ) -> Any:
        actor = self._actors.get(rank)
        if actor is None:
            raise WorkerLostError(
                f"rank {rank} of this WorkerGroup has no process", may_have_run=False
            )
        grouped = actor.call.options(concurrency_group=_CALL_GROUP)
        reference = grouped.remote(function, args, kwargs)
        try:
            return self._ray.get(reference, timeout=timeout)
        except self._ray.exceptions.RayActorError as error:
            raise WorkerLostError(f"rank {rank} was lost: {_first_line(error)}") from error
        except self._ray.exceptions.GetTimeoutError as error:
            name = getattr(function, "__qualname__", repr(function))
            raise TimeoutError(f"rank {rank}: {name} did not end within {timeout:g} s") from error

    def close(self) -> None:
        if self._ray.is_initialized():
            self.end(list(self._actors))
            self._ray.util.remove_placement_group(self._placement)


def _checked(resources: Mapping[str, float]) -> dict[str, float]:
    """Return the resources of a worker as a dict; raise TypeError or ValueError for wrong ones."""
    if not isinstance(resources, Mapping):
        raise TypeError(f'resources is {resources!r}; expected a dict such as {{"CPU": 1}}')
    for name, amount in resources.items():
        if isinstance(amount, bool) or not isinstance(amount, (int, float)):
            raise TypeError(f"resources has {amount!r} for {name!r}; expected a number")
        if not 0.0 <= amount < math.inf:
            raise ValueError(f"resources has {amount!r} for {name!r}; expected 0 or more")
    if not any(resources.values()):
        raise ValueError(f"resources is {dict(resources)}; expected at least one above 0")
    return dict(resources)


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:6])[:600] or type(error).__name__

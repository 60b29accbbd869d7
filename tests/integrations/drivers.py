"""Drivers whose workers fail, do not fit, are nested, or outlive the driver.

 python -m tests.integrations.drivers ray|dask errors|groups|lasting|plugin|cluster FOLDER

`errors` prints the result of each mistake, `groups` the results of restarts and of nested groups,
and `plugin` the results of the Dask plugin. `lasting` runs tests/integrations/lasting.py in two
workers. `cluster` runs a Dask cluster until `stop`, and writes its address to the folder.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import fastdist as torch
import fastdist.distributed as dist
from fastdist.core.errors import EngineError, WorkerFailedError
from tests.integrations import lasting
from tests.integrations.drive import dask_cluster
from tests.integrations.ray_cluster import SETTINGS


class OnRay:
    """Worker groups on Ray."""

    def __init__(self, stack: ExitStack) -> None:
        import ray

        ray.init(logging_level="error")
        stack.callback(ray.shutdown)

    def run(self, size: int, train: Callable[..., Any], *args: Any, **options: Any) -> list[Any]:
        """Run a function in a new group."""
        from fastdist.integrations.ray import WorkerGroup

        with WorkerGroup(size, **options) as group:
            assert group.workers[0].rpc(os.getpid) != os.getpid()
            return group.run(train, *args)


class OnDask:
    """Worker groups on Dask: a new cluster of four processes, or the cluster in FOLDER/address."""

    def __init__(self, stack: ExitStack, address: str | None = None) -> None:
        from distributed import Client

        if address is None:
            cluster = stack.enter_context(dask_cluster(4))
            self.address = address = cluster.scheduler_address
        self.client = stack.enter_context(Client(address))

    def run(self, size: int, train: Callable[..., Any], *args: Any, **options: Any) -> list[Any]:
        """Run a function in a new group."""
        from fastdist.integrations.dask import run

        return run(self.client, train, size, *args, **options)


def raise_on_purpose() -> None:
    """Raise in rank 1 while rank 0 waits for rank 1."""
    from fastdist.distributed import rpc

    rank = int(os.environ["RANK"])
    rpc.init_rpc(f"worker{rank}")
    if rank == 1:
        raise ValueError("on purpose")
    rpc.shutdown()


def end_in_first_life() -> tuple[int, float]:
    """Return a sum over the ranks. In the first life of the group, kill rank 1 instead."""
    dist.init_process_group()
    if dist.get_rank() == 1 and dist.restart_count() == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    x = torch.ones(1)
    dist.all_reduce(x)
    dist.destroy_process_group()
    return dist.restart_count(), x.item()


def call_others() -> tuple[str, list[int]]:
    """Return this worker's name and the process ids of both workers; runs as a Dask task."""
    from fastdist.distributed import rpc

    names = ("worker0", "worker1")
    return rpc.get_worker_info().name, [rpc.rpc_sync(name, os.getpid) for name in names]


def pids_by_name(client: Any) -> dict[str, list[int]]:
    """Return the answers of the workers that a plugin has joined; other workers give no answer."""
    found = {}
    for address in client.nthreads():
        with suppress(Exception):
            future = client.submit(call_others, workers=[address], pure=False, retries=0)
            name, pids = future.result(timeout=10)
            found[name] = pids
    return found


def print_plugin(client: Any) -> None:
    """Kill a worker that a plugin has joined; print that another process took its rank."""
    from fastdist.integrations.dask import FastdistPlugin

    client.register_plugin(FastdistPlugin(world_size=2))
    first = pids_by_name(client)
    killed = first["worker0"][1]
    print("joined", first["worker0"] == first["worker1"], flush=True)
    os.kill(killed, signal.SIGKILL)
    again = first
    while len(again) < 2 or killed in again["worker0"] or again["worker0"] != again["worker1"]:
        again = pids_by_name(client)
    client.unregister_worker_plugin("fastdist")
    print("back", sorted(again), flush=True)


def place() -> tuple[str, str]:
    """Return this worker's rank and world size, from the environment."""
    return os.environ["RANK"], os.environ["WORLD_SIZE"]


def place_of_nested(engine: str) -> Any:
    """Return the places of a nested group that rank 0 starts, and this worker's own place."""
    if os.environ["RANK"] != "0":
        return place()
    if engine == "ray":
        from fastdist.integrations.ray import WorkerGroup

        with WorkerGroup(2) as group:
            return group.run(place), place()
    from distributed import get_client

    from fastdist.integrations.dask import run

    return run(get_client(), place, 2), place()


def print_errors(run: Callable[..., list[Any]]) -> None:
    """Print the result of each mistake."""
    try:
        run(2, raise_on_purpose)
    except WorkerFailedError as error:
        has_frame = "in raise_on_purpose" in str(error)
        print("raised", error.rank, repr(error.__cause__), has_frame, flush=True)
    try:
        run(9, place, start_timeout=1)
    except EngineError as error:
        print("too few:", error, flush=True)
    try:
        named: Any = {"lr": 0.1}
        run(named, place)
    except (TypeError, ValueError) as error:
        print("no number:", error, flush=True)
    print("again", run(2, place), flush=True)


def print_groups(engine: str, run: Callable[..., list[Any]]) -> None:
    """Print the results of a restarted group, and of a group inside a group.

    On Ray, the workers also reserve memory, which Ray takes by an own argument.
    """
    print("group", run(2, end_in_first_life, max_restarts=1, restart="group"), flush=True)
    if engine == "ray":
        print("memory", run(2, place, resources={"CPU": 1, "memory": 1e8}), flush=True)
    print("nested", run(2, partial(place_of_nested, engine)), flush=True)


def main(arguments: Sequence[str]) -> int:
    """Run the command line."""
    engine, case, name = arguments
    folder = Path(name)
    with ExitStack() as stack:
        if engine == "ray":
            run = OnRay(stack).run
        else:
            address = folder / "address"
            given = address.read_text() if address.exists() else None
            dask = OnDask(stack, given)
            run = dask.run
            if case == "cluster":
                (folder / "address.new").write_text(dask.address)
                (folder / "address.new").rename(address)
                while not (folder / "stop").exists():
                    threading.Event().wait(0.1)
                return 0
        if case == "errors":
            print_errors(run)
        if case == "groups":
            print_groups(engine, run)
        if case == "plugin":
            print_plugin(dask.client)
        with suppress(KeyboardInterrupt):
            if case == "lasting":
                run(2, lasting.main, [name])
            return 0
        print("interrupted", flush=True)
    return 0


if __name__ == "__main__":
    os.environ.update({name: value for name, value in SETTINGS.items() if name not in os.environ})
    sys.exit(main(sys.argv[1:]))

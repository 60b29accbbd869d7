"""Drivers of Ray and Dask for tests: run the `main` of a module in workers, and exit.

python -m tests.integrations.drive ray|dask WORKERS RESTARTS MODULE ARGUMENTS
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from tests.integrations.ray_cluster import SETTINGS


def run_on_ray(size: int, restarts: int, train: Callable[..., Any], words: list[str]) -> list[Any]:
    """Run a function in actors of a new Ray cluster."""
    import ray

    from fastdist.integrations.ray import WorkerGroup

    if "RAY_ADDRESS" in os.environ:
        ray.init(logging_level="error")
    else:
        ray.init("local", num_cpus=size, include_dashboard=False, logging_level="error")
    try:
        with WorkerGroup(size, max_restarts=restarts) as group:
            return group.run(train, words)
    finally:
        ray.shutdown()


def run_on_dask(size: int, restarts: int, train: Callable[..., Any], words: list[str]) -> list[Any]:
    """Run a function in a Dask cluster of processes on this machine."""
    from distributed import Client

    from fastdist.integrations.dask import run

    with dask_cluster(size) as cluster, Client(cluster) as client:
        return run(client, train, size, words, max_restarts=restarts)


def dask_cluster(size: int) -> Any:
    """Return a cluster of processes on this machine.

    Dask gives up a process whose restart takes longer than 15 s, as it may on a busy machine.
    """
    import dask
    from distributed import LocalCluster

    dask.config.set({"distributed.deploy.lost-worker-timeout": "100s"})
    return LocalCluster(n_workers=size, threads_per_worker=1, dashboard_address=":0")


def main(arguments: Sequence[str]) -> int:
    """Run the module that the command line names; return the sum of the workers' statuses."""
    engine, size, restarts, module, *words = arguments
    run = run_on_ray if engine == "ray" else run_on_dask
    statuses = run(int(size), int(restarts), importlib.import_module(module).main, words)
    assert len(statuses) == int(size)
    return sum(statuses)


if __name__ == "__main__":
    # Ray reads its settings from the environment when it is imported.
    os.environ.update(SETTINGS)
    sys.exit(main(sys.argv[1:]))

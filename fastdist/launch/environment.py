"""The environment of a worker: its rank, the store's address, the number of threads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fastdist.launch.gpus import VARIABLE as VISIBLE_GPUS

TERMINAL_WIDTH = "FASTDIST_TERMINAL_WIDTH"
INIT_TIMEOUT = "FASTDIST_INIT_TIMEOUT"
RUN_ID = "TORCHELASTIC_RUN_ID"
SHUTDOWN_TIMEOUT = "FASTDIST_SHUTDOWN_TIMEOUT"
MAX_RESTARTS = "TORCHELASTIC_MAX_RESTARTS"
ALLOW_RESTART = "FASTDIST_ALLOW_RESTART"
_THREADS = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS")


@dataclass(frozen=True)
class Place:
    """The position of this node's workers in the complete job."""

    first_rank: int
    world_size: int
    node_rank: int
    local_world_size: int
    master_address: str
    master_port: int
    local_address: str | None
    nodes: int = 1
    # From --role: the number of workers with that role on earlier nodes, and on all nodes.
    role: str = "default"
    first_role_rank: int = 0
    role_world_size: int = 0


def worker_environment(
    base: Mapping[str, str],
    place: Place,
    local_rank: int,
    *,
    threads: int,
    terminal_width: int | None,
    restart_count: int,
    gpus: str | None,
    job: Mapping[str, str],
) -> dict[str, str]:
    """Return the environment of one worker.

    `job` has the variables that all workers share (secret, folder).

    Note  FASTDIST_STORE_HOSTED means that the launcher serves the store, so no rank binds the port
    """
    environment = dict(base)
    environment.update(
        RANK=str(place.first_rank + local_rank),
        WORLD_SIZE=str(place.world_size),
        LOCAL_RANK=str(local_rank),
        LOCAL_WORLD_SIZE=str(place.local_world_size),
        GROUP_RANK=str(place.node_rank),
        GROUP_WORLD_SIZE=str(place.nodes),
        ROLE_NAME=place.role,
        ROLE_RANK=str(place.first_role_rank + local_rank),
        ROLE_WORLD_SIZE=str(place.role_world_size or place.world_size),
        MASTER_ADDR=place.master_address,
        MASTER_PORT=str(place.master_port),
        FASTDIST_STORE_HOSTED="1",
        FASTDIST_RESTART_COUNT=str(restart_count),
        TORCHELASTIC_RESTART_COUNT=str(restart_count),
    )
    # torchrun's default. Programs detect a launcher by this variable.
    environment.setdefault(RUN_ID, "none")
    if gpus is not None:
        environment[VISIBLE_GPUS] = gpus
    if place.local_address is not None:
        environment["FASTDIST_ADDRESS"] = place.local_address
    # Output to a pipe is block-buffered: without this variable, a worker's lines would come late or
    # not at all.
    environment.setdefault("PYTHONUNBUFFERED", "1")
    # With this variable, a crash inside a kernel prints the Python stack.
    environment.setdefault("PYTHONFAULTHANDLER", "1")
    for name in _THREADS:
        environment.setdefault(name, str(threads))
    for name in (TERMINAL_WIDTH, ALLOW_RESTART, "TORCHELASTIC_USE_AGENT_STORE"):
        # Remove variables of another job, in which this launcher may be a worker.
        environment.pop(name, None)
    if terminal_width is not None:
        environment[TERMINAL_WIDTH] = environment["COLUMNS"] = str(terminal_width)
    environment.update(job)
    return environment

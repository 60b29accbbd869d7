"""Costs of large groups: 1,000 simulated workers, 256 forked ones, first calls, descriptors."""

from __future__ import annotations

import json
import os
import resource
import sys
import time
import traceback
from typing import Any

from ..harness import Row, Spread
from ..kept_port import KeptPort
from .many_workers import answer

NEEDS = ("zmq", "pytest")
NUM_SIMULATED, NUM_FORKED, NUM_CALLING = 1000, 256, 16
_MOST_ROUNDS = 2


def run(rounds: int) -> list[Row]:
    """Measure the CPU seconds of each simulated worker, and the seconds of forked groups.

    Bounds on two cores: a simulated worker joins in 5 ms and leaves in 3 ms of CPU time, which
    includes the simulated network. The forked group joins in 10 s and leaves in 5 s. A first call
    takes 3 ms of CPU time at each end. The number of descriptors that a first call opens is printed
    too.
    """
    found: dict[str, list[float]] = {}
    for _ in range(min(rounds, _MOST_ROUNDS)):
        for name, seconds in {**simulate(NUM_SIMULATED), **fork(NUM_FORKED), **contact()}.items():
            found.setdefault(name, []).append(seconds)
    return [Row(name, Spread.of(seconds), None, None, None, 2) for name, seconds in found.items()]


def simulate(size: int) -> dict[str, float]:
    """Return the CPU seconds per simulated worker, for joining and for leaving."""
    from fastdist.distributed import rpc
    from tests.distributed.rpc.simulation import simulated_group, simulated_world
    from tests.distributed.rpc.simulation.test_simulated_size import Founders

    # In the simulation, a worker needs a main thread before it can leave.
    simulated_world.start_threads(size)
    with simulated_group.simulated_machine():
        began = time.process_time()
        group = Founders(1, size)
        joined = time.process_time()
        for worker in group.workers:
            group.world.soon(worker, rpc.shutdown)
        group.world.run_until(group.world.now + 30.0)
        left = time.process_time()
        simulated_group.end_group()
    name = f"{size} simulated workers, CPU of each"
    return {f"{name}: join": (joined - began) / size, f"{name}: leave": (left - joined) / size}


def fork(size: int) -> dict[str, float]:
    """Return the seconds until the last forked worker has joined, and from then until the last one
    has left.
    """
    found = _fork(size, 0)
    joined, left = (max(one[name] for one in found) for name in ("joined", "left"))
    return {f"{size} forked workers: join": joined, f"{size} forked workers: leave": left - joined}


def contact() -> dict[str, float]:
    """Return the CPU seconds of a first call, as the average of the caller's and the callee's.

    Each worker calls every other worker once.
    """
    found = _fork(NUM_CALLING, NUM_CALLING)
    num_others = NUM_CALLING - 1
    descriptors = sum(one["descriptors"] for one in found) / len(found) / num_others
    print(f"{descriptors:.1f} descriptors for each peer that calls and is called", flush=True)
    busy_s = sum(one["busy_s"] for one in found)
    return {"first call, CPU of each end": busy_s / len(found) / num_others / 2}


def _fork(size: int, num_called: int) -> list[dict[str, float]]:
    import fastdist.distributed.rpc  # noqa: F401 -- once, for all that are forked

    kept, (read, write) = KeptPort(), os.pipe()
    job = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(kept.number)}
    began = time.monotonic()
    sys.stdout.flush()
    pids = [os.fork() or _live(rank, job, num_called, began, write) for rank in range(size)]
    os.close(write)
    with os.fdopen(read) as lines:
        found = [json.loads(line) for line in lines]
    failed = sum(os.waitpid(pid, 0)[1] != 0 for pid in pids)
    kept.close()
    if failed or len(found) != size:
        raise RuntimeError(f"{failed} of {size} forked workers failed")
    return found


def _live(rank: int, job: dict[str, str], num_called: int, began: float, write: int) -> Any:
    status = 1
    try:
        from fastdist.distributed import rpc

        os.environ.update(job, RANK=str(rank))
        rpc.init_rpc(f"w{rank}")
        joined, busy_s = time.monotonic() - began, _cpu_s()
        descriptors = len(os.listdir("/proc/self/fd"))
        for other in range(num_called):
            if other != rank and rpc.rpc_sync(f"w{other}", answer, (rank,)) != rank + 1:
                raise AssertionError(f"worker {other} answered with something else")
        figures = {
            "joined": joined,
            "busy_s": _cpu_s() - busy_s,
            "descriptors": len(os.listdir("/proc/self/fd")) - descriptors,
        }
        rpc.shutdown()
        figures["left"] = time.monotonic() - began
        os.write(write, json.dumps(figures).encode() + b"\n")
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime

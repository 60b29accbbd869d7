"""The metrics of this process: counts of its work so far, and what it waits for now."""

from __future__ import annotations

import os
import sys
import time
from typing import Any, Final

from fastdist.distributed.restarts import restart_count
from fastdist.distributed.rpc import agent as agents
from fastdist.distributed.rpc import get_metrics as rpc_metrics

# The most peers with separate numbers in a reading; the numbers of further peers are added up.
_MOST_PEERS: Final = 64
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_began: Final = time.monotonic()


def get_metrics() -> dict[str, Any]:
    """Return counts of this worker's work so far, and what it waits for now, as JSON values.

    Returns:
        A dictionary: `pid`, `rank`, `restarts`, `up_s` (seconds since this module was imported),
        `rss_bytes`, `threads`, `files` (open descriptors). `rpc` has the worker's name, everything
        in `rpc.get_metrics()`, bytes, calls and errors by peer, and the peers for which this worker
        waits. `passes` has the number of backward passes that run here, and the number of contexts.
        `groups` has for each group its name, its members, the number of its collectives, the bytes
        of their tensors, and the collective under way. A part is empty if the process does not use
        RPC, passes or groups.

    Threads: any; takes about 0.2 ms.

    Example:
        >>> from fastdist.distributed import monitor
        >>> monitor.get_metrics()["groups"]
        []
    """
    return {
        "pid": os.getpid(),
        "rank": _rank(),
        "restarts": _restarts(),
        "up_s": time.monotonic() - _began,
        **_process(),
        "rpc": _rpc(),
        "passes": _passes(),
        "groups": _groups(),
    }


def _rank() -> int:
    if agents.is_current_agent_set():
        agent: Any = agents.get_current_agent()
        return int(agent.get_worker_info().id)
    if (world := _world()) is not None and world.default is not None:
        return int(world.default.rank())
    text = os.environ.get("RANK", "")
    return int(text) if text.isdigit() else -1


def _world() -> Any:
    """Return the process groups of this process; None if it has none."""
    # The module is not imported here, because the import takes 0.5 MB, and a worker that only uses
    # RPC has no groups.
    found: Any = sys.modules.get("fastdist.distributed.process_group.world")
    return None if found is None else found.here.world


def _restarts() -> int:
    try:
        return restart_count()
    except ValueError:  # the launcher's variable is not a number; init_rpc reports that
        return 0


def _process() -> dict[str, int]:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            rss_bytes = int(file.read().split()[1]) * _PAGE_BYTES
        with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:
            threads = int(file.read().rpartition(")")[2].split()[17])
        files = len(os.listdir("/proc/self/fd"))
    except (OSError, IndexError, ValueError):  # not Linux, or no file descriptor is free
        return {"rss_bytes": 0, "threads": 0, "files": 0}
    return {"rss_bytes": rss_bytes, "threads": threads, "files": files}


def _rpc() -> dict[str, Any]:
    if not agents.is_current_agent_set():
        return {}
    agent: Any = agents.get_current_agent()
    counts = getattr(agent, "counts", None)
    if counts is None:  # an agent of a class that the program has defined
        return {"name": agent.get_worker_info().name, "metrics": rpc_metrics()}
    served, network = counts.served_data(), counts.network_data()
    by_calls = sorted(network, key=lambda peer: network[peer].num_calls, reverse=True)
    peers = {peer: _of_peer(network[peer]) for peer in by_calls[:_MOST_PEERS]}
    if len(by_calls) > _MOST_PEERS:
        rest = [_of_peer(network[peer]) for peer in by_calls[_MOST_PEERS:]]
        peers["(others)"] = {name: sum(one[name] for one in rest) for name in rest[0]}
    waits, silent = {}, {}
    for worker in agent.workers.met():
        if not worker.is_dead and worker.pipe.is_waited_for():
            # `num_pending` does not count synchronous calls, which use separate lanes.
            waits[worker.info.name] = max(1, worker.pipe.num_pending())
        if not worker.is_dead and worker.hangs:
            silent[worker.info.name] = worker.describe()
    stage = agent.leaving.stage.name.lower()
    return {
        "name": agent.get_worker_info().name,
        "stage": stage,
        "metrics": rpc_metrics(),
        "calls": sum(one["calls"] for one in peers.values()),
        "served": served.num_calls,
        "sent_bytes": sum(one["sent_bytes"] for one in peers.values()) + served.total_sent_bytes,
        "received_bytes": sum(one["received_bytes"] for one in peers.values())
        + served.total_recv_bytes,
        "errors": sum(one["errors"] for one in peers.values()),
        "peers": peers,
        "waits_for": waits,
        "silent": silent,
        "given_up": agent.workers.given_up is not None,
        "leaves_after": agent.leaving.for_whom_it_waits() if stage == "coming" else "",
    }


def _of_peer(data: Any) -> dict[str, int]:
    return {
        "calls": data.num_calls,
        "sent_bytes": data.total_sent_bytes,
        "received_bytes": data.total_recv_bytes,
        "errors": data.total_errors,
    }


def _passes() -> dict[str, int]:
    # The module is not imported here, because a job without RPC has no passes.
    found: Any = sys.modules.get("fastdist.distributed.autograd")
    if found is None or not agents.is_current_agent_set():
        return {}
    info = found._get_debug_info()
    return {
        "running": info["num_current_backward_passes"],
        "contexts": info["num_autograd_contexts"],
    }


def _groups() -> list[dict[str, Any]]:
    now = time.monotonic()
    found = []
    world = _world()
    for group in [] if world is None else list(world.by_name.values()):
        under_way = group.under_way
        found.append(
            {
                "name": group.group_name,
                "backend": group.name(),
                "ranks": list(group._ranks),
                "collectives": group._get_sequence_number_for_group(),
                "bytes": group.num_bytes,
                "under_way": None
                if under_way is None
                else {"what": under_way[0], "line": under_way[1], "for_s": now - under_way[2]},
            }
        )
    return found

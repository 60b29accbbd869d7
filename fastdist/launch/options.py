"""The command line of `fastdist run`, parsed and checked before anything starts."""

from __future__ import annotations

import argparse
import os
import re
import resource
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder
from importlib.util import find_spec

from fastdist.distributed.sockets.addresses import require_own_address
from fastdist.distributed.store.environment import as_seconds, init_timeout_s
from fastdist.distributed.store.wait_log import WITHOUT_LIMIT_S
from fastdist.launch.cluster_places import read_cluster
from fastdist.launch.environment import SHUTDOWN_TIMEOUT
from fastdist.launch.flags import GROUP, NODES_WAIT_S, REJOIN_S, WORKER, make_parser
from fastdist.launch.gpus import gpus_of_workers, visible_gpus
from fastdist.launch.log_files import LogOptions, log_options
from fastdist.launch.torchrun_flags import read_rendezvous

_LEAST_WORKER_BYTES = 10_000_000
# torchrun's rendezvous backend, with which nodes without --node-rank agree on their ranks.
_SHARES_OUT = "c10d"
# The open files per worker: its two pipes, and its connections to the store.
_FILES_PER_WORKER = 4
_OTHER_FILES = 64


@dataclass(frozen=True)
class LaunchOptions:
    """The program to start, and its settings. `master_port` is None for any free port."""

    program: str
    arguments: tuple[str, ...]
    is_module: bool
    workers_per_node: int
    nodes: int
    # None if the nodes agree on their ranks in the store.
    node_rank: int | None
    master_address: str
    master_port: int | None
    local_address: str | None
    # How long nodes wait for each other, and how long workers wait; None for the workers' default.
    init_timeout_s: float
    workers_wait: str | None
    as_torch: bool
    # How often all workers (`group`) or only a failed worker (`worker`) are started again.
    max_restarts: int
    restart: str
    # The workers' time after a signal; None for the defaults.
    shutdown_timeout_s: float | None
    # How long to wait for the return of a lost node.
    rejoin_timeout_s: float
    # The GPUs of each worker, by local rank; empty if all workers see the same GPUs.
    gpus: tuple[str, ...]
    logs: LogOptions | None
    # Whether the program gets --local-rank=K, as from torch.distributed.launch.
    passes_local_rank: bool = False
    # --rdzv-id, or None if it is not given.
    run_id: str | None = None
    # The smallest number of nodes.
    least_nodes: int = 1
    role: str = "default"
    # How often Slurm or Kubernetes has started this job before.
    earlier_starts: int = 0

    @property
    def rounds_to_follow(self) -> int:
        """How often all workers of the job may start again."""
        return self.max_restarts if self.restart == GROUP else 0

    @property
    def comebacks(self) -> int:
        """How often a worker may start again while the others continue."""
        return self.max_restarts if self.restart == WORKER else 0


def parse_options(
    arguments: Sequence[str], prog: str = "fastdist run", *, passes_local_rank: bool = False
) -> LaunchOptions:
    """Parse arguments; on a mistake print what was expected and exit with status 2."""
    parser = make_parser(prog, has_use_env=passes_local_rank)
    given = parser.read(arguments)
    given.passes_local_rank = passes_local_rank and not given.use_env
    try:
        return _checked(given)
    except ValueError as error:
        parser.refuse(str(error))


def _checked(given: argparse.Namespace) -> LaunchOptions:
    workers = _workers(given.nproc_per_node)
    earlier_starts = read_cluster(given)
    least_nodes, nodes = _nodes(given.nnodes)
    read_rendezvous(given)
    _require_alone(given, nodes)
    node_rank = _node_rank(given, nodes)
    if nodes > 1 and (given.master_addr is None or given.master_port is None):
        raise ValueError(
            f"--nnodes {nodes} needs --master-addr and --master-port, the same on every node"
        )
    master_address = given.master_addr or "127.0.0.1"
    master_port = None if given.master_port is None else _port(given.master_port, nodes)
    local_address = _local_address(given.local_addr)
    if node_rank == 0:
        require_own_address("--master-addr", master_address)
    require_memory_for(workers)
    max_restarts = _count("--max-restarts", given.max_restarts, least=0)
    logs = log_options(given.log_dir, given.redirects, given.tee, workers)
    require_files_for(workers, 0 if logs is None else 2)
    (_require_module if given.module else _require_script)(given.program)
    _require_no_shadow(
        _current_folder() if given.module else os.path.dirname(os.path.realpath(given.program))
    )
    return LaunchOptions(
        program=given.program,
        arguments=tuple(given.arguments),
        is_module=given.module,
        workers_per_node=workers,
        nodes=nodes,
        node_rank=node_rank,
        master_address=master_address,
        master_port=master_port,
        local_address=local_address,
        max_restarts=max_restarts,
        restart=_restart(given.restart, max_restarts),
        gpus=_gpus(given.gpus_per_worker, workers),
        logs=logs,
        init_timeout_s=_init_timeout_s(given.init_timeout),
        workers_wait=given.init_timeout,
        shutdown_timeout_s=_shutdown_timeout_s(given.shutdown_timeout),
        as_torch=given.as_torch,
        passes_local_rank=given.passes_local_rank,
        run_id=given.rdzv_id,
        least_nodes=least_nodes,
        rejoin_timeout_s=_rejoin_timeout_s(given.rejoin_timeout),
        role=given.role,
        earlier_starts=earlier_starts,
    )


def _local_address(given: str | None) -> str | None:
    name = "FASTDIST_ADDRESS" if given is None else "--local-addr"
    address = given if given is not None else os.environ.get(name) or None
    if address is not None:
        require_own_address(name, address)
    return address


def _init_timeout_s(given: str | None) -> float:
    told = init_timeout_s() if given is None else as_seconds("--init-timeout", given)
    return NODES_WAIT_S if told is None else told or WITHOUT_LIMIT_S


def _shutdown_timeout_s(given: str | None) -> float | None:
    name = SHUTDOWN_TIMEOUT if given is None else "--shutdown-timeout"
    text = os.environ.get(name) if given is None else given
    if given is None and not text:
        return None
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]*)?", text or ""):
        raise ValueError(f"{name} is {text!r}; expected seconds, such as 25 (0: kill at once)")
    return float(text or 0)


def _rejoin_timeout_s(given: str | None) -> float:
    if given is None:
        return REJOIN_S
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]*)?", given):
        raise ValueError(f"--rejoin-timeout is {given!r}; expected seconds, such as 60")
    return float(given)


def _require_script(path: str) -> None:
    if not os.path.exists(path):
        raise ValueError(f"there is no script {path!r} here; for a module say -m {path}")
    if not os.path.isfile(path):
        raise ValueError(
            f"{path!r} is not a file; a program is a Python script, or a module with -m"
        )
    if not os.access(path, os.R_OK):
        raise ValueError(f"the script {path!r} may not be read by this user")


def _require_module(name: str) -> None:
    """Raise ValueError if workers could not find the module; submodules are not checked.

    Nothing is imported here, because an import may have effects that belong in a worker.
    """
    outermost = name.partition(".")[0]
    if name.endswith(".py") or os.sep in name:
        meant = os.path.splitext(name)[0].replace(os.sep, ".")
        raise ValueError(f"-m takes a module's name, got {name!r}: leave out -m, or say -m {meant}")
    here = [_current_folder(), *sys.path]
    if not outermost or not (PathFinder.find_spec(outermost, here) or find_spec(outermost)):
        raise ValueError(
            f"No module named {name}: nothing of that name is in {here[0]} or installed for "
            f"{sys.executable}"
        )


def _current_folder() -> str:
    try:
        return os.getcwd()
    except OSError as error:
        raise ValueError(
            f"the current folder has been removed ({error.strerror}), and a module is looked for "
            "there: `cd` into another one"
        ) from error


def _require_no_shadow(folder: str) -> None:
    """Raise ValueError if `folder`, which workers search first, hides the package fastdist.

    In the folder that contains a checkout installed by `pip install -e`, Python imports the outer
    folder of the checkout as an empty namespace package fastdist.
    """
    found = PathFinder.find_spec("fastdist", [folder, *sys.path])
    if found is not None and found.loader is None:
        raise ValueError(
            f"the folder {os.path.join(folder, 'fastdist')} hides the package fastdist from "
            f"programs in {folder}: move the program elsewhere, or rename the folder"
        )


def _workers(text: str) -> int:
    if text in ("auto", "cpu"):
        return usable_cores()
    if text == "gpu":
        return _count_gpus()
    return _count("--nproc-per-node", text)


def _count_gpus() -> int:
    count = len(visible_gpus(os.environ))
    if count == 0:
        raise ValueError(
            "--nproc-per-node gpu starts a worker per GPU, and this machine shows none; `fastdist "
            "info` says what is missing"
        )
    return count


def _gpus(per_worker: str | None, workers: int) -> tuple[str, ...]:
    if per_worker is None:
        return ()
    return gpus_of_workers(_count("--gpus-per-worker", per_worker), workers, os.environ)


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def require_memory_for(workers: int) -> None:
    """Raise ValueError if this machine does not have enough memory for that many workers.

    Only the memory of Python processes without imports is counted: this alone may be too much.
    """
    page_bytes, pages = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_PHYS_PAGES")
    if workers * _LEAST_WORKER_BYTES > page_bytes * pages:
        raise ValueError(
            f"--nproc-per-node {workers} is more than this machine holds: it has "
            f"{page_bytes * pages / 1e9:.0f} GB of memory, and a Python takes "
            f"{_LEAST_WORKER_BYTES / 1e6:.0f} MB before it imports anything"
        )


def require_files_for(workers: int, logs_per_worker: int = 0) -> None:
    """Raise ValueError if the launcher may not open enough files for that many workers."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = (_FILES_PER_WORKER + logs_per_worker) * workers + _OTHER_FILES
    if files != resource.RLIM_INFINITY and needed > files:
        raise ValueError(
            f"--nproc-per-node {workers} needs {needed} open files, and this process may open "
            f"{files}: raise it with `ulimit -n {needed}`, or start fewer"
        )


def _count(flag: str, text: str, least: int = 1) -> int:
    if not re.fullmatch("[0-9]{1,9}", text) or int(text) < least:
        raise ValueError(f"{flag} must be a whole number from {least} up, got {text!r}")
    return int(text)


def _restart(whom: str, max_restarts: int) -> str:
    if whom not in (GROUP, WORKER):
        raise ValueError(f"--restart must be {GROUP} or {WORKER}, got {whom!r}")
    if whom == WORKER and not max_restarts:
        raise ValueError(f"--restart {WORKER} needs --max-restarts: how often each may come back")
    return whom


def _nodes(text: str) -> tuple[int, int]:
    """Return the smallest and the largest number of nodes."""
    found = re.fullmatch("([0-9]{1,9})(?::([0-9]{1,9}))?", text)
    least, most = (int(found[1]), int(found[2] or found[1])) if found is not None else (0, 0)
    if least < 1:
        raise ValueError(f"--nnodes must be a whole number from 1 up, or MIN:MAX, got {text!r}")
    if least > most:
        raise ValueError(f"--nnodes {text}: expected MIN:MAX, where MIN is not more than MAX")
    return least, most


def _require_alone(given: argparse.Namespace, nodes: int) -> None:
    """Raise ValueError if a flag that implies other nodes contradicts --standalone."""
    others = {
        "--nnodes": str(nodes) if nodes > 1 else None,
        "--master-addr": given.master_addr,
        "--master-port": None if given.master_port == "0" else given.master_port,
    }
    for flag, value in others.items():
        if given.standalone and value is not None:
            raise ValueError(
                f"--standalone means one node with its own store: leave out {flag} {value}"
            )


def _node_rank(given: argparse.Namespace, nodes: int) -> int | None:
    """Return the index of this node; None if the nodes agree on their indices in the store."""
    text = given.node_rank
    if text is None:
        if nodes == 1:
            return 0
        if given.rdzv_backend == _SHARES_OUT:
            return None
        raise ValueError(
            f"--nnodes {nodes} needs --node-rank: 0 to {nodes - 1}, another on each node"
        )
    if not (text.isascii() and text.isdigit()) or int(text) >= nodes:
        raise ValueError(
            f"--node-rank must be from 0 to {nodes - 1} (--nnodes is {nodes}), got {text!r}"
        )
    return int(text)


def _port(text: str, nodes: int) -> int | None:
    if text == "0" and nodes == 1:
        return None
    if text == "0":
        raise ValueError(
            "--master-port 0 takes a free port, which other nodes cannot know: give all nodes "
            "one from 1 to 65535"
        )
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= 65535:
        raise ValueError(f"--master-port must be from 1 to 65535, got {text!r}")
    return int(text)

"""The command line of `fastdist run`, read and checked before anything starts."""

from __future__ import annotations

import argparse
import os
import resource
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder
from importlib.util import find_spec
from typing import Any

from fastdist.distributed.sockets.addresses import require_own_address
from fastdist.distributed.store.environment import as_seconds, init_timeout_s
from fastdist.distributed.store.waiting_line import WITHOUT_LIMIT_S
from fastdist.launch.command_parser import CommandParser

_LEAST_WORKER_BYTES = 10_000_000
# Two pipes, and its connections with the store.
_FILES_PER_WORKER = 4
_OTHER_FILES = 64
_NODES_WAIT_S = 300.0
_EXAMPLES = """
examples:
  fastdist run -n 3 train.py --epochs 5
  fastdist run -n 2 -m mypackage.train
  fastdist run -n 4 --nnodes 2 --node-rank 0 --master-addr 10.0.0.1 --master-port 29500 train.py

Several nodes share one secret: put 64 hexadecimal digits into a file of mode 0600 and name it in
FASTDIST_JOB_SECRET_FILE on every node.
"""


@dataclass(frozen=True)
class LaunchOptions:
    """What to start, and where. `master_port` is None where a free one is to be taken."""

    program: str
    arguments: tuple[str, ...]
    is_module: bool
    workers_per_node: int
    nodes: int
    node_rank: int
    master_address: str
    master_port: int | None
    local_address: str | None
    # How long nodes wait for each other, and what workers are told of it where that is given.
    init_timeout_s: float
    workers_wait: str | None
    as_torch: bool


def parse_options(arguments: Sequence[str], prog: str = "fastdist run") -> LaunchOptions:
    """Read arguments; on a mistake print what was expected and exit with status 2."""
    parser = _parser(prog)
    given = parser.read(arguments)
    try:
        return _checked(given)
    except ValueError as error:
        parser.refuse(str(error))


def _parser(prog: str) -> CommandParser:
    parser = CommandParser(
        prog,
        f"{prog} -n 3 train.py",
        usage=f"{prog} [options] PROGRAM ...",
        description="Start a job: n workers on each node, with a store to meet at.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add(
        parser,
        ("-n", "--nproc-per-node"),
        default="1",
        metavar="N",
        help="workers here, or `auto`: a worker per core (default 1)",
    )
    _add(parser, ("--nnodes",), default="1", metavar="N", help="how many nodes (default 1)")
    _add(
        parser,
        ("--node-rank",),
        metavar="K",
        help="which of them this is, from 0; node 0 hosts the store",
    )
    _add(parser, ("--master-addr",), metavar="HOST", help="address of node 0 (default 127.0.0.1)")
    _add(
        parser,
        ("--master-port",),
        metavar="PORT",
        help="port of the store (one node: a free one)",
    )
    _add(
        parser,
        ("--local-addr",),
        metavar="HOST",
        help="address of this node that workers bind and publish (default FASTDIST_ADDRESS)",
    )
    _add(
        parser,
        ("--init-timeout",),
        metavar="S",
        help="how long nodes, and then workers, wait for each other in seconds, 0 without limit "
        f"(default FASTDIST_INIT_TIMEOUT, else {_NODES_WAIT_S:g} for nodes and 60 for workers)",
    )
    parser.add_argument(
        "--as-torch", action="store_true", help="let `import torch` find fastdist in the workers"
    )
    parser.add_argument(
        "-m", "--module", action="store_true", help="PROGRAM is a module's name, as in `python -m`"
    )
    parser.add_argument("program", metavar="PROGRAM", help="a Python script, or with -m a module")
    parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, metavar="...", help="PROGRAM's own arguments"
    )
    return parser


def _add(parser: CommandParser, flags: tuple[str, ...], **settings: Any) -> None:
    """Add an option, and its twin with underscores, as torchrun takes it, out of sight."""
    parser.add_argument(*flags, **settings)
    name = flags[-1].removeprefix("--").replace("-", "_")
    if f"--{name}" != flags[-1]:
        hidden = argparse.SUPPRESS
        parser.add_argument(f"--{name}", dest=name, default=hidden, help=hidden)


def _checked(given: argparse.Namespace) -> LaunchOptions:
    workers = _workers(given.nproc_per_node)
    nodes = _count("--nnodes", given.nnodes)
    node_rank = _node_rank(given.node_rank, nodes)
    if nodes > 1 and (given.master_addr is None or given.master_port is None):
        raise ValueError(
            f"--nnodes {nodes} needs --master-addr and --master-port, the same on every node"
        )
    master_address = given.master_addr or "127.0.0.1"
    master_port = None if given.master_port is None else _port(given.master_port)
    local_address = _local_address(given.local_addr)
    if node_rank == 0:
        require_own_address("--master-addr", master_address)
    require_room_for(workers)
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
        init_timeout_s=_init_timeout_s(given.init_timeout),
        workers_wait=given.init_timeout,
        as_torch=given.as_torch,
    )


def _local_address(given: str | None) -> str | None:
    name = "FASTDIST_ADDRESS" if given is None else "--local-addr"
    address = given if given is not None else os.environ.get(name) or None
    if address is not None:
        require_own_address(name, address)
    return address


def _init_timeout_s(given: str | None) -> float:
    told = init_timeout_s() if given is None else as_seconds("--init-timeout", given)
    return _NODES_WAIT_S if told is None else told or WITHOUT_LIMIT_S


def _require_script(path: str) -> None:
    if not os.path.exists(path):
        raise ValueError(f"there is no script {path!r} here; for a module say -m {path}")
    if not os.path.isfile(path):
        raise ValueError(f"{path!r} is no file; a program is a Python script, or a module with -m")
    if not os.access(path, os.R_OK):
        raise ValueError(f"the script {path!r} may not be read by this user")


def _require_module(name: str) -> None:
    """Raise ValueError if workers could not find the module; a package's inside is not looked at.

    Nothing is imported here: what a program does at its import is for its workers.
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
    """Raise ValueError if workers that look into folder first would miss the package fastdist.

    Beside a checkout that `pip install -e` installed, Python takes the checkout's outer folder for
    a namespace package of that name, and finds nothing in it.
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
    return _count("--nproc-per-node", text)


def usable_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def require_room_for(workers: int) -> None:
    """Raise ValueError if this machine cannot hold that many workers.

    They would take it down as they start: each of a Python that has imported nothing, to begin with
    """
    page_bytes, pages = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_PHYS_PAGES")
    if workers * _LEAST_WORKER_BYTES > page_bytes * pages:
        raise ValueError(
            f"--nproc-per-node {workers} is more than this machine holds: it has "
            f"{page_bytes * pages / 1e9:.0f} GB of memory, and a Python takes "
            f"{_LEAST_WORKER_BYTES / 1e6:.0f} MB before it imports anything"
        )
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = _FILES_PER_WORKER * workers + _OTHER_FILES
    if files != resource.RLIM_INFINITY and needed > files:
        raise ValueError(
            f"--nproc-per-node {workers} needs {needed} open files, and this process may open "
            f"{files}: raise it with `ulimit -n {needed}`, or start fewer"
        )


def _count(flag: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise ValueError(f"{flag} must be a whole number from 1 up, got {text!r}")
    return int(text)


def _node_rank(text: str | None, nodes: int) -> int:
    if text is None:
        if nodes > 1:
            raise ValueError(
                f"--nnodes {nodes} needs --node-rank: 0 to {nodes - 1}, another on each node"
            )
        return 0
    if not (text.isascii() and text.isdigit()) or int(text) >= nodes:
        raise ValueError(
            f"--node-rank must be from 0 to {nodes - 1} (--nnodes is {nodes}), got {text!r}"
        )
    return int(text)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= 65535:
        raise ValueError(f"--master-port must be from 1 to 65535, got {text!r}")
    return int(text)

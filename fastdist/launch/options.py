"""The command line of `fastdist run`, read and checked before anything starts."""

from __future__ import annotations

import argparse
import os
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder

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


def parse_options(arguments: Sequence[str], prog: str = "fastdist run") -> LaunchOptions:
    """Read arguments; on a mistake print what was expected and exit with status 2."""
    parser = _parser(prog)
    given = parser.parse_args(list(arguments))
    try:
        return _checked(given)
    except ValueError as error:
        parser.error(str(error))


def _parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Start a job: n workers on each node, with a store to meet at.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    both = _with_underscores
    add(
        "-n",
        *both("--nproc-per-node"),
        default="1",
        metavar="N",
        help="workers here, or `auto`: a worker per core",
    )
    add("--nnodes", default="1", metavar="N", help="how many nodes take part (default 1)")
    add(
        *both("--node-rank"),
        default=None,
        metavar="K",
        help="which of them this is, from 0; node 0 hosts the store",
    )
    add(
        *both("--master-addr"),
        default=None,
        metavar="HOST",
        help="address of node 0 (default 127.0.0.1)",
    )
    add(
        *both("--master-port"),
        default=None,
        metavar="PORT",
        help="port of the store (one node: a free one)",
    )
    add(
        *both("--local-addr"),
        default=None,
        metavar="HOST",
        help="address of this node that workers bind and publish",
    )
    add("-m", "--module", action="store_true", help="PROGRAM is a module's name, as in `python -m`")
    add("program", metavar="PROGRAM", help="a Python script, or with -m a module")
    add("arguments", nargs=argparse.REMAINDER, metavar="...", help="PROGRAM's own arguments")
    return parser


def _with_underscores(flag: str) -> tuple[str, str]:
    return flag, "--" + flag[2:].replace("-", "_")


def _checked(given: argparse.Namespace) -> LaunchOptions:
    nodes = _count("--nnodes", given.nnodes)
    node_rank = _node_rank(given.node_rank, nodes)
    if nodes > 1 and (given.master_addr is None or given.master_port is None):
        raise ValueError(
            f"--nnodes {nodes} needs --master-addr and --master-port, the same on every node"
        )
    master_address = given.master_addr or "127.0.0.1"
    if given.local_addr is not None:
        require_own_address("--local-addr", given.local_addr)
    if node_rank == 0:
        require_own_address("--master-addr", master_address)
    if not given.module and not os.path.isfile(given.program):
        raise ValueError(
            f"there is no script {given.program!r} here; for a module say -m {given.program}"
        )
    _require_no_shadow(
        os.getcwd() if given.module else os.path.dirname(os.path.realpath(given.program))
    )
    return LaunchOptions(
        program=given.program,
        arguments=tuple(given.arguments),
        is_module=given.module,
        workers_per_node=_workers(given.nproc_per_node),
        nodes=nodes,
        node_rank=node_rank,
        master_address=master_address,
        master_port=None if given.master_port is None else _port(given.master_port),
        local_address=given.local_addr,
    )


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


def require_own_address(flag: str, address: str) -> None:
    """Raise ValueError unless address is one of this machine's."""
    try:
        candidates = socket.getaddrinfo(address, 0, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ValueError(
            f"{flag}: {address!r} is no address that can be looked up: {error}"
        ) from error
    for family, kind, protocol, _, where in candidates:
        with socket.socket(family, kind, protocol) as probe:
            try:
                probe.bind(where)
            except OSError:
                continue
            return
    raise ValueError(f"{flag}: {address!r} is not an address of this machine")

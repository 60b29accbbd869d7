"""The flags of `fastdist run`, and their help texts."""

from __future__ import annotations

import argparse
from typing import Any

from fastdist.launch.command_parser import CommandParser
from fastdist.launch.ending import CTRL_C_S, SHUTDOWN_S
from fastdist.launch.torchrun_flags import INSTEAD

# How long nodes wait for each other to join.
NODES_WAIT_S = 300.0
# How long to wait for a lost node to return, and at the start for more nodes than the minimum.
REJOIN_S = 60.0
# The values of --restart: the workers that are started again after a failure.
GROUP, WORKER = "group", "worker"
_EXAMPLES = """
examples:
  fastdist run -n 3 train.py --epochs 5
  fastdist run -n 2 -m mypackage.train
  fastdist run -n 4 --nnodes 2 --node-rank 0 --master-addr 10.0.0.1 --master-port 29500 train.py

Several nodes share one secret: put 64 hexadecimal digits into a file of mode 0600 and name it in
FASTDIST_JOB_SECRET_FILE on every node.
"""


def make_parser(prog: str, *, has_use_env: bool = False) -> CommandParser:
    """Return the parser of the command line, with the help texts."""
    parser = CommandParser(
        prog,
        f"{prog} -n 3 train.py",
        INSTEAD,
        usage=f"{prog} [options] PROGRAM ...",
        description="Start a job: n workers on each node, with a store to meet at.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_places(parser)
    _add_torchrun_places(parser)
    _add_clusters(parser)
    _add_gpus(parser)
    _add_restarts(parser)
    _add_shutdown(parser)
    _add_logs(parser)
    parser.add_argument(
        "--standalone", action="store_true", help="require one node, which is the default"
    )
    parser.add_argument(
        "--as-torch", action="store_true", help="let `import torch` find fastdist in the workers"
    )
    parser.add_argument(
        "-m", "--module", action="store_true", help="PROGRAM is a module's name, as in `python -m`"
    )
    if has_use_env:
        words = "do not pass --local-rank=K to PROGRAM, which reads LOCAL_RANK instead"
        parser.add_argument("--use-env", "--use_env", action="store_true", help=words)
    parser.add_argument("program", metavar="PROGRAM", help="a Python script, or with -m a module")
    parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, metavar="...", help="PROGRAM's own arguments"
    )
    return parser


def _add_places(parser: CommandParser) -> None:
    _add(
        parser,
        ("-n", "--nproc-per-node"),
        default="1",
        metavar="N",
        help="workers here, or one per core: `auto`, `cpu`, or per GPU: `gpu` (default 1)",
    )
    _add(
        parser,
        ("--nnodes",),
        default="1",
        metavar="N",
        help="how many nodes (default 1), or MIN:MAX: the job begins and goes on with at least MIN",
    )
    _add(
        parser,
        ("--rejoin-timeout",),
        metavar="S",
        help="with --max-restarts: how many seconds a launcher may take to take the place of a "
        "lost node; with --nnodes MIN:MAX also how long more nodes are waited for at the start, "
        f"once there are MIN (default {REJOIN_S:g})",
    )
    _add(
        parser,
        ("--node-rank",),
        metavar="K",
        help="index of this node, from 0; node 0 hosts the store (--rdzv-backend c10d: by default "
        "node 0 is on the machine of the endpoint, and the others take places as they come)",
    )
    _add(parser, ("--master-addr",), metavar="HOST", help="address of node 0 (default 127.0.0.1)")
    _add(
        parser,
        ("--master-port",),
        metavar="PORT",
        help="port of the store (one node: a free one, which 0 stands for)",
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
        f"(default FASTDIST_INIT_TIMEOUT, else {NODES_WAIT_S:g} for nodes and 60 for workers)",
    )


def _add_torchrun_places(parser: CommandParser) -> None:
    """Add torchrun's options that have another meaning here, or no effect."""
    _add(
        parser,
        ("--rdzv-endpoint",),
        metavar="HOST:PORT",
        help="torchrun's name for --master-addr HOST --master-port PORT",
    )
    _add(
        parser,
        ("--rdzv-backend",),
        metavar="NAME",
        help="for torchrun's command lines; c10d and static mean this store",
    )
    _add(
        parser,
        ("--rdzv-id",),
        metavar="ID",
        help="for torchrun's command lines; workers find it in their environment",
    )
    _add(
        parser,
        ("--rdzv-conf",),
        metavar="K=V,...",
        help="for torchrun's command lines; timeout and join_timeout stand for --init-timeout, "
        "last_call_timeout for --rejoin-timeout",
    )
    _add(
        parser,
        ("--role",),
        default="default",
        metavar="NAME",
        help="a name for the workers of this node, which they find in ROLE_NAME",
    )
    _add(
        parser,
        ("--monitor-interval",),
        metavar="S",
        help="for torchrun's command lines; the end of a worker is noticed at once here",
    )


def _add_clusters(parser: CommandParser) -> None:
    parser.add_argument(
        "--slurm",
        action="store_true",
        help="take nodes, node rank, address and port from Slurm; start it by `srun "
        "--ntasks-per-node=1` (`fastdist manifest sbatch` prints a script)",
    )
    parser.add_argument(
        "--k8s",
        action="store_true",
        help="take node rank and address from the indexed Job of Kubernetes that this pod is in "
        "(`fastdist manifest jobset` prints a manifest)",
    )


def _add_shutdown(parser: CommandParser) -> None:
    _add(
        parser,
        ("--shutdown-timeout",),
        metavar="S",
        help="how many seconds workers have to end, for example to write a checkpoint, after "
        "SIGTERM or SIGHUP to this command, another worker's failure or another node's end; then "
        "they are killed, and at once by a second signal (default FASTDIST_SHUTDOWN_TIMEOUT, else "
        f"{SHUTDOWN_S:g}, and {CTRL_C_S:g} after Ctrl-C)",
    )


def _add_gpus(parser: CommandParser) -> None:
    _add(
        parser,
        ("--gpus-per-worker",),
        metavar="N",
        help="give each worker N GPUs, which it sees as cuda:0 to cuda:N-1 whatever its "
        "LOCAL_RANK (sets CUDA_VISIBLE_DEVICES; default: all workers see all GPUs)",
    )


def _add_restarts(parser: CommandParser) -> None:
    _add(
        parser,
        ("--max-restarts",),
        default="0",
        metavar="N",
        help="when a worker fails, end all and start all again, at most N times (default 0)",
    )
    _add(
        parser,
        ("--restart",),
        default=GROUP,
        metavar="WHOM",
        help=f"which workers --max-restarts starts again: {GROUP} (default) starts all of them, "
        f"on all nodes; {WORKER} starts only the one that failed, each at most N times, while "
        "the others continue. The loss of a whole node ends a job with "
        f"{WORKER}; with {GROUP} another launcher may take the node's place",
    )


def _add_logs(parser: CommandParser) -> None:
    _add(
        parser,
        ("--log-dir",),
        metavar="DIR",
        help="keep the workers' output in a new folder below DIR, as attempt_0/RANK/stdout.log "
        "and stderr.log, attempt_1 after a restart; without the two options below it is "
        "shown as well",
    )
    _add(
        parser,
        ("-r", "--redirects"),
        metavar="S",
        help="keep streams in files alone (1: stdout, 2: stderr, 3: both; for some workers of this "
        "node 0:3,1:2: by LOCAL_RANK); without --log-dir in the folder for temporary files",
    )
    _add(
        parser,
        ("-t", "--tee"),
        metavar="S",
        help="keep streams in files and show them, too; S as for --redirects",
    )


def _add(parser: CommandParser, flags: tuple[str, ...], **settings: Any) -> None:
    """Add an option, and a hidden alias with underscores, which torchrun accepts too."""
    parser.add_argument(*flags, **settings)
    name = flags[-1].removeprefix("--").replace("-", "_")
    if f"--{name}" != flags[-1]:
        hidden = argparse.SUPPRESS
        parser.add_argument(f"--{name}", dest=name, default=hidden, help=hidden)

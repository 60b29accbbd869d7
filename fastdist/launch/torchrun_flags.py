"""Flags of torchrun: those that mean `fastdist run`'s own, and what to do in place of others."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

# torchrun's, for an endpoint that names none.
_ENDPOINT_PORT = "29400"
# Both meet at a store of the first node.
_BACKENDS = ("c10d", "static")

INSTEAD: Mapping[str, str] = {
    "--rdzv-conf": "its timeouts are --init-timeout; the rest is not needed here",
    "--monitor-interval": "leave it out: that a worker has ended is noticed at once",
    "--start-method": "leave it out: each worker is its own Python process",
    "--event-log-handler": "leave it out: events are reported on stderr",
    "--role": "leave it out: a worker is known by its RANK and by its name in init_rpc",
    "--no-python": "workers are Python programs: let one of a few lines call os.execvp",
    "--run-path": "leave it out: a script runs as __main__ of its process",
    "--local-ranks-filter": "keep the output of the others in files alone, such as "
    "--redirects 1:3,2:3",
    "--duplicate-stdout-filters": "keep all of it with --log-dir, and search it by grep",
    "--duplicate-stderr-filters": "keep all of it with --log-dir, and search it by grep",
    "--logs-specs": "--log-dir, --redirects and --tee say where output goes",
    "--numa-binding": "start the command by numactl, or let the program call os.sched_setaffinity",
    "--signals-to-handle": "leave it out: INT, TERM and HUP end the job, USR1 and USR2 are passed "
    "on to the workers",
    "--virtual-local-rank": "use --gpus-per-worker 1: each worker then finds its GPU as cuda:0",
}


def read_rendezvous(given: argparse.Namespace) -> None:
    """Let --rdzv-endpoint be --master-addr and --master-port.

    Raises  ValueError for another backend than c10d and static, and for an endpoint that
            contradicts other flags
    """
    backend, endpoint = given.rdzv_backend, given.rdzv_endpoint
    if backend is not None and backend not in _BACKENDS:
        raise ValueError(
            f"--rdzv-backend {backend} is not supported: nodes meet at a store on node 0, as "
            f"with {' and '.join(_BACKENDS)}"
        )
    if endpoint is None:
        return
    host, colon, port = endpoint.rpartition(":")
    if not colon or endpoint.endswith("]"):
        host, port = endpoint, _ENDPOINT_PORT
    host = host.strip("[]")
    if not host:
        raise ValueError(f"--rdzv-endpoint is {endpoint!r}; expected HOST:PORT")
    for flag, name, meant in (
        ("--master-addr", "master_addr", host),
        ("--master-port", "master_port", port),
    ):
        if getattr(given, name) not in (None, meant):
            raise ValueError(
                f"--rdzv-endpoint {endpoint} contradicts {flag} {getattr(given, name)}: give one"
            )
        setattr(given, name, meant)

"""Flags of torchrun that `fastdist run` does not take, and what to do in place of each."""

from __future__ import annotations

from collections.abc import Mapping

INSTEAD: Mapping[str, str] = {
    "--rdzv-backend": "leave it out: nodes meet at the store of node 0, at --master-addr and "
    "--master-port",
    "--rdzv-endpoint": "its HOST:PORT is --master-addr HOST --master-port PORT, and --node-rank "
    "says which node this is",
    "--rdzv-id": "leave it out: a job is told from others by its port and its secret "
    "(FASTDIST_JOB_SECRET_FILE)",
    "--rdzv-conf": "its timeouts are --init-timeout; the rest is not needed here",
    "--monitor-interval": "leave it out: that a worker has ended is noticed at once",
    "--start-method": "leave it out: each worker is a Python of its own",
    "--event-log-handler": "leave it out: what happens is told on stderr",
    "--role": "leave it out: a worker is known by its RANK and by its name in init_rpc",
    "--no-python": "workers are Python programs: let one of a few lines call os.execvp",
    "--run-path": "leave it out: a script runs as __main__ of its own process",
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

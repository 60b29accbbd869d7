"""A job that runs until a file exists: workers call each other, and record what they see.

 python -m tests.integrations.lasting FOLDER

In the folder, `up.RANK.LIFE` contains the id of a process that has joined. `saw.RANK.OTHER.LIFE`
means that RANK has called the life LIFE of OTHER. `stop` ends the job.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import fastdist.distributed as dist
from fastdist.core.errors import RpcError
from fastdist.distributed import rpc
from fastdist.distributed.rendezvous import from_env

_PAUSE_S = 0.05


def life() -> int:
    """Return how often this worker was restarted; other workers call this."""
    return dist.restart_count()


def main(arguments: Sequence[str] | None = None) -> int:
    """Take part in the job until the file `stop` exists."""
    folder = Path((sys.argv[1:] if arguments is None else arguments)[0])
    place = from_env()
    rpc.init_rpc(f"worker{place.rank}")
    (folder / f"up.{place.rank}.{life()}").write_text(str(os.getpid()))
    others = set(range(place.world_size)) - {place.rank}
    pause = threading.Event()
    while not (folder / "stop").exists():
        for other in others:
            try:
                seen = rpc.rpc_sync(f"worker{other}", life, timeout=10)
            except RpcError:
                continue
            (folder / f"saw.{place.rank}.{other}.{seen}").touch()
        pause.wait(_PAUSE_S)
    rpc.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())

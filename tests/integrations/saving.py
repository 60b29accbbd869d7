"""A job that saves its state after a signal, and finishes when it is started again.

 python -m tests.integrations.saving FOLDER

In the folder, `up.RANK` means that RANK runs and can save, `saved` is the state, and `done.RANK`
contains the restart count with which RANK has finished.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import fastdist.distributed as dist


def main(arguments: Sequence[str] | None = None) -> int:
    """Take part in the job until it is preempted, or finish a job that was saved."""
    folder = Path((sys.argv[1:] if arguments is None else arguments)[0])
    dist.init_process_group("gloo")
    rank, pause = dist.get_rank(), threading.Event()
    if (folder / "saved").exists():
        (folder / f"done.{rank}").write_text(str(dist.restart_count()))
        dist.destroy_process_group()
        return 0
    while not dist.preempted():
        (folder / f"up.{rank}").touch()
        pause.wait(0.05)
    if rank == 0:
        pause.wait(0.5)  # the other workers have ended by then
        (folder / "saved").touch()
    dist.destroy_process_group()
    return dist.PREEMPTED_EXIT_STATUS


if __name__ == "__main__":
    sys.exit(main())

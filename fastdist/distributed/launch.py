"""`python -m fastdist.distributed.launch`, the older form of torchrun: it is `fastdist run`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from fastdist.launch.main import main as launch

__all__ = ["main"]


def main(args: Sequence[str] | None = None) -> None:
    """Start a job as a command line says; each worker finds --local-rank=K before its arguments.

    With --use-env it is not passed: a program then reads LOCAL_RANK.

    Raises  SystemExit with the job's status where it failed
    Source  PyTorch, torch/distributed/launch.py, main
    """
    status = launch(args, "python -m fastdist.distributed.launch", passes_local_rank=True)
    if status:
        sys.exit(status)


if __name__ == "__main__":
    main()

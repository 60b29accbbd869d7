"""`python -m fastdist.distributed.launch`, torchrun's predecessor; it calls `fastdist run`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from fastdist.core.missing import show_public
from fastdist.launch.main import main as launch

__all__ = ["main"]


def main(args: Sequence[str] | None = None) -> None:
    """Start a job from a command line; each worker gets --local-rank=K as its first argument.

    With --use-env, workers do not get this argument; their programs read LOCAL_RANK instead.

    Raises  SystemExit with the job's exit status if the job failed
    Source  PyTorch, torch/distributed/launch.py, main

    Args:
        args: The arguments of the command line; sys.argv[1:] if None.
    """
    status = launch(args, "python -m fastdist.distributed.launch", passes_local_rank=True)
    if status:
        sys.exit(status)


show_public(__name__)

if __name__ == "__main__":
    main()

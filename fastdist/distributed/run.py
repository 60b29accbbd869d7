"""`python -m fastdist.distributed.run`, the module form of torchrun; it runs `fastdist run`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from fastdist.core.missing import show_public
from fastdist.launch.main import main as launch

__all__ = ["main"]


def main(args: Sequence[str] | None = None) -> None:
    """Start a job from a command line; by default, the command line of this process.

    Raises  SystemExit with the job's exit status if the job failed
    Source  PyTorch, torch/distributed/run.py, main
    """
    status = launch(args, "python -m fastdist.distributed.run")
    if status:
        sys.exit(status)


show_public(__name__)

if __name__ == "__main__":
    main()

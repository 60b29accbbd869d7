"""Functions for processes that tests start. Each process imports this file, but not fastdist."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path


def write_index(index: int, folder: str, text: str) -> None:
    Path(folder, str(index)).write_text(text)


def fail_in_the_second(index: int) -> None:
    if index == 1:
        raise ValueError(f"no luck in {index}")
    threading.Event().wait(60)


def exit_with(index: int, code: int) -> None:
    sys.exit(code)


def die_by(index: int, number: int) -> None:
    os.kill(os.getpid(), number)


def wait_for(index: int, name: str) -> None:
    deadline = time.monotonic() + 60
    while not os.path.exists(name) and time.monotonic() < deadline:
        threading.Event().wait(0.01)


def raise_much(index: int) -> None:
    raise RuntimeError("x" * 1_000_000 + " the end")


def train(rank: int, world_size: int, port: int) -> None:
    """Train as a worker of one job, as in PyTorch's tutorials."""
    import fastdist
    from fastdist.distributed import autograd as dist_autograd
    from fastdist.distributed import rpc

    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = str(port)
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world_size)
    if rank == 0:
        x = fastdist.ones(3, requires_grad=True)
        with dist_autograd.context() as context_id:
            y = rpc.rpc_sync("worker1", fastdist.mul, args=(x, 2))
            dist_autograd.backward(context_id, [y.sum()])
            assert dist_autograd.get_gradients(context_id)[x].tolist() == [2.0, 2.0, 2.0]
    rpc.shutdown()

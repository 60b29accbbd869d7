"""Profiles some steps of the digits job on all workers, and writes an HTML page."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import fastdist.distributed.autograd as dist_autograd
from fastdist import Tensor

_STEPS = 3


def write_time_line(
    forward: Callable[[Tensor], Tensor],
    loss_function: Callable[[Tensor, Tensor], Tensor],
    images: Tensor,
    labels: Tensor,
    folder: Path,
) -> None:
    """Write timeline.html: each worker's work over time, and its waits for other workers.

    Note    the model is not changed
    """
    # Imported here, so that the memory figures in the report do not include the profiler.
    from fastdist.distributed import profiler

    def step() -> None:
        with dist_autograd.context() as context_id:
            loss = loss_function(forward(images), labels)
            dist_autograd.backward(context_id, [loss])

    def profiled() -> profiler.profile:
        return profiler.profile(
            record_shapes=True, with_flops=True, with_stack=True, profile_memory=True
        )

    with profiled():
        step()  # loads the profiler's modules, which would dominate the time line
    with profiled() as profile:
        for _ in range(_STEPS):
            step()
    path = folder / "timeline.html"
    profile.export_html(path, f"{_STEPS} steps of the digits job")
    print("time line".ljust(19) + os.path.relpath(path))
    print("next".ljust(19) + f"open {path.name} in a browser,")
    print(" " * 19 + "read fastdist/examples/digits.py,")
    print(" " * 19 + "try `fastdist demo --list`")

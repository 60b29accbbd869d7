"""Checkpoints of 1 GB: saving, loading, and how long async_save blocks training."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

from bench.harness import Amount, Case, Row, Stopwatch, compare, peer_torch, stopwatch

NEEDS = ("zmq",)
TENSORS = 16  # of 64 MiB each
_BYTES = TENSORS * (64 << 20)
_MOST_ROUNDS = 5


def run(rounds: int) -> list[Row]:
    """Compare save, load and async_save of one process.

    Each save writes a new folder, and the previous folder is removed: by keep=1 in fastdist,
    explicitly for PyTorch. Both libraries sync to the disk; fastdist also checks the data that it
    reads.
    """
    import fastdist

    torch = peer_torch()
    with tempfile.TemporaryDirectory() as folder:
        ours = ways(fastdist, os.path.join(folder, "ours"))
        peer = ways(torch, os.path.join(folder, "peer")) if torch is not None else {}
        moved = Amount(_BYTES, "GB/s")
        cases = [
            Case(f"{name} 1 GB", watch, peer.get(name), 1.0, number=1, amount=moved)
            for name, watch in ours.items()
        ]
        return compare(cases, min(rounds, _MOST_ROUNDS))


def ways(library: Any, parent: str) -> dict[str, Stopwatch]:
    """Return a stopwatch for each operation, by name."""
    # PyTorch warns that it saves from one process, and that its tensors are on the CPU.
    warnings.filterwarnings("ignore", module="torch")
    dcp = import_module(f"{library.__name__}.distributed.checkpoint")
    is_ours = library.__name__ == "fastdist"
    state = {f"layer{n}.weight": library.ones(4096, 4096) * n for n in range(TENSORS)}
    saved = os.path.join(parent, "loaded", "0")
    more = {"no_dist": True}
    dcp.save(state, checkpoint_id=saved, **({} if is_ours else more))
    found = {
        "save": stopwatch(saver(dcp, state, os.path.join(parent, "saved"), is_ours=is_ours)),
        "load": stopwatch(
            lambda: dcp.load(state, checkpoint_id=saved, **({} if is_ours else more))
        ),
        "pause of async_save": pause(dcp, state, os.path.join(parent, "async"), is_ours=is_ours),
    }
    if is_ours:
        # Only for fastdist: PyTorch reuses staged copies only in pinned memory, which needs a GPU.
        kept = {"cache_staged_state_dict": True}
        folder = os.path.join(parent, "kept")
        found["pause of async_save, copies kept"] = pause(dcp, state, folder, is_ours=True, **kept)
    return found


def saver(dcp: Any, state: Any, parent: str, *, is_ours: bool) -> Callable[[], object]:
    """Return a function that saves into a new folder, and removes the previous one."""
    numbers = itertools.count(1)

    def save() -> None:
        number = next(numbers)
        folder = os.path.join(parent, str(number))
        if is_ours:
            dcp.save(state, checkpoint_id=folder, keep=1)
        else:
            dcp.save(state, checkpoint_id=folder, no_dist=True)
            shutil.rmtree(os.path.join(parent, str(number - 1)), ignore_errors=True)

    return save


def pause(dcp: Any, state: Any, parent: str, *, is_ours: bool, **options: Any) -> Stopwatch:
    """Return a stopwatch for the time until async_save returns, without the wait for the save.

    With options that reuse copies, one untimed save makes the copies first.
    """
    numbers = itertools.count(1)

    def watch(turns: int) -> float:
        total = 0.0
        for turn in range(-1 if options else 0, turns):
            number = next(numbers)
            writer = dcp.FileSystemWriter(os.path.join(parent, str(number)), **options)
            arguments = {"keep": 1} if is_ours else {"no_dist": True}
            began = time.perf_counter()
            future = dcp.async_save(state, storage_writer=writer, **arguments)
            total += time.perf_counter() - began if turn >= 0 else 0.0
            future.result() if hasattr(future, "result") else future.wait()
            if not is_ours:
                shutil.rmtree(os.path.join(parent, str(number - 1)), ignore_errors=True)
        return total

    return watch

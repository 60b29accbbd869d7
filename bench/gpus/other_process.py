"""A check whether another process can read this process's GPU memory, through CUDA IPC.

The tests simulate CUDA IPC with files that two processes map. Only a real driver can show whether
handles of GPU memory and events can be exported and opened. RPC and sockets are not involved.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ELEMENTS = 1 << 20
PATIENCE_S = 120.0
ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "bench.gpus.other_process"]


def reads_this_one(device: str) -> tuple[bool, str]:
    """Return whether a new process reads what this process wrote to its GPU, and the details."""
    import fastdist
    from fastdist.devices.backend import backend_of
    from fastdist.devices.cuda.ipc import SLAB_STEP, Slab, uuid_of

    backend: Any = backend_of("cuda")
    index = fastdist.device(device).index or 0
    x = fastdist.arange(ELEMENTS, dtype=fastdist.float32, device=device) * 0.5
    slab, event = Slab(index, 4 * SLAB_STEP), backend.shared_event(index)
    stream = backend.current_stream(index)
    slab.put(backend, SLAB_STEP // 2, x._array, index, stream)
    event.record(stream)
    told = {
        "uuid": uuid_of(backend, index).hex(),
        "slab": slab.handle.hex(),
        "size": slab.size,
        "start": SLAB_STEP // 2,
        "event": event.handle().hex(),
    }
    child = subprocess.run(
        COMMAND,
        check=False,
        input=json.dumps(told),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        cwd=ROOT,
    )
    if child.returncode:
        return False, (child.stderr.strip().splitlines() or ["it ended"])[-1]
    answer = json.loads(child.stdout)
    expected = hashlib.sha256(x.cpu().numpy().tobytes()).hexdigest()
    if answer["sha256"] != expected:
        return False, "it read other bytes"
    return True, f"{ELEMENTS * 4 >> 20} MiB in {answer['us']:.0f} us"


def answer() -> None:
    """Read the memory that standard input describes, and report its contents."""
    from fastdist.devices.backend import backend_of
    from fastdist.devices.cuda.ipc import OpenedSlab, index_of_uuid

    told = json.load(sys.stdin)
    backend: Any = backend_of("cuda")
    index = index_of_uuid(backend, bytes.fromhex(told["uuid"]))
    assert index is not None, "another process sees other GPUs"
    import numpy as np

    slab = OpenedSlab(backend, index, bytes.fromhex(told["slab"]), told["size"])
    stream = backend.current_stream(index)
    stream.wait_event(backend.event_of_handle(index, bytes.fromhex(told["event"])))
    wanted = [(told["start"], (ELEMENTS,), np.dtype(np.float32))]
    took_us = 0.0
    for _ in range(3):  # the time of the first turn also includes the mapping
        before = time.perf_counter()
        (array,), stream = slab.copy_out(wanted, index)
        stream.synchronize()
        took_us = (time.perf_counter() - before) * 1e6
        slab.done_reading()
    slab.close()
    found = hashlib.sha256(backend.to_numpy(array).tobytes()).hexdigest()
    json.dump({"sha256": found, "us": took_us}, sys.stdout)


if __name__ == "__main__":
    answer()

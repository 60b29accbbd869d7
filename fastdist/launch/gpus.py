"""GPUs for the workers of a node, each its own, in the words of CUDA_VISIBLE_DEVICES."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping
from itertools import takewhile

VARIABLE = "CUDA_VISIBLE_DEVICES"
# An index, or the beginning of an id, of a GPU or of a slice of one.
_GPU = re.compile(r"[0-9]+|(GPU|MIG)-\S+")


def gpus_of_workers(
    per_worker: int, workers: int, environment: Mapping[str, str]
) -> tuple[str, ...]:
    """Return, by local rank, the value of each worker's CUDA_VISIBLE_DEVICES.

    Raises  ValueError where this machine shows fewer GPUs than that takes
    """
    gpus = visible_gpus(environment)
    needed = per_worker * workers
    if needed > len(gpus):
        raise ValueError(
            f"--gpus-per-worker {per_worker} for {workers} workers needs {needed} GPUs, and "
            f"{_what_is_there(len(gpus), environment)}: start fewer workers, or give each fewer"
        )
    starts = range(0, needed, per_worker)
    return tuple(",".join(gpus[start : start + per_worker]) for start in starts)


def visible_gpus(environment: Mapping[str, str]) -> list[str]:
    """Return the GPUs that programs may use here, by the names that CUDA_VISIBLE_DEVICES takes.

    Raises  ValueError if that names one twice: CUDA would then show none
    """
    count = count_gpus()
    given = environment.get(VARIABLE)
    if given is None:
        return [str(index) for index in range(count or 0)]
    # As CUDA has it, the list ends before the first that is no GPU.
    names = list(takewhile(_GPU.fullmatch, (name.strip() for name in given.split(","))))
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"{VARIABLE} is {given!r}, which names {twice} twice; name each GPU once")
    return names if count is None else names[:count]


def count_gpus() -> int | None:
    """Return how many GPUs the driver shows to this process, None where there is no driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    count = ctypes.c_int()
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


def _what_is_there(count: int, environment: Mapping[str, str]) -> str:
    if VARIABLE in environment:
        return f"this machine shows {count}, {VARIABLE} being {environment[VARIABLE]!r}"
    driver = ", without an NVIDIA driver (libcuda.so.1)" if count_gpus() is None else ""
    return f"this machine shows {count}{driver}"

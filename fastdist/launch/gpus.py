"""Assigns GPUs to the workers of a node, in the format of CUDA_VISIBLE_DEVICES."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping
from itertools import takewhile

VARIABLE = "CUDA_VISIBLE_DEVICES"
# A GPU or a MIG instance: its index, or a prefix of its id.
_GPU = re.compile(r"[0-9]+|(GPU|MIG)-\S+")


def gpus_of_workers(
    per_worker: int, workers: int, environment: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the values of CUDA_VISIBLE_DEVICES of the workers, by local rank.

    Raises  ValueError if this machine has fewer visible GPUs than needed
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
    """Return the names of the GPUs that programs may use here, in CUDA_VISIBLE_DEVICES's format.

    Raises  ValueError if the variable names a GPU twice, in which case CUDA would show no GPU
    """
    count = count_gpus()
    given = environment.get(VARIABLE)
    if given is None:
        return [str(index) for index in range(count or 0)]
    # As in CUDA, the list ends before the first invalid entry.
    names = list(takewhile(_GPU.fullmatch, (name.strip() for name in given.split(","))))
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"{VARIABLE} is {given!r}, which names {twice} twice; name each GPU once")
    return names if count is None else names[:count]


def count_gpus() -> int | None:
    """Return the number of GPUs that the driver shows to this process; None without a driver."""
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

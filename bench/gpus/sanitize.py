"""Some samples of the table test under NVIDIA's compute-sanitizer: memory, races and barriers.

Without a GPU such errors are found by fences around arrays, and by running threads in three orders.
The sanitizer also checks real threads, and the memory of cuBLAS's calls. Memory comes from
cudaMalloc during the run, because CuPy's pool would hide an access beyond an array's end. This file
imports the tests, so it needs a checkout.
"""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

from bench.gpus.first_contact import Sample, proofs_first, samples, values_on
from bench.gpus.on_gpu import machine, what_is_missing
from bench.harness import Failed, Row

__all__ = ["machine", "run"]

TOOLS: Final = ("memcheck", "racecheck", "synccheck")
EVERY: Final = 12  # one in 12 samples: each runs 10 to 100 times slower than normally
LIMIT_S: Final = 600.0  # per tool
WRONG: Final = 77  # the sanitizer's exit code for errors found


def run(rounds: int) -> list[Row]:
    """Run the chosen samples once under each tool, print the results, and return an empty list.

    Raises  Failed that names the tools that found errors, or were too slow
    """
    del rounds
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        print(
            "compute-sanitizer is not installed, or not on the PATH: it comes with the CUDA "
            "toolkit (on Debian and Ubuntu, NVIDIA's package cuda-sanitizer)"
        )
        return []
    if (reason := what_is_missing()) is not None:
        print(f"nothing to look at: {reason}")
        return []
    if found := [f"{tool} {words}" for tool in TOOLS if (words := look(sanitizer, tool))]:
        raise Failed("; ".join(found), [])
    print(f"{', '.join(TOOLS)}: nothing found")
    return []


def look(sanitizer: str, tool: str) -> str:
    """Run the chosen samples under a tool; return what failed, or an empty string."""
    command = [sanitizer, "--tool", tool, "--error-exitcode", str(WRONG), "--print-limit", "20"]
    command += [sys.executable, "-m", "bench.gpus.sanitize"]
    print(f"{tool}:", flush=True)
    try:
        done = subprocess.run(command, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return f"was not through in {LIMIT_S:.0f} s"
    if done.returncode == WRONG:
        return "found errors"
    return f"ended with exit code {done.returncode}" if done.returncode else ""


def chosen(known: Sequence[Sample]) -> list[Sample]:
    """Return one in EVERY samples of the table, which together include all kinds of ops."""
    return list(known)[::EVERY]


def under_the_tool() -> None:
    """Run each chosen sample forward and backward on the first GPU."""
    cupy = importlib.import_module("cupy")
    cupy.cuda.set_allocator(None)
    for one in chosen(proofs_first(samples())):
        print(one.name, flush=True)
        values_on("cuda:0", one)()
    cupy.cuda.runtime.deviceSynchronize()


if __name__ == "__main__":
    under_the_tool()

"""Measure the table of docs/engines.md: `python -m tests.integrations.measure [ENGINE ...]`.

Each row has times in seconds for two workers. The first is the time from the command until both
have called each other. The next two, for rank 1 and then rank 0, are the times from SIGKILL until a
new process has called the other worker and was called. The last is the time from the request to
stop until all processes have ended.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.kept_port import KeptPort
from tests.integrations import engines
from tests.integrations.engines import RESTARTING, RESTARTING_ALL, STARTS, started
from tests.integrations.slurm import Slurm
from tests.integrations.test_engines import LASTING, all_have_seen, kill_each_once, started_on_slurm


def row(engine: str) -> str:
    """Return the row of one engine."""
    port = KeptPort()
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory() as servers:
        folder, slurm = Path(name), Slurm(Path(servers))
        if engine == "slurm":
            slurm.start()
            job_of = started_on_slurm(slurm, folder)
        else:
            job_of = started(engine, 2, port.number, [LASTING, name], folder)
        began = time.monotonic()
        try:
            with job_of as job:
                job.wait_until(lambda: all(all_have_seen(folder, rank, 0, 2) for rank in (0, 1)))
                figures = [time.monotonic() - began]
                if engine in (*RESTARTING, *RESTARTING_ALL, "slurm"):
                    figures += kill_each_once(job, 2, all_restart=engine in RESTARTING_ALL)
                (folder / "stop").touch()
                stopped = time.monotonic()
                job.end()
                figures.append(time.monotonic() - stopped)
        finally:
            slurm.close()
            port.close()
    cells = [f"{figure:.1f} s" for figure in figures]
    if len(cells) == 2:
        cells[1:1] = ["the job ends", "the job ends"]
    return f"| {engine} | " + " | ".join(cells) + " |"


def main(names: Sequence[str]) -> int:
    """Print the table for the named engines, or for all installed ones."""
    print(f"load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores")
    for engine in names or [*STARTS, "slurm"]:
        why = engines.why_not(engine)
        print(row(engine) if why is None else f"| {engine} | {why} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

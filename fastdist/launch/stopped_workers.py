"""Finds workers that a signal has stopped while other workers of their job have ended.

The other workers noticed the silence within seconds, and may have ended well in spite of it.
Without this check the launcher would wait forever: a stopped process neither runs nor ends.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from fastdist.distributed.sockets.liveness_timeouts import FROZEN_S, frozen_s
from fastdist.launch.report import Failure
from fastdist.launch.worker_process import WorkerProcess

# The same as the workers' timeout for a silent peer.
STOPPED_S = FROZEN_S
LOOK_EVERY_S = 1.0


class StoppedWorkers:
    """After a worker has ended, checks which other workers are stopped, and for how long.

    Note  a launcher that is suspended (Ctrl-Z) suspends its workers and does not check; a process
          under a debugger counts as running
    """

    def __init__(self) -> None:
        self._stopped_at: dict[int, float] = {}
        self._look_at = -math.inf
        self._stopped_s = frozen_s(default=STOPPED_S)

    def next_look(self, workers: Sequence[WorkerProcess]) -> float:
        """Return the time of the next check; math.inf if none is needed."""
        running = [worker for worker in workers if worker.status is None]
        return self._look_at if 0 < len(running) < len(workers) else math.inf

    def look(self, workers: Sequence[WorkerProcess], now: float) -> Failure | None:
        """Return a failure if a worker has been stopped for too long."""
        self._look_at = now + LOOK_EVERY_S
        stopped = {
            worker.pid: self._stopped_at.get(worker.pid, now)
            for worker in workers
            if worker.status is None and worker.is_stopped()
        }
        self._stopped_at = stopped
        for worker in workers:
            since = stopped.get(worker.pid, math.inf)
            if now - since >= self._stopped_s:
                return Failure(
                    f"rank {worker.rank} (pid {worker.pid}) has been stopped by a signal for "
                    f"{now - since:.0f} s while others have ended; `kill -CONT {worker.pid}` would "
                    "have let it go on",
                    1,
                    rank=worker.rank,
                )
        return None

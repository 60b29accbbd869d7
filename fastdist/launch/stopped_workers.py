"""Workers that a signal has stopped, while others of their job have come to their end.

The others noticed within seconds that somebody is silent, and may have ended well in spite of it.
The launcher would wait forever: a stopped process neither runs nor ends.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from fastdist.distributed.sockets.liveness_timeouts import FROZEN_S, frozen_s
from fastdist.launch.report import Failure
from fastdist.launch.worker_process import WorkerProcess

# As long as workers wait for a silent peer.
STOPPED_S = FROZEN_S
LOOK_EVERY_S = 1.0


class StoppedWorkers:
    """Looks, once a worker has ended, which of the others lies stopped, and since when.

    Note  a launcher that is suspended (Ctrl-Z) suspends its workers and does not look; a process
          under a debugger counts as running
    """

    def __init__(self) -> None:
        self._stopped_at: dict[int, float] = {}
        self._look_at = -math.inf
        self._stopped_s = frozen_s(default=STOPPED_S)

    def next_look(self, workers: Sequence[WorkerProcess]) -> float:
        """Return when to look, math.inf while there is nothing to look for."""
        running = [worker for worker in workers if worker.status is None]
        return self._look_at if 0 < len(running) < len(workers) else math.inf

    def look(self, workers: Sequence[WorkerProcess], now: float) -> Failure | None:
        """Return a message if a worker has been stopped for too long."""
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

"""The one thread to which devices hand back CPU Nodes of distributed passes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from ...engine.ready_queue import NodeTask, ReadyQueue

_logger = logging.getLogger(__name__)

# Note [GPU to CPU continuations]
# A local pass CPU -> GPU -> CPU ends in its caller, who waits on the pass's own CPU queue. A
# distributed pass has no waiting caller on this worker, and a device thread must not run CPU Nodes:
# it would stall every other pass on that GPU. So what a GPU hands back goes to the one global CPU
# thread's queue, and from there to the pool. A receive counts as a CPU Node, wherever its tensors
# are: it waits until gradients are copied to the CPU, and sends them.

NAME = "fastdist-cpu-continuations"


class GlobalCpuThread:
    """A ready queue and the thread that empties it, handing every Node on.

    Started when the first pass needs it.

    Thread  `_lock` guards the thread's start and end
    """

    def __init__(self, run: Callable[[NodeTask], None]) -> None:
        self.queue = ReadyQueue()
        self._run = run
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the thread unless it runs."""
        if self._thread is not None:
            return
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(
                    target=self._loop, args=(self.queue,), name=NAME, daemon=True
                )
                thread.start()
                self._thread = thread

    def stop(self) -> None:
        """End the thread and forget what is queued; a later start begins with an empty queue."""
        with self._lock:
            thread, self._thread = self._thread, None
            queue, self.queue = self.queue, ReadyQueue()
        if thread is not None:
            queue.push_shutdown()
            thread.join()

    def _loop(self, queue: ReadyQueue) -> None:
        while True:
            item = queue.pop()
            if item.shutdown:
                return
            task = item.graph_task
            if task is None:
                log_expired(item)
                del item
                continue
            try:
                self._run(item)
            except BaseException as error:
                # The error is raised where the pass is awaited; the next pass needs this thread.
                task.set_exception(error)
            # Nor what it was given may live as long as this thread then waits.
            del task, item


def log_expired(item: NodeTask) -> None:
    """Say that a Node is not run because its pass was given up."""
    name = "no Node" if item.node is None else item.node.name()
    _logger.error("GraphTask has expired for NodeTask: %s, skipping execution.", name)

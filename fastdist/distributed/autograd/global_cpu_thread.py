"""The thread to which device threads hand back the CPU Nodes of distributed passes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from ...engine.ready_queue import NodeTask, ReadyQueue

_logger = logging.getLogger(__name__)

# Note [GPU to CPU continuations]
# A local pass CPU -> GPU -> CPU runs its last CPU Nodes on the calling thread, which waits on the
# pass's CPU queue. A distributed pass may have no waiting caller on this worker. A device thread
# must not run CPU Nodes, because it would stall every other pass on that GPU. So a device thread
# hands a CPU Node to the queue of the one global CPU thread, which forwards the Node to the pool. A
# receive counts as a CPU Node, even if its tensors are on a GPU: it waits until the gradients are
# copied to the CPU, and sends them.

NAME = "fastdist-cpu-continuations"


class GlobalCpuThread:
    """A ready queue, and the thread that forwards every Node in it to the pool.

    The first pass that needs the thread starts it.

    Thread  `_lock` guards the start and end of the thread
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
        """End the thread and drop the queued Nodes; a later start begins with an empty queue."""
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
                # The waiting caller of the pass raises the error; this thread must survive for the
                # next pass.
                task.set_exception(error)
            # Drop the references, so that the objects can be freed while this thread waits.
            del task, item


def log_expired(item: NodeTask) -> None:
    """Log that a Node is not run because its pass was given up."""
    name = "no Node" if item.node is None else item.node.name()
    _logger.error("GraphTask has expired for NodeTask: %s, skipping execution.", name)

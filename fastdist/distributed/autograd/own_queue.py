"""The ready queue of one call of the engine's loop: one thread's alone, so without locks."""

from __future__ import annotations

from heapq import heappop, heappush

from ...engine.ready_queue import NodeTask, ReadyQueue


class OwnQueue(ReadyQueue):
    """A ReadyQueue that one thread fills and empties; nobody waits on it.

    Thread  the one that made it. What devices hand back goes to the pass's own queue
    """

    __slots__ = ()

    def __init__(self) -> None:
        self.heap = []
        self.pushed = 0

    def push(self, task: NodeTask, *, increment_outstanding: bool = True) -> None:
        """Add a task."""
        if increment_outstanding:
            task.graph_task.add_outstanding(1)
        self.pushed += 1
        heappush(self.heap, (task.order(), self.pushed, task))

    def try_pop(self) -> NodeTask | None:
        """Return the deepest task, or None if there is none."""
        return heappop(self.heap)[2] if self.heap else None

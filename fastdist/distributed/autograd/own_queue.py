"""The ready queue of one call of the engine's loop; one thread uses it, so it has no locks."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

from ...engine.input_buffer import InputBuffer
from ...engine.ready_queue import NodeTask, ReadyQueue
from ...graph.node import Node


class OwnQueue(ReadyQueue):
    """A ReadyQueue that one thread fills and empties for one pass; no thread blocks on it.

    Its tasks are not counted as outstanding tasks of the pass. The pass still cannot look finished,
    because the thread counts as one or more outstanding tasks until the queue is empty.

    Thread  the thread that created it. Tasks from devices go to the pass's own queue
    """

    __slots__ = ()

    def __init__(self) -> None:
        self.heap: list[Any] = []
        self.pushed = 0

    def push(self, task: NodeTask, *, increment_outstanding: bool = True) -> None:
        """Add a task that has a Node."""
        assert task.node is not None
        assert task.inputs is not None
        self.put(task.node, task.inputs)

    def put(self, node: Node, inputs: InputBuffer) -> None:
        """Add a Node, and the gradients of its outputs."""
        self.pushed += 1
        heappush(self.heap, (-node.seq, self.pushed, node, inputs))

    def take(self) -> tuple[Node, InputBuffer] | None:
        """Return the Node that was recorded last, and its gradients; None if the queue is empty."""
        return heappop(self.heap)[2:] if self.heap else None

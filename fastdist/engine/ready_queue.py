"""Tasks of one device or one pass, deepest Node first."""

from __future__ import annotations

import threading
from heapq import heappop, heappush
from typing import Any, Protocol
from weakref import ref

from ..graph.node import Node
from .input_buffer import InputBuffer


class Pass(Protocol):
    """The interface to the pass of its tasks (a GraphTask, which has queues) that a queue needs."""

    depth: int

    def add_outstanding(self, change: int) -> int:
        """Count tasks that are queued or running."""


class NodeTask:
    """One Node to run for one pass, with the gradients of its outputs.

    Holds the pass weakly: a queue must not keep an abandoned pass alive. A task without a Node
    wakes a thread that waits on the queue; one that is `shutdown` ends its thread.
    """

    __slots__ = ("_graph_task", "inputs", "node", "shutdown")

    def __init__(
        self,
        graph_task: Pass | None,
        node: Node | None,
        inputs: InputBuffer | None,
        shutdown: bool = False,
    ) -> None:
        self._graph_task = None if graph_task is None else ref(graph_task)
        self.node = node
        self.inputs = inputs
        self.shutdown = shutdown

    @property
    def graph_task(self) -> Any:
        """The pass; None if nothing holds it any more."""
        return None if self._graph_task is None else self._graph_task()

    def taken(self) -> tuple[Node, InputBuffer]:
        """Return the Node and its gradients, and release them here: the thread that runs the task
        may hold it longer than they are needed.
        """
        node, inputs = self.node, self.inputs
        assert node is not None
        assert inputs is not None
        self.inputs = None
        return node, inputs

    def order(self) -> tuple[int, int]:
        """Return the sort key: shutdown first, then nested passes, then the deepest Node."""
        if self.shutdown:
            return (-1 << 62, 0)
        task = self.graph_task
        depth = 0 if task is None else task.depth
        # A task without a Node (a wake-up) precedes Nodes of its depth, because it costs nothing.
        return (-depth, -(1 << 62) - 1 if self.node is None else -self.node.seq)


class ReadyQueue:
    """A heap that threads wait on.

    Thread  any may push; each consumer pops. `_lock` guards the three attributes below it; nothing
            is called while it is held
    Note    no Condition: Ctrl-C in its Python code would leave the lock held, and a device's thread
            waiting forever
    """

    __slots__ = ("_lock", "_waiters", "heap", "pushed")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.heap: list[tuple[tuple[int, int], int, NodeTask]] = []
        self.pushed = 0
        # One held lock for each consumer that sleeps.
        self._waiters: list[threading.Lock] = []

    def push(self, task: NodeTask, *, increment_outstanding: bool = True) -> None:
        """Add a task and wake one consumer.

        Note    counted before it can be popped: a pass must not look finished while a task of it is
                queued
        """
        if increment_outstanding:
            graph_task = task.graph_task
            assert graph_task is not None
            graph_task.add_outstanding(1)
        order = task.order()
        with self._lock:
            self.pushed += 1
            heappush(self.heap, (order, self.pushed, task))
            if self._waiters:
                # No call but the last: a consumer that is taken off the list is woken, Ctrl-C or
                # not.
                waiter = self._waiters[-1]
                del self._waiters[-1]
                waiter.release()

    def would_give(self, task: NodeTask) -> bool:
        """Return whether a task that is pushed now would be popped next."""
        order = task.order()
        with self._lock:
            return not self.heap or order < self.heap[0][0]

    def push_shutdown(self) -> None:
        """Make one consumer end."""
        self.push(NodeTask(None, None, None, shutdown=True), increment_outstanding=False)

    def pop(self) -> NodeTask:
        """Return the deepest task, waiting for one."""
        while True:
            with self._lock:
                if self.heap:
                    return heappop(self.heap)[2]
                waiter = threading.Lock()
                waiter.acquire()
                self._waiters.append(waiter)
            waiter.acquire()

    def try_pop(self) -> NodeTask | None:
        """Return the deepest task, or None if there is none now."""
        with self._lock:
            return heappop(self.heap)[2] if self.heap else None

    def __len__(self) -> int:
        return len(self.heap)

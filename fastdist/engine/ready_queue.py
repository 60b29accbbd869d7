"""The queue of tasks of one device or one pass; the newest Node comes first."""

from __future__ import annotations

import threading
from heapq import heappop, heappush
from typing import Any, Protocol
from weakref import ref

from ..graph.node import Node
from .input_buffer import InputBuffer


class Pass(Protocol):
    """The part of a GraphTask's interface that a queue uses."""

    depth: int

    def add_outstanding(self, change: int) -> int:
        """Add `change` to the number of queued or running tasks; return the new number."""


class NodeTask:
    """One Node to run for one pass, with the gradients of its outputs.

    References the pass weakly: a queue must not keep an abandoned pass alive. A task without a Node
    only wakes a thread that waits on the queue. A `shutdown` task ends the thread that pops it.
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
        """The pass; None if it no longer exists."""
        return None if self._graph_task is None else self._graph_task()

    def taken(self) -> tuple[Node, InputBuffer]:
        """Return the Node and its gradients. The task drops the gradients, as the running thread
        may keep the task longer than it needs the gradients.
        """
        node, inputs = self.node, self.inputs
        assert node is not None
        assert inputs is not None
        self.inputs = None
        return node, inputs

    def order(self) -> tuple[int, int]:
        """Return the sort key: shutdown first, then the most nested pass, then the newest Node."""
        if self.shutdown:
            return (-1 << 62, 0)
        task = self.graph_task
        depth = 0 if task is None else task.depth
        # A wake-up task precedes Nodes of passes with the same depth, because it costs nothing.
        return (-depth, -(1 << 62) - 1 if self.node is None else -self.node.seq)


class ReadyQueue:
    """A heap that threads wait on.

    Thread  any thread may push; consumers pop. `_lock` guards the three attributes below it; no
            code of passes or users is called while `_lock` is held
    Note    threading.Condition is not used: Ctrl-C in its Python code would leave the lock held,
            and a device thread waiting forever
    """

    __slots__ = ("_lock", "_waiters", "heap", "pushed")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.heap: list[tuple[tuple[int, int], int, NodeTask]] = []
        self.pushed = 0
        # A held lock for each sleeping consumer; releasing it wakes that consumer.
        self._waiters: list[threading.Lock] = []

    def push(self, task: NodeTask, *, increment_outstanding: bool = True) -> None:
        """Add a task and wake one consumer.

        Note    the task is counted before it can be popped: a pass must not look finished while one
                of its tasks is queued
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
                # release() is the last call, so that Ctrl-C cannot prevent the wake-up of a
                # consumer that was removed from the list.
                waiter = self._waiters[-1]
                del self._waiters[-1]
                waiter.release()

    def would_give(self, task: NodeTask) -> bool:
        """Return whether a task pushed now would be popped next."""
        order = task.order()
        with self._lock:
            return not self.heap or order < self.heap[0][0]

    def push_shutdown(self) -> None:
        """Make one consumer end."""
        self.push(NodeTask(None, None, None, shutdown=True), increment_outstanding=False)

    def pop(self) -> NodeTask:
        """Remove and return the first task; if there is none, wait for a task."""
        while True:
            with self._lock:
                if self.heap:
                    return heappop(self.heap)[2]
                waiter = threading.Lock()
                waiter.acquire()
                self._waiters.append(waiter)
            waiter.acquire()

    def try_pop(self) -> NodeTask | None:
        """Remove and return the first task, or return None if there is none."""
        with self._lock:
            return heappop(self.heap)[2] if self.heap else None

    def __len__(self) -> int:
        return len(self.heap)

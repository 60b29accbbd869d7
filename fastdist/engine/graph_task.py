"""One backward pass: its pending gradients, skipped Nodes and captures."""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any
from weakref import ref

from ..concurrency.future import Future, InternalFuture
from ..graph.forward_streams import after_pass
from ..graph.modes import set_grad_mode, tls
from ..graph.node import Node, node_of
from ..tensor.tensor import Tensor
from .input_buffer import InputBuffer
from .ready_queue import ReadyQueue


class Capture:
    """A gradient that a pass captures for one of its inputs: the gradient's slot at the Node
    (`input_idx`), and its index among the results (`output_idx`).

    `hooks` are called with the gradient and a bool that says whether the pass owns the gradient;
    each hook may replace it. Distributed autograd accumulates gradients in such a hook.
    """

    __slots__ = ("hooks", "input_idx", "output_idx")

    def __init__(self, input_idx: int, output_idx: int) -> None:
        self.input_idx = input_idx
        self.output_idx = output_idx
        self.hooks: list[Callable[[Tensor | None, bool], Tensor | None]] = []


class ExecInfo:
    """The role of one Node in a pass with chosen inputs: whether it runs, and which of its
    gradients are captured.
    """

    __slots__ = ("captures", "needed")

    def __init__(self) -> None:
        self.needed = False
        self.captures: list[Capture] | None = None

    def should_execute(self) -> bool:
        """Return whether the Node must be visited."""
        return self.needed or bool(self.captures)


class GraphTask:
    """The state of one pass.

    Thread  several threads work on one pass. `lock` guards dependencies, buffers, captured_vars and
            outstanding. Gradients are added under the lock, and kernels may run for the sums; hooks
            and other user code run without the lock
    Source  PyTorch, torch/csrc/autograd/graph_task.h
    """

    def __init__(
        self,
        *,
        keep_graph: bool,
        create_graph: bool,
        depth: int,
        cpu_ready_queue: ReadyQueue,
        graph_roots: tuple[Any, ...] = (),
        exit_on_error: bool = False,
    ) -> None:
        self.keep_graph = keep_graph
        self.create_graph = create_graph
        self.depth = depth
        self.cpu_ready_queue = cpu_ready_queue
        self.graph_roots = graph_roots
        self.exit_on_error = exit_on_error
        self.dependencies: dict[Node, int] = {}
        self.not_ready: dict[Node, InputBuffer] = {}
        self.exec_info: dict[Node, ExecInfo] = {}
        self.captured_vars: list[Tensor | None] = []
        self.lock = threading.Lock()
        self.outstanding = 0
        self.has_error = False
        # The Node that raised the error, for error messages.
        self.failed_in: ref[Node] | None = None
        self._post_processed = False
        self.future: Future[list[Tensor | None]] = InternalFuture()
        self.final_callbacks: list[Callable[[], None]] = []
        # Returns a context manager that a thread enters while it runs a Node, or None if the thread
        # has entered it already. Distributed autograd sets its current context this way.
        self.thread_state: Callable[[], Any] | None = None
        self.streams: dict[Any, Any] = {}
        # Pairs of a further stream on which Nodes of this pass run, and the stream that waits for
        # this further stream.
        self.other_streams: list[tuple[Any, Any]] = []
        self.owner_queue: ReadyQueue | None = cpu_ready_queue
        self.nodes_in_graph: set[Node] = set()

    def add_outstanding(self, change: int) -> int:
        """Add `change` to the number of queued or running tasks, and return the new number."""
        with self.lock:
            self.outstanding += change
            return self.outstanding

    def completed(self) -> bool:
        """Return whether no task is left, or an error ended the pass."""
        return self.outstanding == 0 or (self.exit_on_error and self.has_error)

    def set_exception(self, error: BaseException, node: Node | None = None) -> None:
        """End the pass with an error, raised by `node` if given; later errors are ignored."""
        with self.lock:
            if node is not None and not self.has_error:
                self.failed_in = ref(node)
            self.has_error = True
        self.future.try_complete(error=error)

    def forget_error(self) -> None:
        """Drop the error that ended the pass, after it was raised.

        The traceback references this pass through its frames. That cycle would keep the graph, and
        everything that it saved, alive until garbage collection.
        """
        self.future = InternalFuture()

    def mark_completed_and_post_process(self) -> None:
        """Run the final callbacks and complete the future with the captures. Only the first call
        does this.
        """
        with self.lock:
            # Two threads may both see the last task finish.
            if self._post_processed:
                return
            self._post_processed = True
        try:
            after_pass(self.other_streams)
            if self.final_callbacks:
                self._call_back()
        except BaseException as error:
            self.set_exception(error)
            return
        self.future.try_complete(list(self.captured_vars))

    def _call_back(self) -> None:
        """Run the final callbacks with the grad mode, streams and context of the pass's Nodes."""
        before = tls.grad, tls.inline_pass, running.graph_task, running.depth
        state = None if self.thread_state is None else self.thread_state()
        with ExitStack() as stack:
            for manager in (state, *self.streams.values()):
                if manager is not None:
                    stack.enter_context(manager)
            try:
                tls.inline_pass, running.graph_task, running.depth = None, self, self.depth
                set_grad_mode(self.create_graph)
                # A callback may add another callback.
                for callback in self.final_callbacks:
                    callback()
            finally:
                # See Note [Ctrl-C and grad mode]
                tls.inline_pass, running.graph_task, running.depth = before[1:]
                if before[0]:
                    tls.grad = True
                set_grad_mode(before[0])

    def compute_dependencies(self, roots: Iterable[Node], floor: int = 0) -> None:
        """Count how many gradients each Node below `roots` will receive.

        Edges lead only to older Nodes, so the search does not visit Nodes with a sequence number
        below `floor`.
        """
        stack = [root for root in roots if root is not None]
        seen = set(stack)
        dependencies = self.dependencies
        while stack:
            for edge in stack.pop().edges:
                if edge is None:
                    continue
                node = node_of(edge)
                if node.seq < floor:
                    continue
                dependencies[node] = dependencies.get(node, 0) + 1
                if node not in seen:
                    seen.add(node)
                    stack.append(node)
        self.nodes_in_graph |= seen

    def init_to_execute(
        self, root: Node, outputs: Iterable[tuple[Node, int]], accumulate: bool
    ) -> None:
        """Restrict the pass to the Nodes between root and outputs; call compute_dependencies first.

        With `accumulate`, outputs that are leaves run and add to `.grad`. The gradients of all
        other outputs are captured, in order.
        """
        self.exec_info[root] = ExecInfo()
        position = 0
        for node, output_nr in outputs:
            info = self.exec_info.setdefault(node, ExecInfo())
            if accumulate and node.is_accumulate:
                info.needed = True
                continue
            if info.captures is None:
                info.captures = []
            info.captures.append(Capture(output_nr, position))
            position += 1
        self.captured_vars = [None] * position
        self._mark_needed()

    def _mark_needed(self) -> None:
        """Mark every Node from which a wanted Node can be reached; unmarked Nodes are skipped."""
        wanted = {node for node, info in self.exec_info.items() if info.should_execute()}
        # Oldest first, so that the targets of a Node's edges come before the Node. Only leaves come
        # later, but they have no edges.
        for node in sorted(self.nodes_in_graph, key=_age):
            for edge in node.edges:
                if node_of(edge) in wanted:
                    wanted.add(node)
                    self.exec_info.setdefault(node, ExecInfo()).needed = True
                    break

    def is_wanted(self, node: Node) -> bool:
        """Return whether the pass runs a Node or captures gradients at this Node."""
        info = self.exec_info.get(node)
        return not self.exec_info or (info is not None and info.should_execute())

    def __repr__(self) -> str:
        return f"<GraphTask depth {self.depth}, {self.outstanding} outstanding>"


_age = operator.attrgetter("seq")


class _Running(threading.local):
    """The pass whose Node this thread runs; None outside of a pass."""

    graph_task: GraphTask | None = None
    depth = 0


running = _Running()


class GraphRoot(Node):
    """A Node above several roots: it passes each root the gradient with which the pass starts."""

    __slots__ = ("gradients",)

    def __init__(self, edges: tuple[Any, ...], gradients: tuple[Any, ...], seq: int) -> None:
        self.edges = edges
        self.gradients = gradients
        self.hooks = None
        self.output_layout = None
        self.seq = seq

    def apply(self, g: Any, keep: bool) -> tuple[Any, ...]:
        """Return the gradients of the roots as raw arrays."""
        return tuple([None if t is None else t._array for t in self.gradients])

    def apply_recorded(self, g: Any, keep: bool) -> tuple[Any, ...]:
        """Return the gradients of the roots as Tensors."""
        return self.gradients

"""The engine: runs a GraphTask on the caller's thread and on device threads."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from typing import Any

from ..core.errors import GraphError, NoDerivativeError, raise_out_of_memory
from ..graph.anomaly import anomaly, require_no_nan, warn_of
from ..graph.forward_streams import after_pass, device_of, hand_over, other_streams
from ..graph.modes import modes, set_grad_mode, tls
from ..graph.node import Edge, Node, next_sequence_number, oldest, output_number
from ..instrumentation.time_ranges import time_range, time_ranges
from ..system.forked_locks import renew_in_children
from ..tensor.tensor import Tensor, layout_near, layout_of, wrap
from . import hooks
from .device_threads import DeviceThreads, current_device_queue
from .graph_task import Capture, GraphRoot, GraphTask, running
from .input_buffer import InputBuffer
from .needed_edges import restrict_to_wanted
from .ready_queue import NodeTask, ReadyQueue


class Engine:
    """Runs passes. A process has one, `engine()`.

    Thread  any; several passes may run at once, also through the same Nodes
    Source  PyTorch, torch/csrc/autograd/engine.cpp
    """

    def __init__(self) -> None:
        self.device_threads = DeviceThreads(self.device_loop)

    def execute(
        self,
        roots: Sequence[tuple[Any, Tensor]],
        *,
        keep: bool,
        create_graph: bool,
        inputs: Sequence[tuple[Node, int]] | None,
        accumulate: bool,
    ) -> list[Tensor | None]:
        """Run a local pass from (edge, gradient) roots and return the captured gradients of inputs.

        Raises  the first error of a Node or hook
        """
        # In a device thread, the pass uses that thread's queue. The thread must go on serving its
        # device, or the Nodes that this pass sends to the device would wait forever.
        queue = current_device_queue()
        if queue is None:
            queue = ReadyQueue()
        root = GraphRoot(
            tuple(edge for edge, _ in roots), tuple(g for _, g in roots), next_sequence_number()
        )
        task = GraphTask(
            keep_graph=keep,
            create_graph=create_graph,
            depth=running.depth + 1 if running.graph_task is not None else 0,
            cpu_ready_queue=queue,
            graph_roots=tuple(edge for edge, _ in roots),
        )
        task.compute_dependencies([root], 0 if inputs is None else oldest(inputs))
        if inputs is not None:
            task.init_to_execute(root, inputs, accumulate)
        task.streams = self.device_threads.streams_of(task.nodes_in_graph)
        if task.streams:
            task.other_streams = other_streams(task.streams, task.nodes_in_graph)
        try:
            queue.push(NodeTask(task, root, InputBuffer(0)))
            self.run_until_complete(task, queue)
            return task.future.wait()
        except BaseException as error:
            after_pass(task.other_streams)
            task.forget_error()
            if isinstance(error, MemoryError):
                raise_out_of_memory(error)
            raise

    def run_until_complete(self, task: GraphTask, queue: ReadyQueue) -> None:
        """Run queued Nodes in the calling thread until `task` is complete."""
        while not task.completed():
            self.run_one(queue.pop(), awake=queue)
            if task.has_error and isinstance(task.future.exception(), KeyboardInterrupt):
                # The interrupt may have come after a task was counted and before it was pushed.
                # Then the count stays above 0, but no task arrives.
                return
        if not task.future.done():
            task.mark_completed_and_post_process()

    def run_one(
        self,
        item: NodeTask,
        cpu_queue: ReadyQueue | None = None,
        *,
        awake: ReadyQueue | None = None,
    ) -> None:
        """Run one queued Node for its pass. Record an error in the pass, and wake the owner when
        the pass is done.

        CPU Nodes that become ready are pushed to `cpu_queue`, the queue of the calling thread.
        Without `cpu_queue` they go to the CPU queue of their pass, which may not be the pass for
        which the caller waits. `awake` is the queue that the calling thread serves: if the pass is
        owned by this thread, no wake-up is needed.
        """
        task = item.graph_task
        if task is None:
            return
        if item.node is not None and not task.has_error:
            try:
                self._evaluate_in_context(
                    task, item, task.cpu_ready_queue if cpu_queue is None else cpu_queue
                )
            except BaseException as error:
                task.set_exception(error, item.node)
        if item.node is None:
            return
        task.add_outstanding(-1)
        if task.completed():
            if not task.has_error:
                task.mark_completed_and_post_process()
            if task.owner_queue is not None and task.owner_queue is not awake:
                # The owner waits on its own queue; a task without a Node wakes it.
                task.owner_queue.push(NodeTask(task, None, None), increment_outstanding=False)

    def device_loop(self, queue: ReadyQueue) -> None:
        """Serve a device's queue until a shutdown task arrives."""
        while True:
            item = queue.pop()
            if item.shutdown:
                return
            self.run_one(item)

    def _evaluate_in_context(self, task: GraphTask, item: NodeTask, queue: ReadyQueue) -> None:
        before_mode, inline_pass = tls.grad, tls.inline_pass
        before_task, before_depth = running.graph_task, running.depth
        try:
            running.graph_task, running.depth = task, task.depth
            tls.inline_pass = None
            set_grad_mode(task.create_graph)
            assert item.node is not None
            stream = stream_of(task, item.node) if task.streams else None
            state = None if task.thread_state is None else task.thread_state()
            if stream is None and state is None:
                # The usual case; an empty ExitStack would cost as much as a small Node.
                self._evaluate(task, *item.taken(), queue)
                return
            if stream is not None and state is None and len(task.streams) == 1:
                with stream:
                    self._evaluate_chain(task, item, queue, stream)
                return
            # If a Node queues work on other devices, this work must use the pass's streams there.
            others = task.streams.values() if len(task.streams) > 1 else ()
            with ExitStack() as stack:
                for manager in (state, *others, stream):
                    if manager is not None:
                        stack.enter_context(manager)
                self._evaluate(task, *item.taken(), queue, stream)
        finally:
            # See Note [Ctrl-C and grad mode]
            tls.inline_pass = inline_pass
            running.graph_task, running.depth = before_task, before_depth
            if before_mode:
                tls.grad = True
            set_grad_mode(before_mode)

    def _evaluate_chain(
        self, task: GraphTask, item: NodeTask, queue: ReadyQueue, here: Any
    ) -> None:
        """Run a Node. While a Node makes another Node ready that this thread would take next from
        its queue, run that Node too; with one stream, most Nodes of a pass run so. These Nodes are
        neither queued nor counted: only the first Node is counted.
        """
        mine = current_device_queue()
        onward = self._evaluate(task, *item.taken(), queue, here, mine)
        while onward is not None:
            if task.has_error:
                return
            # The previous Node may have changed these settings.
            tls.inline_pass = None
            set_grad_mode(task.create_graph)
            node = onward[0]
            try:
                onward = self._evaluate(task, *onward, queue, here, mine)
            except BaseException as error:
                task.set_exception(error, node)
                raise

    def _evaluate(
        self,
        task: GraphTask,
        node: Node,
        inputs: InputBuffer,
        queue: ReadyQueue,
        here: Any = None,
        mine: ReadyQueue | None = None,
    ) -> tuple[Node, InputBuffer] | None:
        """Run one Node with its hooks and captures, and pass its results to the next Nodes.

        `here` is the current stream of the calling thread. If a Node becomes ready on that stream
        and would run next in the queue `mine`, this Node is returned instead of queued.
        """
        grads: tuple[Any, ...] = tuple(inputs.values)
        if node.hooks is not None and grads:
            grads = hooks.run_tensor_hooks(node, grads)
            # A hook may have stored a gradient, so from here on no gradient may be overwritten: an
            # empty InputBuffer owns no gradients.
            inputs = InputBuffer(node.num_outputs)
        if task.exec_info:
            info = task.exec_info.get(node)
            if info is None:
                return None
            for capture in info.captures or ():
                self._capture(task, capture, grads, inputs.owns(capture.input_idx))
            if not info.needed:
                return None
        if node.hooks is not None and node.hooks.pre:
            grads = hooks.run_prehooks(node, grads)
        if node.is_accumulate:
            self._accumulate(task, node, grads[0], inputs.owns(0))
            return None
        results = (
            self._call_watched(task, node, grads)
            if anomaly.enabled
            else self._call(task, node, grads)
        )
        if node.hooks is not None and node.hooks.post:
            results = hooks.run_post_hooks(node, results, grads)
            fresh = False
        else:
            fresh = node.fresh and not task.create_graph
        return self._hand_on(task, node, results, fresh, queue, here, mine)

    def _capture(
        self, task: GraphTask, capture: Capture, grads: tuple[Any, ...], mine: bool
    ) -> None:
        captured = grads[capture.input_idx]
        for hook in capture.hooks:
            captured = hook(captured, mine)
            mine = False
        with task.lock:
            task.captured_vars[capture.output_idx] = captured

    def _accumulate(self, task: GraphTask, node: Any, g: Tensor | None, mine: bool) -> None:
        stream = task.streams.get(node.output_layout.device) if task.streams else None
        if g is None:
            pass  # no gradient to add, but the hooks below still run
        elif task.create_graph or modes.special:
            with _timed(node, (g,)) if time_ranges.on else nullcontext():
                node.accumulate_recorded(g, stream)
        else:
            node.accumulate(g._array, mine, stream)
        if node.hooks is not None:
            hooks.run_post_hooks(node, (), (g,))

    def _call_watched(self, task: GraphTask, node: Node, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        try:
            results = self._call(task, node, grads)
            if anomaly.check_nan:
                require_no_nan(node, results)
        except BaseException:
            warn_of(node)
            raise
        return results

    def _call(self, task: GraphTask, node: Node, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        one = node.num_outputs == 1
        if one and grads and grads[0] is None and not node.accepts_undefined:
            return (None,) * len(node.edges)
        try:
            if task.create_graph or modes.special:
                given = (grads[0] if grads else None) if one else grads
                if not time_ranges.on:
                    return node.apply_recorded(given, task.keep_graph)
                with _timed(node, grads):
                    return node.apply_recorded(given, task.keep_graph)
            if one:
                g = grads[0] if grads else None
                results = node.apply(None if g is None else g._array, task.keep_graph)
            else:
                raw = tuple([None if g is None else g._array for g in grads])
                results = node.apply(raw, task.keep_graph)
        except NoDerivativeError:
            part = restrict_to_wanted(node, task.is_wanted, keep=task.keep_graph)
            if part is None:
                raise
            return self._call(task, part, grads)
        wrapped: list[Tensor | None] = []
        for edge, array in zip(node.edges, results, strict=True):
            if array is None or edge is None:
                wrapped.append(None)
                continue
            layout = (edge.node if edge.__class__ is Edge else edge).output_layout
            if layout.__class__ is tuple:
                layout = layout[output_number(edge)]
            if layout is not None:
                wrapped.append(wrap(array, layout_near(array, layout)))
            else:
                wrapped.append(wrap(array, layout_of(array, _device_of_array(node, array))))
        return tuple(wrapped)

    def _hand_on(
        self,
        task: GraphTask,
        node: Node,
        results: tuple[Any, ...],
        fresh: bool,
        queue: ReadyQueue,
        here: Any,
        mine: ReadyQueue | None,
    ) -> tuple[Node, InputBuffer] | None:
        onward: tuple[Node, InputBuffer] | None = None
        if len(results) != len(node.edges):
            raise GraphError(
                f"{node.name()} returned an incorrect number of gradients (expected "
                f"{len(node.edges)}, got "
                f"{len(results)})"
            )
        streams, exec_info = task.streams, task.exec_info
        own = None if here is None else device_of(node)
        for edge, g in zip(node.edges, results):
            if edge is None:
                continue
            next_node = edge.node if edge.__class__ is Edge else edge
            if exec_info:
                info = exec_info.get(next_node)
                if info is None or not info.should_execute():
                    continue
            stream = None
            if streams:  # `stream_of`, inlined
                if not next_node.is_accumulate:
                    stream = getattr(next_node, "stream", None)
                if stream is None:
                    stream = streams.get(device_of(next_node))
            # A stream belongs to one device: a next Node with the stream `here` is on this device.
            if stream is None or (stream is here and (g is None or g._layout.device is own)):
                buffer = _arrive(task, edge, next_node, g, fresh)
            else:
                if g is not None and g._layout.device.index is not None:
                    is_there = g._layout.device is device_of(next_node)
                    hand_over(g, stream if is_there else streams[g._layout.device])
                with stream:
                    buffer = _arrive(task, edge, next_node, g, fresh)
            if buffer is None:
                continue
            # A device has one thread, so this thread may run the Node itself.
            if onward is None and mine is not None and stream is here and not next_node.waits:
                onward = next_node, buffer
            else:
                self.ready_queue(next_node, queue).push(NodeTask(task, next_node, buffer))
        if onward is None or mine is None or not mine.heap:
            return onward
        ready = NodeTask(task, *onward)
        if mine.would_give(ready):
            return onward
        mine.push(ready)
        return None

    def ready_queue(self, node: Node, cpu_queue: ReadyQueue) -> ReadyQueue:
        """Return the queue for a Node: its device's queue, or cpu_queue. cpu_queue also takes Nodes
        that wait for a device or for other workers.
        """
        device = device_of(node)
        if device is None or node.waits:
            return cpu_queue
        return self.device_threads.queue_of(device)


def _timed(node: Any, grads: tuple[Tensor | None, ...]) -> time_range:
    """Return the profiler's time range for the run of a Node with the gradients `grads`."""
    shapes: dict[str, Any] = {}
    if time_ranges.wanted.shapes:
        shapes = {"shapes": tuple([() if g is None else g._layout.shape for g in grads])}
    number = -1 if node.is_accumulate else node.seq
    return time_range(node.name(), "backward", sequence_nr=number, **shapes)


def _arrive(
    task: GraphTask, edge: Any, node: Node, g: Tensor | None, fresh: bool
) -> InputBuffer | None:
    """Add the gradient of one output of a Node; return all gradients if none is missing now."""
    dependencies, waiting = task.dependencies, task.not_ready
    with task.lock:
        left = dependencies[node] - 1
        buffer = waiting.get(node)
        if buffer is None:
            buffer = InputBuffer(node.num_outputs)
            if left:
                waiting[node] = buffer
        elif not left:
            del waiting[node]
        buffer.add(edge.output_nr if edge.__class__ is Edge else 0, g, fresh)
        if left:
            dependencies[node] = left
            return None
        del dependencies[node]
        return buffer


def stream_of(task: GraphTask, node: Node) -> Any:
    """Return the stream on which a Node runs in a pass; None for a CPU Node."""
    if node.is_accumulate or (stream := getattr(node, "stream", None)) is None:
        return task.streams.get(device_of(node))
    return stream


def _device_of_array(node: Node, array: Any) -> Any:
    layout = node.output_layout
    if layout.__class__ is tuple:
        layout = next((part for part in layout if part is not None), None)
    if layout is not None:
        return layout.device
    raise GraphError(f"{node.name()} does not say on which device its gradients are")


def queue_callback(callback: Any) -> None:
    """Call callback() when the current pass of this thread has run all its Nodes.

    Raises  RuntimeError outside of a backward pass
    """
    if tls.inline_pass is not None:
        tls.inline_pass[1].append(callback)
        return
    task = running.graph_task
    if task is None:
        raise GraphError("Final callbacks can only be installed during backward pass.")
    with task.lock:
        task.final_callbacks.append(callback)


def current_graph_task() -> GraphTask | None:
    """Return the pass whose Node this thread runs; None in an inline pass."""
    return None if tls.inline_pass is not None else running.graph_task


_engine: Engine | None = None
_engine_lock = threading.Lock()
renew_in_children(sys.modules[__name__], "_engine_lock")


def engine() -> Engine:
    """Return the engine of this process; the first call creates it."""
    global _engine
    if _engine is None:
        with _engine_lock:
            if _engine is None:
                _engine = Engine()
    return _engine

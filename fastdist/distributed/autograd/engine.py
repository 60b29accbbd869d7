"""The distributed engine: one pass over all workers that a context reached."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...backends.backend import backend_of
from ...core.errors import ContextError, ContextReleasedError, GraphError
from ...core.future import Future
from ...engine.engine import engine as local_engine
from ...engine.graph_task import GraphRoot, GraphTask
from ...engine.input_buffer import InputBuffer
from ...engine.ready_queue import NodeTask, ReadyQueue
from ...graph.node import Node, next_sequence_number
from ...tensor.tensor import Tensor, layout_of, wrap
from ..rpc.agent import get_current_agent, is_current_agent_set
from .container import get_instance
from .context import DistAutogradContext
from .dependencies import compute_dependencies
from .global_cpu_thread import GlobalCpuThread, log_expired
from .send_rpc_backward import SendRpcBackward
from .stall import wait_for_pass

_logger = logging.getLogger(__name__)


class DistEngine:
    """Runs this worker's part of distributed passes. One for the process: `dist_engine()`.

    Thread  any; `_lock` guards `_initialized`, the contexts in which a pass is under way here
    Source  PyTorch, torch/csrc/distributed/autograd/engine/dist_engine.cpp
    """

    def __init__(self) -> None:
        self._initialized: set[int] = set()
        self._lock = threading.Lock()
        # Where the GPU to CPU continuations of every distributed pass go. See Note [GPU to CPU continuations].
        self.global_cpu_thread = GlobalCpuThread(self._hand_to_pool)

    def execute(self, context_id: int, roots: Sequence[Tensor], retain_graph: bool) -> None:
        """Run a pass from roots here, wait until all workers are done, and leave gradients in their contexts.

        Raises  ContextError without such a context; what failed anywhere in the pass, naming the worker
        """
        context = get_instance().retrieve_context(context_id)
        edges, gradients = _validate_roots(roots)
        root = GraphRoot(edges, gradients, next_sequence_number())
        with self._lock:
            if context_id in self._initialized:
                raise ContextError(
                    "Cannot set GraphTask multiple times for the same autograd context: a backward pass of context "
                    f"{context_id} is under way; wait for it, or use another context"
                )
            task = self._prepare(context, root, retain_graph)
        try:
            self._run(task, root, increment=True)
            wait_for_pass(context, task)
            self._raise_with_node(task)
            context.clear_and_wait_for_outstanding_rpcs_async().wait()
        except BaseException as error:
            from .abort import abort_everywhere

            task.set_exception(error)
            abort_everywhere(context, str(error))
            raise
        finally:
            self._clean_up(context)

    def execute_send_function_async(
        self, context: DistAutogradContext, function: SendRpcBackward, retain_graph: bool
    ) -> Future[None]:
        """Go on from a send whose gradients came; the Future is done when all that follows is.

        The first gradients of a context here set the pass up, and their answer waits for the whole of it (and for all
        that it sent on); later ones only add to it and are answered at once.
        """
        with self._lock:
            first = context.id not in self._initialized
            if first:
                root = GraphRoot((), (), next_sequence_number())
                self._prepare(context, root, retain_graph)
        task = context.graph_task()
        if task is None:
            raise ContextReleasedError(f"the backward pass of context {context.id} has ended here")
        done: Future[None] = Future()
        if not first:
            self._run(task, function, increment=False)
            done.set_result(None)
            return done
        task.future.add_done_callback(lambda _: self._finish(context, task, done))
        self._run(task, function, increment=False)
        return done

    def _prepare(self, context: DistAutogradContext, root: GraphRoot, retain_graph: bool) -> GraphTask:
        context.clear_outstanding_rpcs()
        context.arrived_sends.clear()
        task = compute_dependencies(context, root, retain_graph, self.global_cpu_thread.queue)
        task.streams = local_engine().device_threads.streams_of(task.nodes_in_graph)
        if task.streams:
            self.global_cpu_thread.start()
        self._initialized.add(context.id)
        return task

    def _run(self, task: GraphTask, node: Node, *, increment: bool) -> None:
        item = NodeTask(task, node, InputBuffer(0))
        self.execute_until_empty(item, increment)

    def execute_until_empty(self, item: NodeTask, increment: bool) -> None:
        """Run a task and all CPU Nodes that become ready through it, on this thread, with a queue of its own.

        Several threads may do so for one pass: each has its own queue, so none waits for another's work.
        """
        queue = ReadyQueue()
        queue.push(item, increment_outstanding=increment)
        engine = local_engine()
        while (next_item := queue.try_pop()) is not None:
            task = next_item.graph_task
            if task is None:
                log_expired(next_item)
                continue
            engine.run_one(next_item, queue)
            if task.has_error:
                # The first error ends the pass; what is queued here is not worth running.
                return

    def _hand_to_pool(self, item: NodeTask) -> None:
        """Give a continuation to the agent's pool, in which it never waits behind users' work."""
        if is_current_agent_set():
            submit: Callable[..., bool] | None = getattr(get_current_agent(), "submit_uncounted", None)
            if submit is not None and submit(self.execute_until_empty, item, False):
                return
        self.execute_until_empty(item, False)

    def _finish(self, context: DistAutogradContext, task: GraphTask, done: Future[None]) -> None:
        error = task.future.exception()
        if error is not None:
            self._clean_up(context)
            done.try_complete(error=_on_node(error))
            return

        def answer(sent: Future[None]) -> None:
            self._clean_up(context)
            failure = sent.exception()
            done.try_complete(error=failure)

        context.clear_and_wait_for_outstanding_rpcs_async().add_done_callback(answer)

    def _raise_with_node(self, task: GraphTask) -> None:
        error = task.future.exception()
        if error is not None:
            raise _on_node(error)

    def _clean_up(self, context: DistAutogradContext) -> None:
        context.reset_graph_task()
        context.clear_outstanding_rpcs()
        with self._lock:
            self._initialized.discard(context.id)

    def number_of_passes(self) -> int:
        """Return how many passes are under way here."""
        with self._lock:
            return len(self._initialized)


def _on_node(error: BaseException) -> BaseException:
    """Return error, its message led by the worker on which it happened; an error that came from afar says it already."""
    text = str(error)
    if text.startswith("Error on Node ") or getattr(error, "remote_traceback", None) is not None:
        return error
    try:
        named = error.__class__(f"Error on Node {get_instance().worker_id}: {text}")
    except Exception:
        named = GraphError(f"Error on Node {get_instance().worker_id}: {type(error).__name__}: {text}")
    named.__cause__ = error
    return named


def _validate_roots(roots: Sequence[Tensor]) -> tuple[tuple[Any, ...], tuple[Tensor, ...]]:
    if not roots:
        raise GraphError("No tensors provided for gradient computation.")
    edges, gradients = [], []
    for i, root in enumerate(roots):
        if not isinstance(root, Tensor):
            raise TypeError(f"roots[{i}] is {type(root).__name__}; expected a Tensor")
        if root.edge is None:
            raise GraphError(f"requires_grad not set on root: roots[{i}] of shape {root.layout.shape}")
        name = f"roots[{i}]" if root.edge.is_accumulate else root.edge.name()
        if root.layout.numel != 1:
            raise GraphError(
                f"{name} is not a scalar, all roots need to be scalar: it has shape {root.layout.shape}; "
                "reduce it first, for instance with .sum()"
            )
        if root.edge.is_accumulate:
            raise GraphError(
                f"{name} does not have a valid gradient function.: it is a leaf, made by no op; nothing leads back "
                "from it"
            )
        layout = root.layout
        ones = np.ones(layout.shape, layout.dtype.numpy)
        array = backend_of(layout.device.type).from_numpy(ones, layout.device.index)
        edges.append(root.edge)
        gradients.append(wrap(array, layout_of(array, layout.device)))
    return tuple(edges), tuple(gradients)


_engine = DistEngine()


def dist_engine() -> DistEngine:
    """Return the process's distributed engine."""
    return _engine

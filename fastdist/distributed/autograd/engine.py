"""The distributed engine: one pass over all workers that a context reached."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ...concurrency.future import Future, InternalFuture
from ...core.errors import ContextReleasedError
from ...engine.engine import engine as local_engine
from ...engine.graph_task import GraphRoot, running
from ...engine.input_buffer import InputBuffer
from ...engine.ready_queue import NodeTask
from ...graph.forward_streams import after_pass, other_streams
from ...graph.modes import set_grad_mode, tls
from ...graph.node import Node, next_sequence_number
from ...tensor.tensor import Tensor
from ..rpc.agent import get_current_agent, is_current_agent_set
from ..rpc.debug_log import debug_log
from ..rpc.message.ids import id_text
from ..rpc.message.remote_errors import text_of
from .abort import abort_everywhere
from .backward_pass import BackwardPass, DistGraphTask, PassState
from .container import current_context_id, force_current_context_id, get_instance
from .context import DistAutogradContext
from .dependencies import compute_dependencies
from .global_cpu_thread import GlobalCpuThread, log_expired
from .lost_workers import end_sends_to_the_lost
from .message_autograd import receive_recorded, send_recorded
from .node_errors import with_node_named
from .outbox import (
    MESSAGES,
    NOT_RECORDED,
    GradientBatch,
    Gradients,
    Outbox,
    set_current_outbox,
    unpack,
)
from .own_queue import OwnQueue
from .pass_metadata import Terms
from .plain_nodes import is_plain, run_plain
from .roots import validate_roots
from .stall import are_over, first_failed, has_answer, wait_for_pass

if TYPE_CHECKING:
    from ..rpc.calls.outgoing import LaneCall
    from ..rpc.workers.worker import Worker

# Note [Results that nobody uses]
# In the fast mode a pass waits forever for the gradient of a result that no root depends on. In the
# auto mode each worker, when its part of a pass begins, reports as unused the receives that cannot
# be reached from any of its starts. The senders then run the sends with undefined gradients. A
# worker begins its part at the first such report or gradient. A worker may get neither, if its
# results carry no gradients, or if workers wait for each other's reports in a cycle. Such a worker
# gets a request to begin when the root has waited a little (stall.py). After that every receive is
# reached from a start of its worker, or is reported as unused, or is missing. So no send waits
# forever, by induction over the order in which messages were sent.
#
# PyTorch's design notes have a third mode, smart, which would find the participating sends by a
# round of messages before the pass. It would give the same gradients, and every pass would pay for
# the round; here only a pass that waits sends queries. So that mode does not exist here.

# Note [Gradients that have gradients]
# With create_graph each worker records its part of the pass. Gradients with a history are sent like
# the tensors of a call: the sender adds a send to the context, and the receiver adds a receive. The
# history of the gradients in the contexts then spans all workers, and a later pass of the same
# context differentiates these gradients. The added sends and receives are not part of the pass that
# creates them, because they are added after the pass began.


class DistEngine:
    """Runs this worker's part of distributed passes. `dist_engine()` returns the only instance.

    Thread  any; `_lock` guards `_under_way`, the passes that are not over here
    Source  PyTorch, torch/csrc/distributed/autograd/engine/dist_engine.cpp
    """

    def __init__(self) -> None:
        self._under_way: set[BackwardPass] = set()
        self._lock = threading.RLock()
        # Takes the GPU to CPU continuations of all distributed passes. See
        # Note [GPU to CPU continuations].
        self.global_cpu_thread = GlobalCpuThread(self._hand_to_pool)

    def execute(
        self,
        context_id: int,
        roots: Sequence[Tensor],
        retain_graph: bool,
        *,
        is_auto: bool = False,
        create_graph: bool = False,
        to_grad: bool = False,
    ) -> None:
        """Run a pass from roots, and wait for all workers; the gradients stay in the context.

        Raises  ContextError if there is no such context; the first error of the pass, with the name
                of the worker that raised it
        """
        context = get_instance().retrieve_context(context_id)
        edges, gradients = validate_roots(roots)
        root = GraphRoot(edges, gradients, next_sequence_number())
        pass_id = get_instance().new_autograd_message_id()
        # With create_graph the new graph refers to the present graph, which must then be kept.
        keeps_graph = retain_graph or create_graph
        terms = Terms(context_id, pass_id, keeps_graph, is_auto, create_graph, to_grad)
        part, task, _ = self._begin(context, root, terms)
        assert task is not None, "a pass that has not been announced was aborted"
        # Futures for the ends of this worker's part, and of all parts that were requested to begin.
        begun: list[Future[Any]] = [part.done]
        failed: Future[Any] | None = None

        def end(_: object) -> None:
            error = task.future.exception()
            if error is not None:
                # Abort now: other workers may wait for gradients that will not come, while this
                # thread waits for these workers.
                abort_everywhere(context.known_workers(), terms, text_of(error))
            self._finish(context, task)

        task.future.add_done_callback(end)
        outbox = Outbox(part)
        try:
            ended = end_sends_to_the_lost(context, part)
            self._tell_unused(context, task, outbox)
            task.add_outstanding(1)
            self._work(task, [root, *ended], outbox)
            while (asked := outbox.send_direct()) is not None:
                self._take_answer(context, task, outbox, begun, *asked)
            wait_for_pass(context, part, partial(are_over, begun), begun)
            failed = first_failed(begun)
            if failed is not None:
                failed.value()
        except BaseException as error:
            if not part.fail(error) and not task.has_error:
                # This worker's part ended without an error, so nothing else notifies the other
                # workers.
                abort_everywhere(context.known_workers(), terms, text_of(error))
            self._clean_up(context, part, error)
            # Cleared because the error's traceback holds this frame. See GraphTask.forget_error.
            failed = None
            begun.clear()
            raise

    def _take_answer(
        self,
        context: DistAutogradContext,
        task: DistGraphTask,
        outbox: Outbox,
        begun: list[Future[Any]],
        batch: GradientBatch,
        asked: LaneCall,
    ) -> None:
        """Wait for the answer to a gradient message; continue with the gradients in the answer."""
        try:
            wait_for_pass(context, task.part, partial(has_answer, asked, begun), begun)
        except BaseException:
            asked.give_up()
            raise
        if begun[0].done() or first_failed(begun) is not None:
            asked.give_up()
            return
        try:
            reply = asked.result()
        except Exception as error:
            # The callee raised an error, or it was lost. The error ends the pass, and the waiting
            # thread raises it.
            batch.sent.try_complete(error=error)
            return
        if MESSAGES in reply.metadata and context.graph_task() is task:
            came = unpack(reply.tensors, reply.metadata, batch.to.id)
            fresh = not batch.to.is_self
            starts = self._arrive(context, task.part, came, fresh=fresh)
            self._work(task, starts, outbox)
        # Complete the batch only after this work. Otherwise the pass could seem to have finished
        # while the work is still to be done.
        batch.sent.try_complete(None)

    def _tell_unused(
        self, context: DistAutogradContext, task: DistGraphTask, outbox: Outbox
    ) -> None:
        """Report as unused the receives that this worker's part of the pass does not reach.

        See Note [Results that nobody uses].
        """
        if not task.part.terms.is_auto:
            return
        for receive in context._recv_functions().values():
            sender = receive.from_worker
            if sender not in task.part.lost_before and receive not in task.nodes_in_graph:
                outbox.add(sender, Gradients(receive.message_id, None))

    def execute_send_functions_async(
        self,
        context: DistAutogradContext,
        came: Sequence[Gradients],
        terms: Terms,
        *,
        fresh: bool,
        sender: Worker | None = None,
        direct: bool = False,
    ) -> tuple[Future[None], GradientBatch | None]:
        """Continue from sends whose gradients arrived; return a Future that the answer waits for.

        The first gradients of a pass set up this worker's part. They are answered when the whole
        part has ended and the part's own messages are answered. Later gradients are answered
        immediately. If `direct` is true, the sender waits for the answer, and a batch of gradients
        for the sender may be returned as well. The caller sends that batch in the answer.

        Raises  ContextError for an unknown message id; ContextReleasedError if the pass is over
        """
        for gradients in came:
            context.retrieve_send_function(gradients.message_id)
        root = GraphRoot((), (), next_sequence_number())
        part, task, is_new = self._begin(context, root, terms, sender)
        if task is None:
            if any(one.tensors is not None for one in came):
                raise ContextReleasedError(
                    f"a backward pass of context {id_text(context.id)} has ended here"
                )
            # Notices of unused sends, or a request to begin, arrived after the part's end: only
            # count them.
            self._arrive(context, part, came, fresh=fresh)
            return _done(), None
        # Read now, because the part replaces `done` at its end.
        done = part.done if is_new else _done()
        outbox = Outbox(part)
        ended: list[Node] = []
        if is_new:
            ended = end_sends_to_the_lost(context, part)
            self._tell_unused(context, task, outbox)
            task.future.add_done_callback(lambda _: self._finish(context, task))
            if not task.outstanding:
                # Nothing was sent from here, so no Node will run.
                task.mark_completed_and_post_process()
        starts = self._arrive(context, part, came, fresh=fresh)
        self._work(task, [*starts, *ended], outbox)
        batch = outbox.batches.pop(sender, None) if direct and sender else None
        outbox.flush()
        if batch is not None and not done.done():
            # The part continues, here or elsewhere, and these gradients must not wait for its end.
            outbox.send(batch)
            batch = None
        if batch is not None:
            batch.sent.try_complete(None)
        return done, batch

    def _arrive(
        self,
        context: DistAutogradContext,
        part: BackwardPass,
        came: Sequence[Gradients],
        *,
        fresh: bool,
    ) -> list[Node]:
        """Store the gradients of sends, and return the sends that must run now."""
        starts: list[Node] = []
        for message_id, tensors, recorded, devices, _, follow in came:
            function = context.retrieve_send_function(message_id)
            if recorded != NOT_RECORDED:
                sender, device_map = function.to_worker, function.device_map
                receive_recorded(context, recorded, sender, tensors or (), device_map)
            if not part.take(message_id):
                continue
            if tensors is None:
                function.set_unused(part)
            else:
                function.set_grads(part, tuple(tensors), fresh, devices, follow)
            starts.append(function)
        return starts

    def _begin(
        self,
        context: DistAutogradContext,
        root: GraphRoot,
        terms: Terms,
        requester: Worker | None = None,
    ) -> tuple[BackwardPass, DistGraphTask | None, bool]:
        """Return a pass's part here, its task (None if the part is over), and whether it is new.

        Raises  ContextError if another pass of the context is under way; ContextReleasedError if
                the context is over
        """
        with context.beginning:
            part = context.find_pass(terms.pass_id)
            if part is not None:
                return part, part.task, False
            part = BackwardPass(terms, requester)
            part.reached = partial(_reached, weakref.ref(context))
            if terms.create_graph:
                part.record = partial(send_recorded, context)
            context.require_no_pass(part)
            sends, num_recvs = context._send_functions(), context.number_of_receives()
            queue = self.global_cpu_thread.queue
            task = compute_dependencies(context, part, root, [*sends.values()], queue)
            task.streams = local_engine().device_threads.streams_of(task.nodes_in_graph)
            if task.streams:
                task.other_streams = other_streams(task.streams, task.nodes_in_graph)
            awaited = {message_id: send.to_worker for message_id, send in sends.items()}
            if not context.set_graph_task(task, awaited, num_recvs):
                return part, None, False  # given up by another thread meanwhile
            with self._lock:
                self._under_way.add(part)
        if debug_log.of_autograd:
            me, by = get_instance().worker_id, ""
            if requester is not None:
                by = f", requested by rank {requester.id}"
            debug_log.backward(me, context.id, terms.pass_id, "begins%s", by)
        if task.streams:
            self.global_cpu_thread.start()
        return part, task, True

    def _work(self, task: DistGraphTask, starts: Sequence[Node], outbox: Outbox) -> None:
        """Run Nodes, and all CPU Nodes that become ready through them, on this thread.

        Each of the given Nodes counts as an outstanding task.

        Several threads may run Nodes of one pass. Each thread has a separate queue, so no thread
        waits for another.
        The outbox keeps the messages to send. See Note [Gradients that wait a little].
        """
        if starts:
            queue = OwnQueue()
            for node in starts:
                queue.put(node, InputBuffer(0))
            self._empty(task, queue, outbox, len(starts))

    def _empty(self, task: DistGraphTask, queue: OwnQueue, outbox: Outbox, starts: int) -> None:
        """Run the queued Nodes, and all Nodes that these queue. In the task, all of them together
        count as `starts` outstanding tasks.

        Most thread-local state is set once, and not for each Node as in the local engine: setting
        all of it would take as long as a small Node.
        """
        engine, context_id = local_engine(), task.part.terms.context_id
        plain = is_plain(task)
        outbox_before, context_before = set_current_outbox(outbox), current_context_id()
        grad_before, inline_before = tls.grad, tls.inline_pass
        task_before, depth_before = running.graph_task, running.depth
        try:
            running.graph_task, running.depth, tls.inline_pass = task, task.depth, None
            while not task.has_error and (taken := queue.take()) is not None:
                if outbox.batches and outbox.is_due(_elements(taken[0])):
                    outbox.flush()
                # Checked before each Node: a hook may have changed the context or the grad mode.
                if current_context_id() != context_id:
                    force_current_context_id(context_id)
                if tls.grad is not task.create_graph:
                    set_grad_mode(task.create_graph)
                try:
                    if plain:
                        run_plain(engine, task, *taken, queue)
                    elif task.streams:
                        engine._evaluate_in_context(task, NodeTask(task, *taken), queue)
                    else:
                        engine._evaluate(task, *taken, queue)
                except BaseException as error:
                    task.set_exception(error, taken[0])
        finally:
            # See Note [Ctrl-C and grad mode]
            tls.inline_pass = inline_before
            running.graph_task, running.depth = task_before, depth_before
            if grad_before:
                tls.grad = True
            set_grad_mode(grad_before)
            force_current_context_id(context_before)
            set_current_outbox(outbox_before)
        if task.has_error:
            # The first error ends the pass; the remaining queue is dropped.
            outbox.batches.clear()
        elif not task.add_outstanding(-starts):
            task.mark_completed_and_post_process()

    def execute_until_empty(self, item: NodeTask) -> None:
        """Run a Node that a device thread handed back, and all CPU Nodes that become ready through
        it.
        """
        task = item.graph_task
        if task is None:
            log_expired(item)
            return
        if task.part.state is PassState.OVER:
            return  # given up, or its context released, meanwhile
        queue = OwnQueue()
        queue.push(item)
        outbox = Outbox(task.part)
        self._empty(task, queue, outbox, 1)
        outbox.flush()

    def _hand_to_pool(self, item: NodeTask) -> None:
        """Run a continuation in the agent's pool, where it never waits behind users' functions."""
        if is_current_agent_set() and get_current_agent().submit_uncounted(
            self.execute_until_empty, item
        ):
            return
        self.execute_until_empty(item)

    def _finish(self, context: DistAutogradContext, task: DistGraphTask) -> None:
        """End a part whose task is done, as soon as all its messages are answered."""
        part, error = task.part, task.future.exception()
        if error is not None:
            after_pass(task.other_streams)
            done = self._clean_up(context, part, error)
            if done is not None:
                done.try_complete(error=with_node_named(error))
            task.forget_error()
            return

        def answer(sent: Future[None]) -> None:
            failure = sent.exception()
            done = self._clean_up(context, part, failure)
            if done is not None:
                done.try_complete(error=None if failure is None else with_node_named(failure))

        part.settle().add_done_callback(answer)

    def _clean_up(
        self, context: DistAutogradContext, part: BackwardPass, error: BaseException | None = None
    ) -> Future[None] | None:
        """End a part, and return the Future to complete afterwards; None if the part was over."""
        if error is not None:
            part.note_failure(error)
        with self._lock:
            self._under_way.discard(part)
        task, done = part.task, part.end()
        if done is not None and task is not None and debug_log.of_autograd:
            me, how = get_instance().worker_id, "failed" if task.has_error else "ended"
            debug_log.backward(me, context.id, part.terms.pass_id, how)
        return done

    def number_of_passes(self) -> int:
        """Return the number of passes under way on this worker."""
        with self._lock:
            return len(self._under_way)

    def stop(self) -> None:
        """Forget all passes and end the CPU thread, after RPC's shutdown."""
        with self._lock:
            self._under_way.clear()
        self.global_cpu_thread.stop()


def _reached(context: Callable[[], DistAutogradContext | None]) -> set[Worker]:
    """Return the workers that a context has reached; an empty set if the context has been freed
    (passes hold only a weak reference to it).
    """
    found = context()
    return set() if found is None else found.known_workers()


def _done() -> Future[None]:
    done: Future[None] = InternalFuture()
    done.set_result(None)
    return done


def _elements(node: Node | None) -> int:
    layout = None if node is None else node.output_layout
    if layout.__class__ is tuple:
        return sum(part.numel for part in layout if part is not None)
    return 0 if layout is None else layout.numel


_engine = DistEngine()


def dist_engine() -> DistEngine:
    """Return this process's distributed engine."""
    return _engine

"""The distributed engine: one pass over all workers that a context reached."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ...core.errors import ContextError, ContextReleasedError, GraphError
from ...core.future import Future
from ...engine.engine import engine as local_engine
from ...engine.graph_task import GraphRoot, GraphTask
from ...engine.input_buffer import InputBuffer
from ...engine.ready_queue import NodeTask
from ...graph.forward_streams import after_pass, other_streams
from ...graph.node import Node, next_sequence_number
from ...tensor.tensor import Tensor
from ..rpc.agent import get_current_agent, is_current_agent_set
from .abort import abort_everywhere
from .container import current_context_id, force_current_context_id, get_instance
from .context import NOBODY, DistAutogradContext
from .dependencies import compute_dependencies
from .dist_graph_task import DistGraphTask
from .global_cpu_thread import GlobalCpuThread, log_expired
from .lost_workers import end_sends_to_the_lost
from .outbox import MESSAGES, Gradients, Outbox, Parcel, set_current_outbox, unpack
from .own_queue import OwnQueue
from .roots import validate_roots
from .stall import has_answer, is_over, wait_for_pass

if TYPE_CHECKING:
    from ..rpc.lane_call import LaneCall

# Note [Who ends a pass]
# Each worker's part of a pass has one GraphTask and one Future `done`. The task's future completes
# when its last Node has run, or with the first error; then `_finish` waits for the answers to the
# gradients that were sent on, cleans up, and completes `done`: for that the root's caller waits,
# and elsewhere the answer to the first gradients. So an answer says that everything behind it is
# over, and gradients are in place on all workers when backward returns.

# Note [Results that nobody uses]
# In the fast mode a pass waits for ever for the gradient of a result that no root depends on. In
# the auto mode each worker, when its part of a pass begins, says of all receives that lie below
# none of its starts that they are unused. That ends the sends which they belong to, with undefined
# gradients, and so on. A worker begins with the first such word, or gradient. One that hears none
# (its results carry no gradients at all, or only loops lead to it) is asked to begin when the root
# has waited a little while (stall.py). Every message's receive then is below a start of its worker,
# known to be unused or not there, so by the order in which messages were sent all of them end.


class DistEngine:
    """Runs this worker's part of distributed passes. One for the process: `dist_engine()`.

    Thread  any; `_lock` guards `_initialized`, the contexts in which a pass is under way here
    Source  PyTorch, torch/csrc/distributed/autograd/engine/dist_engine.cpp
    """

    def __init__(self) -> None:
        self._initialized: set[int] = set()
        self._lock = threading.Lock()
        # Where the GPU to CPU continuations of every distributed pass go.
        # See Note [GPU to CPU continuations].
        self.global_cpu_thread = GlobalCpuThread(self._hand_to_pool)

    def execute(
        self,
        context_id: int,
        roots: Sequence[Tensor],
        retain_graph: bool,
        *,
        is_auto: bool = False,
    ) -> None:
        """Run a pass from roots and wait for all workers; gradients are left in their contexts.

        Raises  ContextError without such a context; what failed first, and on which worker
        """
        context = get_instance().retrieve_context(context_id)
        edges, gradients = validate_roots(roots)
        root = GraphRoot(edges, gradients, next_sequence_number())
        pass_id = get_instance().new_autograd_message_id()
        task = self._prepare(context, root, retain_graph, pass_id, is_auto=is_auto)
        if task is None:
            raise ContextError(
                "Cannot set GraphTask multiple times for the same autograd context: a backward "
                f"pass of context {context_id} is under way; wait for it, or use another context"
            )
        done: Future[None] = Future()

        def end(_: object) -> None:
            error = task.future.exception()
            if error is not None:
                # At once: others may be waiting for what will not come, and this thread for them.
                abort_everywhere(context, pass_id, str(error))
            self._finish(context, task, done)

        task.future.add_done_callback(end)
        outbox = Outbox(context, pass_id, retain_graph)
        begun: list[Future[Any]] = []
        try:
            ended = end_sends_to_the_lost(context, task)
            self._tell_unused(context, task, outbox)
            self._work(task, [root], outbox, increment=True)
            self._work(task, ended, outbox, increment=False)
            while (asked := outbox.send_in_person()) is not None:
                self._take_answer(context, task, done, outbox, begun, *asked)
            if not done.done():
                wait_for_pass(context, partial(is_over, done), begun)
            done.value()
            for other in begun:
                wait_for_pass(context, partial(is_over, other), begun)
                other.value()
        except BaseException as error:
            if task.future.done():
                # This worker's part ended well: nobody else will tell the others.
                abort_everywhere(context, pass_id, str(error))
            elif not task.has_error:
                task.set_exception(error)
            self._clean_up(context, task)
            # The error's traceback holds this frame. See GraphTask.forget_error.
            del done
            raise

    def _take_answer(
        self,
        context: DistAutogradContext,
        task: GraphTask,
        done: Future[None],
        outbox: Outbox,
        begun: list[Future[Any]],
        parcel: Parcel,
        asked: LaneCall,
    ) -> None:
        """Wait for the answer to gradients, and go on with those that it brings."""
        try:
            wait_for_pass(context, partial(has_answer, asked, done), begun)
        except BaseException:
            asked.give_up()
            raise
        if done.done():
            asked.give_up()
            return
        try:
            reply = asked.result()
        except Exception as error:
            # The callee's, or its loss. It ends the pass, and whoever waits for that raises it.
            parcel.sent.try_complete(error=error)
            return
        if MESSAGES in reply.metadata and context.graph_task() is task:
            came = unpack(reply.tensors, reply.metadata, parcel.worker_id)
            fresh = parcel.worker_id != get_instance().worker_id
            starts = self._arrive(context, came, outbox.pass_id, fresh=fresh)
            self._work(task, starts, outbox, increment=False)
        # Only now: until here the pass could not look finished.
        parcel.sent.try_complete(None)

    def _tell_unused(
        self, context: DistAutogradContext, task: DistGraphTask, outbox: Outbox
    ) -> None:
        """Say of what came here, and leads to nothing that the pass runs, that it is unused.

        See Note [Results that nobody uses].
        """
        if not context.is_auto:
            return
        for receive in context._recv_functions().values():
            is_lost = receive.message_id in context.lost_messages
            if is_lost or receive.from_worker_id in task.lost_before:
                continue
            if receive not in task.nodes_in_graph:
                outbox.add(receive.from_worker_id, Gradients(receive.message_id, None))

    def execute_send_functions_async(
        self,
        context: DistAutogradContext,
        came: Sequence[Gradients],
        retain_graph: bool,
        *,
        pass_id: int,
        fresh: bool,
        sender: int = NOBODY,
        in_person: bool = False,
        is_auto: bool = False,
    ) -> tuple[Future[None], Parcel | None]:
        """Go on from sends whose gradients came; the Future is done when all that follows is.

        The first gradients of a pass here set it up, and their answer waits for the whole of it
        (and for all that it sent on); later ones only add to it and are answered at once.
        A parcel is for a sender that takes the answer in person, and travels in it.

        Raises  ContextError for an unknown message id; ContextReleasedError if the pass is over
        """
        for gradients in came:
            context.retrieve_send_function(gradients.message_id)
        root = GraphRoot((), (), next_sequence_number())
        done: Future[None] = Future()
        try:
            mine = self._prepare(context, root, retain_graph, pass_id, sender, is_auto=is_auto)
            task = mine or context.task_of(pass_id)
        except ContextReleasedError:
            if not context.has_ended(pass_id) or any(one.tensors is not None for one in came):
                raise
            # Told of what is unused, or asked to begin, it has heard meanwhile, and is done.
            self._arrive(context, came, pass_id, fresh=fresh)
            done.set_result(None)
            return done, None
        outbox = Outbox(context, pass_id, task.keep_graph)
        ended: list[Node] = []
        if mine is not None:
            ended = end_sends_to_the_lost(context, mine)
            self._tell_unused(context, mine, outbox)
            mine.future.add_done_callback(lambda _: self._finish(context, mine, done))
            if not mine.outstanding:
                # Nothing was sent from here, so nothing will run.
                mine.mark_completed_and_post_process()
        starts = self._arrive(context, came, pass_id, fresh=fresh)
        self._work(task, [*starts, *ended], outbox, increment=False)
        parcel = outbox.parcels.pop(sender, None) if in_person else None
        outbox.flush()
        if mine is None:
            done.set_result(None)
        elif parcel is not None and not done.done():
            # More is to come, here or elsewhere; these gradients must not wait for it.
            outbox.send(parcel)
            parcel = None
        if parcel is not None:
            parcel.sent.try_complete(None)
        return done, parcel

    def _arrive(
        self, context: DistAutogradContext, came: Sequence[Gradients], pass_id: int, *, fresh: bool
    ) -> list[Node]:
        """Give gradients to their sends, and return those that are to run now."""
        starts: list[Node] = []
        for message_id, tensors in came:
            function = context.retrieve_send_function(message_id)
            if not context.note_arrival(message_id, pass_id):
                continue
            if tensors is None:
                function.set_unused(pass_id)
            else:
                function.set_grads(tuple(tensors), fresh, pass_id)
            starts.append(function)
        return starts

    def _prepare(
        self,
        context: DistAutogradContext,
        root: GraphRoot,
        retain_graph: bool,
        pass_id: int,
        requester: int = NOBODY,
        *,
        is_auto: bool,
    ) -> DistGraphTask | None:
        """Set a pass up in the context and return its task, None if one is under way."""
        with self._lock:
            if context.id in self._initialized:
                return None
            queue = self.global_cpu_thread.queue
            task = compute_dependencies(context, root, retain_graph, queue)
            task.pass_id = pass_id
            task.streams = local_engine().device_threads.streams_of(task.nodes_in_graph)
            if task.streams:
                task.other_streams = other_streams(task.streams, task.nodes_in_graph)
            context.set_graph_task(task, pass_id, requester, is_auto)
            self._initialized.add(context.id)
        if task.streams:
            self.global_cpu_thread.start()
        return task

    def _work(
        self, task: GraphTask, starts: Sequence[Node], outbox: Outbox, *, increment: bool
    ) -> None:
        """Run Nodes, and all CPU Nodes that become ready through them, on this thread.

        Several threads may do so for one pass: each has a queue of its own, so none waits for
        another's work. The outbox keeps what is to be sent. See Note [Gradients that wait a
        little].
        """
        queue = OwnQueue()
        for node in starts:
            item = NodeTask(task, node, InputBuffer(0))
            queue.push(item, increment_outstanding=increment)
        self._empty(queue, outbox)

    def _empty(self, queue: OwnQueue, outbox: Outbox) -> None:
        engine = local_engine()
        before = set_current_outbox(outbox)
        context_before = current_context_id()
        force_current_context_id(outbox.context.id)
        try:
            while (item := queue.try_pop()) is not None:
                task = item.graph_task
                if task is None:
                    log_expired(item)
                    continue
                if outbox.parcels and outbox.is_due(_elements(item.node)):
                    outbox.flush()
                engine.run_one(item, queue)
                if task.has_error:
                    # The first error ends the pass; what is queued here is not worth running.
                    outbox.parcels.clear()
                    return
        finally:
            force_current_context_id(context_before)
            set_current_outbox(before)

    def execute_until_empty(self, item: NodeTask) -> None:
        """Run a Node that a device handed back, and all CPU Nodes that become ready through it."""
        task = item.graph_task
        if task is None:
            log_expired(item)
            return
        context = get_instance().find_context(task.context_id)
        if context is None:
            return  # released meanwhile, by a worker that gave the pass up
        queue = OwnQueue()
        queue.push(item, increment_outstanding=False)
        outbox = Outbox(context, task.pass_id, task.keep_graph)
        self._empty(queue, outbox)
        outbox.flush()

    def _hand_to_pool(self, item: NodeTask) -> None:
        """Give a continuation to the agent's pool, in which it never waits behind users' work."""
        if is_current_agent_set() and get_current_agent().submit_uncounted(
            self.execute_until_empty, item
        ):
            return
        self.execute_until_empty(item)

    def _finish(
        self, context: DistAutogradContext, task: DistGraphTask, done: Future[None]
    ) -> None:
        error = task.future.exception()
        if error is not None:
            after_pass(task.other_streams)
            self._clean_up(context, task)
            done.try_complete(error=_on_node(error))
            task.forget_error()
            return

        def answer(sent: Future[None]) -> None:
            self._clean_up(context, task)
            failure = sent.exception()
            done.try_complete(error=None if failure is None else _on_node(failure))

        context.clear_and_wait_for_outstanding_rpcs_async().add_done_callback(answer)

    def _clean_up(self, context: DistAutogradContext, task: GraphTask) -> None:
        with self._lock:
            if context.reset_graph_task(task):
                self._initialized.discard(context.id)

    def number_of_passes(self) -> int:
        """Return how many passes are under way here."""
        with self._lock:
            return len(self._initialized)

    def stop(self) -> None:
        """Forget all passes and end the thread, when RPC has shut down."""
        with self._lock:
            self._initialized.clear()
        self.global_cpu_thread.stop()


def _elements(node: Node | None) -> int:
    layout = None if node is None else node.facts
    if layout.__class__ is tuple:
        return sum(part.numel for part in layout if part is not None)
    return 0 if layout is None else layout.numel


def _on_node(error: BaseException) -> BaseException:
    """Return error, its text led by the worker where it happened, unless it says that already."""
    text = str(error)
    if text.startswith("Error on Node ") or not isinstance(error, Exception):
        return error
    worker_id = get_instance().worker_id
    try:
        named: Exception = error.__class__(f"Error on Node {worker_id}: {text}")
    except Exception:  # a class of the user's own may want other arguments
        named = GraphError(f"Error on Node {worker_id}: {type(error).__name__}: {text}")
    named.__cause__ = error
    return named


_engine = DistEngine()


def dist_engine() -> DistEngine:
    """Return the process's distributed engine."""
    return _engine

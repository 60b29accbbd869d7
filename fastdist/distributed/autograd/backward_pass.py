"""One worker's part of one backward pass: its states, its gradients, and how it ends."""

from __future__ import annotations

import enum
import logging
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ref

from ...concurrency.future import Future, InternalFuture
from ...engine.graph_task import GraphRoot, GraphTask
from ...engine.ready_queue import ReadyQueue
from ...graph.node import Node, node_of
from ...instrumentation.time_ranges import clock
from ...system.foreign_text import one_line
from ...tensor.tensor import Tensor
from ..rpc.message.ids import id_text
from ..rpc.message.remote_errors import has_origin, words_of
from .pass_metadata import Progress, Terms

if TYPE_CHECKING:
    from ...core.device import Device
    from ..rpc.workers.worker import Worker

_logger = logging.getLogger(__name__)

# Note [The life of a pass]
# On each worker that a pass reaches, the context has one BackwardPass for it, under the pass's id.
#
#     begins here           its last Node has run      all that it sent on is answered
#   ----------------> RUNNING ----------------> SETTLING ----------------> OVER
#                        |                          |                      ^  ^
#                        +--------------------------+----------------------+  |
#                          an error, here or elsewhere                        |
#   --------------------------------------------------------------------------+
#     given up elsewhere before it began here
#
# While RUNNING, the pass accepts gradients for the sends that existed when it began. The first
# error ends the pass. While SETTLING, the pass waits only for answers to its messages. An answer
# says that all work caused by the message is over, so gradients are in place on all workers when
# backward returns. Once OVER, the pass stays in the context as long as the context exists: messages
# that arrive late are counted and dropped, and do not begin the pass again. A part that is OVER
# holds no graph and no gradients. If it failed, it keeps only the text of the error.
#
# No field stores the state, so the state cannot contradict the data. An OVER part has no task, and
# in a SETTLING part the task's future is done.

# Note [Order of locks]
# Acquire a context's `beginning` first, then its `_lock`, then a pass's `_lock`. The locks of the
# engine, of a GraphTask and of Futures come last, and no function is called while one of these is
# held. While any lock of this list is held, no message is sent, no Node or kernel runs, and no
# Future is completed. Only `beginning` is held for long, during the walk of the graph. A thread
# that waits for `beginning` needs the pass that the holder of the lock is setting up.


class PassState(enum.Enum):
    """The state of a worker's part of a pass. See Note [The life of a pass]."""

    RUNNING = enum.auto()
    SETTLING = enum.auto()
    OVER = enum.auto()


class Failure(NamedTuple):
    """Why a worker's part of a pass failed, and when (in `clock` units)."""

    at_ns: int
    is_own: bool  # the error was raised on this worker, not reported by another worker
    words: str
    # A weak reference to the Node that raised the error, and the Node's name. `node` is None if
    # another worker reported the error, or if it was detected while the pass waited.
    node: ref[Node] | None = None
    name: str = ""


class BackwardPass:
    """One worker's part of one pass.

    Thread  any; `_lock` guards the counts, `_awaited` and `_outstanding`. The thread that runs or
            queues a send stores the gradients that arrived for this send
    """

    __slots__ = (
        "_awaited",
        "_is_given_up",
        "_lock",
        "_outstanding",
        "arrived_at",
        "began_at",
        "done",
        "failure",
        "follow",
        "left_at",
        "lost_before",
        "num_received",
        "num_recvs",
        "num_sent",
        "reached",
        "received_grads",
        "record",
        "requester",
        "roots",
        "settled_at",
        "task",
        "terms",
        "unused",
    )

    def __init__(self, terms: Terms, requester: Worker | None = None) -> None:
        self.terms = terms
        # The worker whose message began the pass here, and which gets the answer at the end. None
        # on the root worker.
        self.requester = requester
        self.task: DistGraphTask | None = None
        # Completed when this part ends, with the first error if there was one.
        self.done: Future[None] = InternalFuture()
        # Maps a send that has not run yet to its arrived gradients, or to None if it gets none.
        self.received_grads: dict[Node, tuple[Tensor | None, ...] | None] = {}
        # Maps a send whose gradients arrived on devices to a function, which makes the calling
        # thread's current streams wait for these gradients.
        self.follow: dict[Node, Callable[[], None]] = {}
        # The workers that were lost before the pass. See
        # Note [Workers that are lost before a pass].
        self.lost_before: frozenset[Worker] = frozenset()
        # Returns the workers that the context has reached; an empty set after the context's end.
        self.reached: Callable[[], set[Worker]] = set
        # Adds a send for gradients that go to a worker, and returns the send's message id. Set only
        # with create_graph. See Note [Gradients that have gradients].
        self.record: Callable[[list[Tensor], Worker, Mapping[Device, Device]], int] | None = None
        # The number of receives in the context when the pass began; later receives are not in the
        # graph of the pass.
        self.num_recvs = 0
        self.num_sent = self.num_received = 0
        self._lock = threading.RLock()
        # The workers from which gradients are still to come, by message id.
        self._awaited: dict[int, Worker] = {}
        self._outstanding: list[Future[Any]] = []
        self._is_given_up = False
        # For `explain`, in `clock` units: when the pass began, when its last Node had run, and when
        # gradients left and arrived (by message id). `roots` has weak references to the Nodes where
        # the pass began.
        self.began_at = self.settled_at = 0
        self.left_at: dict[int, int] = {}
        self.arrived_at: dict[int, int] = {}
        self.failure: Failure | None = None
        self.unused: set[int] = set()
        self.roots: tuple[ref[Node], ...] = ()

    @property
    def state(self) -> PassState:
        """The state, derived from the task."""
        task = self.task
        if task is None:
            return PassState.OVER
        return PassState.SETTLING if task.future.done() else PassState.RUNNING

    def begin(self, task: DistGraphTask, awaited: dict[int, Worker], num_recvs: int) -> None:
        """Store the task, and the workers from which the part expects gradients, by message id."""
        self._awaited, self.num_recvs = awaited, num_recvs
        self.roots = tuple([ref(node_of(edge)) for edge in task.graph_roots])
        self.began_at = clock()
        self.task = task

    def fail(self, error: BaseException) -> bool:
        """Fail the part. Return False if its last Node has run: errors are then ignored."""
        task = self.task
        if task is None or task.future.done():
            return False
        task.set_exception(error)
        return True

    def give_up(self, error: BaseException) -> bool:
        """End the part because the pass failed elsewhere; return False if it was over, or if this
        method was called before.
        """
        with self._lock:
            is_news = self.task is not None and not self._is_given_up
            self._is_given_up = True
        self.fail(error)
        return is_news

    def note_failure(self, error: BaseException) -> None:
        """Store the text of the error that ended the part; only the first error counts."""
        if self.failure is None:
            came = self._is_given_up or has_origin(error)
            failure = Failure(clock(), not came, words_of(error))
            task = self.task
            raised_in = None if came or task is None else task.failed_in
            node = None if raised_in is None else raised_in()
            if node is not None:
                failure = failure._replace(node=raised_in, name=node.name())
            self.failure = failure

    def end(self) -> Future[None] | None:
        """End the part and release everything except the counts. Return the Future to complete, or
        None if the part had ended.
        """
        with self._lock:
            if self.task is None:
                return None
            self.task = None
            self._awaited, self._outstanding = {}, []
            self.record = None
        self.received_grads.clear()
        self.follow.clear()
        done, self.done = self.done, InternalFuture()
        return done

    def note_sent(self, message_id: int | None = None, *, is_unused: bool = False) -> bool:
        """Count a message with gradients, or a notice that there are none, for the tensors of
        message_id. Return False if the pass is over and nothing may be sent.
        """
        with self._lock:
            if self.task is None:
                return False
            self.num_sent += 1
            if message_id is not None:
                self.left_at[message_id] = clock()
                if is_unused:
                    self.unused.add(message_id)
            return True

    def mark_notified(self, count: int) -> None:
        """Count notices of unused sends, which the root sends even after its own part has ended."""
        with self._lock:
            self.num_sent += count

    def expects_gradients(self, message_id: int) -> bool:
        """Return whether the send of message_id waits for gradients."""
        with self._lock:
            return message_id in self._awaited

    def take(self, message_id: int) -> bool:
        """Count the gradients that arrived for a send; return whether the send must run.

        The result is false if the pass is over, began without the send, or has already counted
        gradients for it.
        """
        with self._lock:
            self.num_received += 1
            if self._awaited.pop(message_id, None) is None:
                return False
            self.arrived_at[message_id] = clock()
            return True

    def settle(self) -> Future[None]:
        """Record that the last Node has run, and return a Future that is done when all gradient
        messages are answered.
        """
        self.settled_at = clock()
        return self.clear_and_wait_for_outstanding_rpcs_async()

    def forget_times(self) -> None:
        """Release data that only `explain` reads, because another pass of the context has begun."""
        with self._lock:
            self.left_at, self.arrived_at, self.unused, self.roots = {}, {}, set(), ()

    def add_outstanding_rpc(self, future: Future[Any], *, wait: bool = True) -> None:
        """Watch the Future of a gradient message. An error of the message ends the pass; if `wait`
        is true, the pass waits for the answer.
        """
        if wait:
            with self._lock:
                self._outstanding.append(future)
        future.add_done_callback(self._look)

    def _look(self, done: Future[Any]) -> None:
        error = done.exception()
        if error is not None and not self.fail(error):
            which = id_text(self.terms.context_id)
            _logger.debug("ignoring a later error of context %s: %s", which, one_line(error))

    def clear_and_wait_for_outstanding_rpcs_async(self) -> Future[None]:
        """Return a Future that is done when all gradient messages are answered, or at the first
        error.
        """
        with self._lock:
            outstanding, self._outstanding = self._outstanding, []
        left = len(outstanding)
        if left == 1:
            return outstanding[0]
        result: Future[None] = InternalFuture()
        if not left:
            result.set_result(None)
            return result
        count_lock = threading.Lock()

        def count(done: Future[Any]) -> None:
            nonlocal left
            error = done.exception()
            if error is not None:
                result.try_complete(error=error)
                return
            with count_lock:
                left -= 1
                last = left == 0
            if last:
                result.try_complete(None)

        for future in outstanding:
            future.add_done_callback(count)
        return result

    def progress(self) -> Progress:
        """Return the progress: Nodes queued or running, messages, and sends without gradients."""
        with self._lock:
            task, awaited = self.task, self._awaited
            # Each send that waits for gradients counts as one outstanding task, but is not running.
            is_idle = task is None or task.future.done()
            return Progress(
                running=0 if is_idle or task is None else max(task.outstanding - len(awaited), 0),
                sent=self.num_sent,
                received=self.num_received,
                begun=True,
                waiting=(*awaited,),
                waits_for=tuple([worker.id for worker in awaited.values()]),
            )

    def __repr__(self) -> str:
        return f"<BackwardPass {id_text(self.terms.pass_id)}: {self.state.name}>"


class DistGraphTask(GraphTask):
    """The engine's GraphTask for a worker's part of a pass; Nodes find their pass through it."""

    def __init__(
        self,
        part: BackwardPass,
        root: GraphRoot,
        cpu_ready_queue: ReadyQueue,
        thread_state: Callable[[], Any],
    ) -> None:
        terms = part.terms
        super().__init__(
            keep_graph=terms.retain_graph,
            create_graph=terms.create_graph,
            depth=0,
            cpu_ready_queue=cpu_ready_queue,
            graph_roots=root.edges,
            exit_on_error=True,
        )
        self.part = part
        # No thread waits for the task: the thread that completes it continues the pass.
        self.owner_queue = None
        self.thread_state = thread_state

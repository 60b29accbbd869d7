"""One worker's part of one context: its sends, receives, gradients and passes."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

from ...core.device import Device
from ...core.errors import ContextError, ContextReleasedError, MessageError
from ...devices.backend import backend_of
from ...graph.accumulate_grad import AccumulateGrad
from ...graph.add_gradients import add_gradients, copy_gradient
from ...graph.forward_streams import follow
from ...graph.modes import enable_grad, modes
from ...tensor.tensor import Tensor
from ..rpc.message.ids import RANK_SHIFT, id_text, with_decimal
from .backward_pass import BackwardPass, DistGraphTask
from .pass_metadata import Progress, Terms
from .recv_rpc_backward import RecvRpcBackward
from .send_rpc_backward import SendRpcBackward

if TYPE_CHECKING:
    from ..rpc.workers.worker import Worker


class DistAutogradContext:
    """The sends, receives, known workers, gradients and passes of one context on this worker.

    Thread  any; `_lock` guards everything but the id. No callback runs, no gradient is added and no
            message is sent while the lock is held. See Note [Order of locks]
    Source  PyTorch, torch/csrc/distributed/autograd/context/context.cpp
    """

    def __init__(self, context_id: int, owner: Worker | None = None) -> None:
        self.id = context_id
        # The worker (one incarnation) that opened the context; the context ends when that worker
        # is lost. None if this worker opened the context.
        self.owner = owner
        self._lock = threading.RLock()
        self._workers: set[Worker] = set()
        self._is_closed = False
        self._sends: dict[int, SendRpcBackward] = {}
        self._recvs: dict[int, RecvRpcBackward] = {}
        # Maps a leaf's AccumulateGrad to the sum of the leaf's gradients. The AccumulateGrad lives
        # as long as the leaf is in any graph. A Tensor as key would keep the user's Tensor object
        # alive; with a weak key, a freed object could not be found again. The value is None while a
        # thread has taken the sum out to add a gradient.
        self._grads: dict[AccumulateGrad, Tensor | None] = {}
        # Maps a device to the stream on which gradients were last added.
        self._added_on: dict[Device, Any] = {}
        # Maps a pass id to this worker's part; passes that are over stay in the dict.
        self._passes: dict[int, BackwardPass] = {}
        self._latest: BackwardPass | None = None
        # Held while a pass is set up. Only one pass begins at a time, and messages of a pass wait
        # until the pass has begun.
        self.beginning = threading.Lock()

    def _context_id(self) -> int:
        return self.id

    def _known_worker_ids(self) -> set[int]:
        return {worker.id for worker in self.known_workers()}

    def known_workers(self) -> set[Worker]:
        """Return the workers that the context reached from here, directly or through other
        workers.
        """
        with self._lock:
            return set(self._workers)

    def lost_workers(self) -> frozenset[Worker]:
        """Return the lost workers that the context reached, or that sent tensors of the context."""
        with self._lock:
            known = self._workers.union(
                [send.to_worker for send in self._sends.values()],
                [receive.from_worker for receive in self._recvs.values()],
            )
        return frozenset([worker for worker in known if worker.is_dead])

    def _send_functions(self) -> dict[int, SendRpcBackward]:
        with self._lock:
            return dict(self._sends)

    def _recv_functions(self) -> dict[int, RecvRpcBackward]:
        with self._lock:
            return dict(self._recvs)

    def number_of_receives(self) -> int:
        """Return how many messages have arrived whose tensors may get gradients."""
        return len(self._recvs)

    def close(self) -> set[Worker]:
        """Refuse new workers and passes from now on; return the workers to notify of the context's
        end.
        """
        with self._lock:
            self._is_closed = True
            return self._workers

    def add_known_worker(self, worker: Worker) -> bool:
        """Add a worker before a message is sent to it; return False if the context is over.

        If the context is over, no data of it may be sent: the worker would not be notified of the
        context's end.
        """
        return self.add_known_workers({worker})

    def add_known_workers(self, workers: set[Worker]) -> bool:
        """Add workers that other workers reached; return False if the context is over."""
        with self._lock:
            if not self._is_closed:
                self._workers |= workers
            return not self._is_closed

    def add_send_function(self, function: SendRpcBackward, message_id: int) -> None:
        """Store a send under its autograd message id. A repeated id is a bug of fastdist."""
        with self._lock:
            assert message_id not in self._sends, f"autograd message id {message_id} is used twice"
            self._sends[message_id] = function

    def add_recv_function(self, function: RecvRpcBackward, message_id: int) -> None:
        """Store a receive under the message id of its send.

        Raises  MessageError for an id that has been received before
        """
        with self._lock:
            if message_id in self._recvs:
                raise MessageError(
                    f"autograd message id {id_text(message_id)} of worker "
                    f"{function.from_worker.id} arrived twice in context {id_text(self.id)}; "
                    "each message must have its own"
                )
            self._recvs[message_id] = function

    def retrieve_send_function(self, message_id: int) -> SendRpcBackward:
        """Return the send to which a gradient message belongs.

        Raises  ContextError if there is no such send
        """
        with self._lock:
            function = self._sends.get(message_id)
        if function is None:
            raise ContextError(
                "Could not find send function for autograd message id: "
                f"{with_decimal(message_id)}: the tensors of that message were not sent from here "
                f"inside context {id_text(self.id)}"
            )
        return function

    def find_pass(self, pass_id: int) -> BackwardPass | None:
        """Return this worker's part of a pass, even after its end; None if it has not begun."""
        return self._passes.get(pass_id)

    def pass_under_way(self) -> BackwardPass | None:
        """Return this worker's part of the pass under way, or None; only one runs at a time."""
        part = self._latest
        return None if part is None or part.task is None else part

    def latest_pass(self) -> BackwardPass | None:
        """Return the part that began last, which may be over; None before the first pass."""
        return self._latest

    def graph_task(self) -> DistGraphTask | None:
        """Return the task of the pass under way, or None."""
        return None if self._latest is None else self._latest.task

    def require_no_pass(self, beginning: BackwardPass) -> None:
        """Check that a pass may begin here.

        Raises  ContextError if another pass is under way; ContextReleasedError if the context is
                over
        """
        if self._is_closed:
            # A pass would never end now: other workers may have released the context already.
            raise ContextReleasedError(
                f"context {id_text(self.id)} was released before a backward pass of it began"
            )
        if (here := self.pass_under_way()) is None:
            return
        started = "Cannot set GraphTask multiple times for the same autograd context: "
        first, second = (p.terms.pass_id >> RANK_SHIFT for p in (here, beginning))
        if first == second:
            raise ContextError(
                f"{started}a backward pass of context {id_text(self.id)} is under way; wait for "
                "it, or use another context"
            )
        raise ContextError(
            f"{started}the backward pass of context {id_text(self.id)} that worker {first} began "
            f"is under way here, and one that worker {second} began has arrived; call backward "
            "in a context from one worker after the other, pass all roots to one, or use a "
            "context for each"
        )

    def set_graph_task(
        self, task: DistGraphTask, awaited: dict[int, Worker], num_recvs: int
    ) -> bool:
        """Begin a pass with its task; return False if a worker has already given up the pass.

        Raises  the errors of require_no_pass
        """
        part = task.part
        with self._lock:
            self.require_no_pass(part)
            if part.terms.pass_id in self._passes:
                return False
            if self._latest is not None:
                self._latest.forget_times()
            part.begin(task, awaited, num_recvs)
            self._passes[part.terms.pass_id] = self._latest = part
            return True

    def give_up_pass(self, terms: Terms, error: BaseException) -> bool:
        """End a pass that failed elsewhere, or prevent its beginning; return False if the pass was
        over here, or if it was given up before.
        """
        with self._lock:
            part = self._passes.get(terms.pass_id)
            if part is None:
                # A part without a task is over, so the pass cannot begin here later.
                self._passes[terms.pass_id] = BackwardPass(terms)
                return True
        return part.give_up(error)

    def sends_without_receive(self, pass_id: int, message_ids: Sequence[int]) -> list[int]:
        """Return the given ids of sends that have no receive in this worker's part of the pass."""
        with self._lock:
            part = self._passes.get(pass_id)
            # Receives that were added after the pass began are not in its graph, and get no
            # notices.
            number = len(self._recvs) if part is None else part.num_recvs
            here = set(itertools.islice(self._recvs, number))
            return [message_id for message_id in message_ids if message_id not in here]

    def progress(self, pass_id: int) -> Progress:
        """Return the progress of a pass here; if it has not begun, all sends wait for gradients."""
        with self._lock:
            part = self._passes.get(pass_id)
            workers = (*sorted({one.id for one in self._workers if not one.is_dead}),)
            if part is None:
                waits_for = [send.to_worker.id for send in self._sends.values()]
                return Progress(0, 0, 0, False, (*self._sends,), (*waits_for,), workers)
        return part.progress()._replace(workers=workers)

    def accumulate_grad(self, accumulator: AccumulateGrad, grad: Tensor, mine: bool) -> None:
        """Add a leaf's gradient to this context, which may keep it without a copy if `mine` is set.

        Source  PyTorch, torch/csrc/distributed/autograd/context/context.cpp, accumulateGrad
        """
        # A thread takes the sum out, adds the gradient without the lock, and puts the new sum back.
        # Another thread that arrives meanwhile finds no sum and puts in a new one; then the two
        # sums are added. A gradient with tangents or history is kept without a copy, so its memory
        # may be shared with other code.
        is_ready = (mine and grad._layout.contiguous) or _is_more_than_an_array(grad)
        while (have := self._take_out_or_put(accumulator, grad, put=is_ready)) is not grad:
            if have is None:
                grad = copy_gradient(grad)
            else:
                grad = self._sum(accumulator, have, grad)
            is_ready = True

    def _sum(self, accumulator: AccumulateGrad, have: Tensor, grad: Tensor) -> Tensor:
        try:
            if have._edge is not None:
                with enable_grad():
                    return have + grad
            return add_gradients(have, grad, have._extra is None)
        except BaseException:
            with self._lock:
                if self._grads[accumulator] is None:
                    self._grads[accumulator] = have
            raise

    def _take_out_or_put(
        self, accumulator: AccumulateGrad, grad: Tensor, *, put: bool
    ) -> Tensor | None:
        """Take a leaf's sum out and return it. If there is no sum and `put` is set, put grad in and
        return grad.
        """
        device = grad._layout.device
        with self._lock:
            have = self._grads.get(accumulator)
            if have is not None:
                if device.index is not None:
                    self._follow(device, (have,))
                # The key stays, so that the leaf keeps its position in the dict.
                self._grads[accumulator] = None
                return have
            if not put:
                return None
            if device.index is not None:
                self._added_on[device] = self._follow(device, ())
            self._grads[accumulator] = grad
            return grad

    def gradients(self) -> dict[Tensor, Tensor]:
        """Return a dict from leaf to gradient, for use on the calling thread's current streams."""
        with self._lock:
            for device in self._added_on:
                grads = [g for g in self._grads.values() if _is_on(g, device)]
                self._follow(device, grads)
            return {
                accumulator.variable: grad
                for accumulator, grad in self._grads.items()
                if grad is not None
            }

    def gradient_of(self, accumulator: AccumulateGrad) -> Tensor | None:
        """Return the sum of a leaf's gradients; None before the first gradient, and while a thread
        adds a gradient.
        """
        with self._lock:
            return self._grads.get(accumulator)

    def take_gradient(self, leaf: Tensor) -> Tensor | None:
        """Return the sum of a leaf's gradients, and remove it from the context."""
        grad = self.gradients().get(leaf)
        with self._lock:
            self._grads.pop(leaf._edge, None)
        return grad

    def _follow(self, device: Device, grads: Sequence[Tensor]) -> Any:
        """Make this thread's current stream of a device wait for the additions of gradients on that
        device, because the stream will use `grads`. Return the stream.

        A pass adds gradients on the streams that were current where the pass began. The next pass
        may begin on other streams, and an optimiser reads the gradients on a thread of the pool.
        """
        here = backend_of(device.type).current_stream(device.index)
        follow(here, self._added_on.get(device), grads)
        return here


def _is_on(grad: Tensor | None, device: Device) -> TypeGuard[Tensor]:
    return grad is not None and grad._layout.device is device


def _is_more_than_an_array(grad: Tensor) -> bool:
    return grad._edge is not None or (bool(modes.special) and grad._extra is not None)

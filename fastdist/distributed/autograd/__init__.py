"""Distributed autograd: one backward pass over all workers that a context reached.

A tensor that goes to another worker inside `with context() as context_id:` leaves a SendRpcBackward
here and a RecvRpcBackward there, joined by an autograd message id. `backward(context_id, roots)`
runs the local graph; a receive sends its gradients to the worker that sent the tensor, whose send
goes on from there. Gradients stay in the context (`get_gradients`), so passes of several contexts
do not meet.

container.py             contexts by id
context.py               what one worker knows of one context
message_autograd.py      where messages are wrapped
cleaner.py               tells other workers which contexts are over
send_rpc_backward.py     the end of a message whose tensors left
recv_rpc_backward.py     the end of a message whose tensors came
outbox.py                gradients on their way between workers
sparse_parts.py          sparse gradients and tensors in messages
messages.py              what other workers ask
engine.py                runs a worker's part of a pass
roots.py                 what a pass may begin at
dist_graph_task.py       a worker's part of a pass, by its type
dependencies.py          which Nodes must run
own_queue.py             the queue of one call of its loop
global_cpu_thread.py     GPU to CPU continuations
rref_backward.py         a root that lives elsewhere
abort.py                 a pass that failed elsewhere
lost_workers.py          a pass that begins after a worker was lost
stall.py                 a pass that cannot end
tangent_store.py         forward mode: tangents and levels on other workers
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Any

from ...tensor.tensor import Tensor
from ..rpc.agent import add_hooks
from ..rpc.membership import WorkerInfo
from . import container
from .abort import handle_lost_worker
from .container import DistAutogradContainer, current_context_id, get_instance, release_if_present
from .context import DistAutogradContext
from .engine import dist_engine
from .messages import install_all
from .tangent_store import handle_lost_owner, tangent_store

MODES = ("auto", "fast")


class context:
    """Opens a context for this thread, and releases it on all workers at the end of the block.

    Raises  ContextError on entering if the thread has one, or RPC is not initialised
    """

    __slots__ = ("_context_id",)

    def __enter__(self) -> int:
        self._context_id = _new_context().id
        return self._context_id

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        release_if_present(self._context_id)


def backward(
    context_id: int, roots: Iterable[Tensor], retain_graph: bool = False, *, mode: str = "auto"
) -> None:
    """Run a distributed backward pass; gradients stay in the context, on each leaf's worker.

    In the mode "auto" results of RPCs that no root depends on have no gradients, as in one process.
    In "fast", PyTorch's, they make the pass fail when it has come to rest.

    Thread  runs in the caller and waits, without the GIL, until every worker is done
    Note    a pass in the mode "auto" in which an answer needs no gradient, or in whose context a
            call failed, may take 10 ms longer; a callback of a Future that was not done when `then`
            was called runs outside of the caller's context, as in PyTorch
    Raises  TypeError; RuntimeError for bad roots or an unknown context; what failed on any worker;
            WorkerLostError
    """
    if mode not in MODES:
        raise ValueError(f"unknown mode {mode!r}; known: {', '.join(MODES)}")
    if type(context_id) is not int or isinstance(roots, Tensor):
        raise TypeError(
            "backward(context_id, roots): expected the id that `with context() as context_id` "
            f"gives and a list of tensors, got {type(context_id).__name__} and "
            f"{type(roots).__name__}"
        )
    dist_engine().execute(context_id, list(roots), retain_graph, is_auto=mode == "auto")


def is_available() -> bool:
    """Return True: as in PyTorch, whether distributed autograd can be used."""
    return True


def get_gradients(context_id: int) -> dict[Tensor, Tensor]:
    """Return leaf -> gradient of what this worker's leaves got in the context so far."""
    return get_instance().retrieve_context(context_id).gradients()


def _init(worker_id: int) -> DistAutogradContainer:
    return container.init(worker_id)


def _start(worker_id: int) -> None:
    _init(worker_id)


def _stop() -> None:
    container.stop()
    dist_engine().stop()
    tangent_store().stop()


def _lost(worker: WorkerInfo) -> None:
    handle_lost_worker(worker)
    handle_lost_owner(worker)


def _new_context() -> DistAutogradContext:
    return get_instance().new_context()


def _release_context(context_id: int) -> None:
    get_instance().release_context(context_id)


def _get_max_id() -> int:
    return get_instance().max_id


def _is_valid_context(context_id: int) -> None:
    get_instance().is_valid_context(context_id)


def _retrieve_context(context_id: int) -> DistAutogradContext:
    return get_instance().retrieve_context(context_id)


def _current_context() -> DistAutogradContext:
    return get_instance().current_context()


def _num_shards() -> int:
    return get_instance().number_of_shards()


def _get_debug_info() -> dict[str, Any]:
    return {
        "num_current_backward_passes": dist_engine().number_of_passes(),
        "num_autograd_contexts": get_instance().number_of_contexts(),
    }


# RPC imports this room when it starts: from then on this worker can take part in any context.
install_all()
add_hooks(_start, _stop, _lost)

__all__ = [
    "DistAutogradContext",
    "backward",
    "context",
    "current_context_id",
    "get_gradients",
    "is_available",
]

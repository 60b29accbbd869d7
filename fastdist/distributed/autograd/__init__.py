"""Distributed autograd: one backward pass over all workers that a context reached.

If a tensor is sent to another worker inside `with context() as context_id:`, the sender records a
SendRpcBackward Node and the receiver a RecvRpcBackward Node. Both Nodes have the same autograd
message id. `backward(context_id, roots)` runs the local graph. A receive sends its gradients to the
worker that sent the tensor, and the send on that worker continues the pass there. Gradients stay in
the context (`get_gradients`), so passes of different contexts do not mix.

container.py           contexts by id, and the `with` block that opens one
shard.py               a part of the contexts, guarded by one lock
context.py             one worker's state of one context
endings.py             ends contexts, and levels of forward mode, on all workers
message_autograd.py    wraps messages that carry tensors of a context
send_rpc_backward.py   the Node of a message whose tensors were sent
recv_rpc_backward.py   the Node of a message whose tensors were received
outbox.py              gradients on their way to other workers
sparse_parts.py        sparse gradients and tensors in messages
plain_nodes.py         runs Nodes that have no hooks or streams and are not recorded
messages.py            handles the requests of other workers
backward_pass.py       one worker's part of a pass: its states and how it ends
pass_metadata.py       the metadata of messages about a pass
engine.py              runs a worker's part of a pass
roots.py               checks the roots of a pass
dependencies.py        finds the Nodes that must run
own_queue.py           the queue of one run of the engine's loop
global_cpu_thread.py   continues passes on the CPU after work on GPUs
rref_backward.py       backward from a root on another worker
abort.py               notifies other workers that a pass has failed
node_errors.py         puts the worker's name in front of an error's text
lost_workers.py        handles the loss of a worker in passes and contexts
stall.py               detects a pass that cannot end
functional.py          products with Jacobians and Hessians
tangent_store.py       forward mode: tangents and levels on other workers

`explain` is in distributed/explain. docs/glossary.md explains the terms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from fastdist.core.folded_frames import folds

from ...core.missing import load_later
from ...instrumentation.time_ranges import time_range, time_ranges
from ...tensor.tensor import Tensor
from ..rpc.agent import add_debug_info, add_hooks
from ..rpc.message.gate import export_later
from ..rpc.torch_names.argument_errors import incompatible
from ..rpc.workers.worker import Worker
from . import container
from .container import current_context_id, get_instance
from .context import DistAutogradContext
from .engine import dist_engine
from .lost_workers import handle_lost_worker
from .messages import install_all
from .tangent_store import tangent_store

if TYPE_CHECKING:
    from ..explain.explanation import explain as explain
    from .functional import hvp as hvp
    from .functional import jvp as jvp

# Assigned after the import of the submodule `context`, because users mean the class.
context = container.context

MODES = ("auto", "fast")
_SMART = (
    "the mode 'smart' of PyTorch's design notes, which finds the sends that take part before the "
    "pass begins, is not built: 'auto' gives the same gradients, also where results of RPCs are "
    'not used, and asks only when a pass waits; use mode="auto"'
)


# Replaced while a profiler records.
_around_pass: Callable[[], AbstractContextManager[Any]] = nullcontext


def _tell_of_passes(is_on: bool) -> None:
    global _around_pass
    _around_pass = (
        partial(time_range, "torch::distributed::autograd::backward", "pass")
        if is_on
        else nullcontext
    )


time_ranges.watch("on", _tell_of_passes)


@folds
def backward(
    context_id: int,
    roots: Iterable[Tensor],
    retain_graph: bool = False,
    *,
    create_graph: bool = False,
    accumulate_to_grad: bool = False,
    mode: str = "auto",
) -> None:
    """Run a distributed backward pass; gradients stay in the context, on each leaf's worker.

    In the mode "auto", results of RPCs that no root depends on get no gradients, as in one process.
    In "fast", PyTorch's mode, the pass waits for such gradients, and fails when it makes no
    progress. The "smart" mode of PyTorch's design notes does not exist, because "auto" gives the
    same gradients.

    With create_graph, the graph is kept and the gradients in the contexts have a graph too, which
    spans all workers. A later pass of the same context, with roots made of these gradients,
    computes second derivatives. The context adds the gradients of the later pass to the gradients
    that it has, as `.grad` does in one process.

    With accumulate_to_grad, each leaf's `.grad` accumulates on its worker as in a local pass, and
    the leaf's hooks run. The context has the gradients too.

    Thread  runs in the calling thread, which waits without the GIL until every worker is done
    Note    in the mode "auto", a pass may take 10 ms longer if an answer needs no gradient or a
            call in the pass's context failed. A callback that `then` adds to an unfinished Future
            runs outside of the caller's context, as in PyTorch
    Raises  TypeError; ValueError for an unknown mode; RuntimeError for bad roots or an unknown
            context; the error of any worker; WorkerLostError

    Args:
        context_id: The id from `with context() as context_id`.
        roots: Tensors of one element from which the pass starts.
        retain_graph: Whether a second pass may run through the same graph.
        create_graph: Whether the pass is recorded, for second derivatives.
        accumulate_to_grad: Whether gradients are added to each leaf's `.grad` as well.
        mode: "auto" or "fast".

    Example:
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> with dist_autograd.context() as context_id:
        ...     y = rpc.rpc_sync("worker0", torch.mul, args=(x, x))
        ...     dist_autograd.backward(context_id, [y.sum()])
        ...     print(dist_autograd.get_gradients(context_id)[x])
        tensor([2., 4.])
    """
    _require_arguments(context_id, roots, retain_graph, mode)
    with _around_pass():
        dist_engine().execute(
            context_id,
            list(roots),
            retain_graph,
            is_auto=mode == "auto",
            create_graph=create_graph,
            to_grad=accumulate_to_grad,
        )


def _require_arguments(context_id: object, roots: object, retain_graph: object, mode: str) -> None:
    """Raise for an argument of backward with a wrong type, and for an unknown mode.

    Raises  TypeError, ValueError
    """
    if mode == "smart":
        raise ValueError(_SMART)
    if mode not in MODES:
        raise ValueError(f"unknown mode {mode!r}; known: {', '.join(MODES)}")
    is_list = roots.__class__ is list
    is_known = type(context_id) is int and type(retain_graph) is bool
    if not is_known or not (is_list or _is_iterable(roots)):
        why = (
            "backward(context_id, roots): expected the id that `with context() as context_id` "
            f"gives and a list of tensors, got {type(context_id).__name__} and "
            f"{type(roots).__name__}; retain_graph is {retain_graph!r}, expected True or False"
        )
        signature = "(context_id: int, roots: list[Tensor], retain_graph: bool = False) -> None"
        raise incompatible("backward", signature, why, context_id, roots, retain_graph)


def _is_iterable(roots: object) -> bool:
    return hasattr(roots, "__iter__") and not isinstance(roots, Tensor)


def is_available() -> bool:
    """Return True: distributed autograd can be used. PyTorch has the same function.

    Example:
        >>> dist_autograd.is_available()
        True
    """
    return True


@folds
def get_gradients(context_id: int) -> dict[Tensor, Tensor]:
    """Return a dict from leaf to gradient, for this worker's leaves and one context.

    Raises  TypeError for a value that is not an id; RuntimeError for an unknown context

    Args:
        context_id: The id from `with context() as context_id`.

    Returns:
        A dict; its keys are compared by identity.

    Example:
        >>> x = torch.ones(2, requires_grad=True)
        >>> with dist_autograd.context() as context_id:
        ...     dist_autograd.backward(context_id, [(3 * x).sum()])
        ...     print(dist_autograd.get_gradients(context_id)[x])
        tensor([3., 3.])
    """
    if type(context_id) is not int:
        why = f"expected the id that `with context()` gives, got {type(context_id).__name__}"
        signature = "(context_id: int) -> dict[Tensor, Tensor]"
        raise incompatible("get_gradients", signature, why, context_id)
    return get_instance().retrieve_context(context_id).gradients()


_init = container.init


def _stop() -> None:
    container.stop()
    dist_engine().stop()
    tangent_store().stop()


def _lost(worker: Worker) -> None:
    handle_lost_worker(worker)
    tangent_store().worker_lost(worker)


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


# Loaded on first use, by a user or by a call from another worker: few programs use these functions,
# and loading them costs memory in every process.
load_later(__name__, {"explain": ".explain.explanation", "hvp": "functional", "jvp": "functional"})
export_later(f"{__name__}.functional", "_leaf_there", "_dual_there", "_dot_there", "_product_there")

# RPC imports this package when it starts, so that this worker can take part in any context.
install_all()
add_hooks(_init, _stop, _lost)
add_debug_info(_get_debug_info)

__all__ = [
    "DistAutogradContext",
    "backward",
    "context",
    "current_context_id",
    "explain",
    "get_gradients",
    "hvp",
    "is_available",
    "jvp",
]

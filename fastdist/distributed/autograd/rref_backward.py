"""RRef.backward: a pass whose root is on another worker."""

from __future__ import annotations

from typing import Any

from ...core.errors import GraphError, MessageError
from ...core.folded_frames import folds
from ...engine.backward import backward as local_backward
from ...tensor.tensor import Tensor
from ..rpc.agent import get_current_agent
from ..rpc.message.message import Message
from ..rpc.message.metadata_fields import flag, number
from ..rpc.message.types import MessageType
from ..rpc.references.rref import RRef
from ..rpc.workers.record import in_words
from .container import INVALID_CONTEXT_ID
from .engine import dist_engine


@folds
def rref_backward(
    self: RRef[Any], dist_autograd_ctx_id: int = INVALID_CONTEXT_ID, retain_graph: bool = False
) -> None:
    """Run a backward pass from the tensor of this RRef on its owner, and wait until the pass ends.

    With a context id, the pass is a distributed pass of that context; without an id, it is a local
    pass of the owner.

    Raises  RuntimeError if the value is not a tensor; errors of the pass

    Args:
        dist_autograd_ctx_id: The id of the distributed autograd context; a local pass if -1.
        retain_graph: Whether to keep the graph for a second pass.
    """
    if self.is_owner():
        _run(self, dist_autograd_ctx_id, retain_graph)
        return
    client = get_current_agent().client
    metadata = {"context_id": dist_autograd_ctx_id, "retain_graph": bool(retain_graph)}
    kind = MessageType.RREF_BACKWARD_REQ
    client.request(self._owner, kind, (self,), (), metadata, 0.0, rref_backward).wait()


def handle_rref_backward(request: Message) -> None:
    """Run the pass on this worker, which owns its root."""
    metadata = request.metadata
    context_id = number(metadata, "context_id", request.peer.id)
    retain_graph = flag(metadata, "retain_graph", request.peer.id)
    value = request.value()
    if type(value) is not tuple or len(value) != 1 or not isinstance(value[0], RRef):
        raise MessageError(
            f"{in_words(request.peer)} asks for a backward pass of a {type(value).__name__}, "
            "expected one RRef"
        )
    _run(value[0], context_id, retain_graph)


def _run(rref: RRef[Any], context_id: int, retain_graph: bool) -> None:
    root = rref.local_value()
    if not isinstance(root, Tensor):
        raise GraphError(
            f"RRef should contain a tensor for .backward(), but it contains {type(root).__name__}"
        )
    if context_id == INVALID_CONTEXT_ID:
        local_backward([root], retain_graph=retain_graph)
    else:
        dist_engine().execute(context_id, [root], retain_graph, is_auto=True)

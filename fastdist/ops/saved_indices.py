"""Version checks for indices of composites: a backward pass fails if an index was changed in place.

Ops check the versions of the tensors that their Nodes save. But a composite that copies an index,
or computes with numbers derived from an index, does not save the caller's tensor. PyTorch raises an
error if this tensor was changed in place, and so does the check in this file.
"""

from __future__ import annotations

from weakref import ref

from ..dispatch.tangents import is_recorded
from ..graph.node import node_of, raise_changed
from ..interpreters.batched_tensor import Batched, unbatched
from ..tensor.tensor import Tensor


def keep_version(result: Tensor, index: Tensor | None) -> Tensor:
    """Return `result`. A backward pass through `result` raises RuntimeError if `index` was changed
    in place after this call.
    """
    if not isinstance(index, Tensor) or not is_recorded((result,)):
        return result
    found, own = result, unbatched(index)
    while isinstance(found, Batched):  # the value of a batch has the graph
        found = found.value
    # The hook refers to the Node weakly, because the Node owns the hook.
    node, version = ref(node_of(found._edge)), own._version

    def check(_: object) -> None:
        if own._version != version:
            raise_changed(node(), own, own._layout, version, own._version)  # type: ignore[arg-type]

    node_of(found._edge).register_prehook(check)
    return result

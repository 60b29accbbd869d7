"""Indices that a composite reads: a backward pass refuses them once they were changed in place.

Ops check the versions of what their Nodes save. A composite that copies an index, or computes with
numbers derived from it, saves nothing of the caller's; PyTorch refuses such a pass as well.
"""

from __future__ import annotations

from typing import Any
from weakref import ref

from ..dispatch.tangents import is_recorded
from ..graph.node import node_of, raise_changed
from ..interpreters.batched_tensor import Batched, unbatched
from ..tensor.tensor import Tensor


def keep_version(result: Tensor, index: Tensor | None) -> Any:
    """Let a backward pass through result raise if index was changed in place since; return result.

    Raises  in the pass: RuntimeError
    """
    if not isinstance(index, Tensor) or not is_recorded((result,)):
        return result
    found, own = result, unbatched(index)
    while isinstance(found, Batched):  # the graph belongs to the tensor that it holds
        found = found.value
    # Weak: the hook belongs to the Node.
    node, version = ref(node_of(found._edge)), own._version

    def check(_: object) -> None:
        if own._version != version:
            raise_changed(node(), own, own._layout, version, own._version)  # type: ignore[arg-type]

    node_of(found._edge).register_prehook(check)
    return result

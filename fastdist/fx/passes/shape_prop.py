"""ShapeProp: finds the shapes and dtypes of all steps by running the graph."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...core.dtypes import DType
from ...core.memory_format import MemoryFormat, channels_last, channels_last_3d, contiguous_format
from ...core.missing import explain_missing
from ...tensor.layout import Size
from ...tensor.tensor import Tensor
from ..interpreter import Interpreter
from ..node import Node, map_aggregate

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """The shape, dtype and layout of a step's tensor."""

    shape: Size
    dtype: DType
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: MemoryFormat | None
    is_quantized: bool
    qparams: dict[str, Any]


def _extract_tensor_metadata(result: Tensor, include_contiguity: bool = True) -> TensorMetadata:
    """Return the shape, dtype and layout of a tensor."""
    chosen = None
    if include_contiguity:
        for one in (contiguous_format, channels_last, channels_last_3d):
            if result.is_contiguous(memory_format=one):
                chosen = one
                break
    return TensorMetadata(
        result.shape, result.dtype, result.requires_grad, result.stride(), chosen, False, {}
    )


class ShapeProp(Interpreter):
    """Runs a graph, and stores `tensor_meta` and `type` in each step's `meta`.

    Args:
        gm: The GraphModule.
    """

    def __init__(self, gm: Any) -> None:
        super().__init__(gm)

    def run_node(self, n: Node) -> Any:
        """Return the value of a step, and store its metadata."""
        result = super().run_node(n)
        found = False

        def described(one: Any) -> Any:
            nonlocal found
            if not isinstance(one, Tensor):
                return one
            found = True
            return _extract_tensor_metadata(one)

        meta = map_aggregate(result, described)
        if found:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the graph for these inputs, store the metadata of all steps, and return
        the result.
        """
        return super().run(*args)


explain_missing(__name__)

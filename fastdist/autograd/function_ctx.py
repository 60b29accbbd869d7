"""The ctx of a user's forward, backward and jvp."""

from __future__ import annotations

from typing import Any

from ..tensor.tensor import Tensor


# Note [Whose names stand on ctx]
# A user may set any name on ctx. The Node already has attributes (edges, hooks, layout), so the
# ctx is a separate object. The Node holds the user's attributes in a dict, but does not reference a
# ctx, which avoids a reference cycle. Each call creates a new ctx as a view of that dict.
class FunctionCtx:
    """The ctx of a Function. Users may set any attribute. Tensors should be saved by
    save_for_backward, which detects changes in place and avoids reference cycles through outputs.
    """

    __slots__ = ("__dict__", "__node", "__weakref__")

    needs_input_grad: tuple[bool, ...]

    def __init__(self, node: Any) -> None:
        self.__node = node
        self.__dict__ = node.users

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors (inputs, outputs or others) for backward, which reads `saved_tensors`."""
        for i, tensor in enumerate(tensors):
            if tensor is not None and not isinstance(tensor, Tensor):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument {i} is of type "
                    f"{type(tensor).__name__}; set it as an attribute of ctx"
                )
        self.__node.to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for jvp, which reads `saved_tensors`."""
        self.__node.for_forward = tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Declare that forward changed these inputs in place. Forward must return each of them."""
        self.__node.dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Declare that these outputs have no gradient."""
        self.__node.mark_non_differentiable(tensors)

    def set_materialize_grads(self, value: bool) -> None:
        """Choose whether backward and jvp get zeros (True, the default) or None for an undefined
        gradient or tangent.
        """
        self.__node.materializes = value

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """The saved tensors, in order.

        Raises  RuntimeError after a pass without retain_graph, or for a tensor that was changed in
                place
        """
        return self.__node.saved_tensors  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        if name in _OF_THE_NODE:
            return getattr(self.__node, name)
        raise AttributeError(
            f"ctx of {self.__node.name()} has no attribute {name!r}; set in forward or "
            "setup_context what backward reads"
        )


# Attributes of the Node that PyTorch's ctx has too. A user's attribute hides one of the same name.
_OF_THE_NODE = frozenset(
    {"metadata", "name", "next_functions", "register_hook", "register_prehook"}
)

"""Nodes of calls. Users see one class per name, whichever code made the Node."""

# Note [One Node class for a name]
# Users distinguish Nodes by their class, `type(y.grad_fn)`; PyTorch has one class for each name.
# Here Nodes of several classes have the same name. For example, tanhshrink is one op here, but its
# Node has the name of a subtraction, because PyTorch computes tanhshrink with a subtraction as the
# last step. An einsum is named after its last step, and an in-place result is named after the op
# that computed it. A Node's kind is the class with which the Node was created. The kind defines
# which values are saved and how gradients are computed. When a user first accesses the Node, its
# `__class__` changes to the one class of its name; the Node keeps its kind in an attribute and
# behaves as the kind defines. Nodes that users never inspect (most of them) cost nothing extra.
#
# Python can change an object's class only if both classes have the same memory layout, so all Nodes
# of calls save into the same slots. A kind lists its names for these slots in `saved_names`, and
# fills the slots before the Node is visible to users. A user may access a Node while it runs, so
# all attributes of a kind are readable after the change of class as well.

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import Any, ClassVar, Final

from .node import Node

# The number of slots is the largest number of values that an op saves. A Node that uses none of the
# slots pays 9 ns for them, of the 2100 ns that x.sum() takes (AMD EPYC, Zen 4).
PLACES: Final = tuple([f"place_{i}" for i in range(12)])


# Out-of-place -> in-place names of Nodes, for ops whose in-place form has another gradient formula,
# and so another Node name, in PyTorch.
_IN_PLACE: Final = {
    f"{word}Backward{formula}": f"{word}Backward{in_place}"
    for word, formula, in_place in (
        *[("Squeeze", 0, 3), ("Squeeze", 1, 4), ("Squeeze", 2, 5)],
        *[(word, 0, 1) for word in ("Acosh", "Asinh", "Atanh", "Celu", "Elu", "LeakyRelu")],
        *[(word, 0, 1) for word in ("Polygamma", "T", "Threshold", "Transpose", "Unsqueeze")],
    )
}


class CallNode(Node):
    """Base of all Nodes that may be named after a call. See Note [One Node class for a name]."""

    __slots__ = ("in_place", "kind", "route", *PLACES)
    saved_names: ClassVar[tuple[str, ...]] = ()
    is_shown: ClassVar[bool] = False
    in_place: bool  # True if a result was computed and then copied to its target; else not set
    kind: type[CallNode]  # only set after users have seen the Node
    route: Any  # only for Nodes of ops, see dispatch/node_writer.py

    def __init_subclass__(cls) -> None:
        if cls.is_shown:
            return
        for name, place in zip(cls.saved_names, PLACES[: len(cls.saved_names)], strict=True):
            setattr(cls, name, getattr(CallNode, place))
        for name in vars(cls):
            if not hasattr(ShownNode, name):
                setattr(ShownNode, name, property(partial(_by_kind, name)))

    def shown(self) -> Node:
        """Return this Node after changing its class to the one that users see for its name."""
        kind = type(self)
        if not kind.is_shown:
            # Call the kind's method: another thread may change the Node's class meanwhile.
            name = kind.name_of_call(self)
            if hasattr(self, "in_place"):
                name = _IN_PLACE.get(name, name)
            self.kind = kind
            self.__class__ = _class_called(name)
        return self

    def name_of_call(self) -> str:
        """Return the name that graphs show."""
        return getattr(self, "_called", None) or kind_of(self).__name__


class ShownNode(CallNode):
    """Base of the classes that users see. A Node of such a class behaves as its kind defines."""

    __slots__ = ()
    is_shown = True

    def name_of_call(self) -> str:
        """Return the name of the class."""
        return type(self).__name__

    def apply(self, g: Any, keep: bool) -> tuple[Any, ...]:
        """Return the inputs' gradients, as raw arrays; unless `keep`, release the saved values."""
        return self.kind.apply(self, g, keep)

    def apply_recorded(self, g: Any, keep: bool) -> tuple[Any, ...]:
        """Return the gradients of the inputs as Tensors, and record how they are computed."""
        return self.kind.apply_recorded(self, g, keep)

    def release(self) -> None:
        """Release the saved values."""
        self.kind.release(self)

    @property
    def num_outputs(self) -> int:  # type: ignore[override]
        """How many results of the call may be differentiated."""
        layout = self.output_layout
        return len(layout) if layout.__class__ is tuple else 1


def _by_kind(name: str, node: ShownNode) -> Any:
    """Return the attribute `name` of a Node, which the Node's kind defines."""
    found = getattr(node.kind, name)
    return found.__get__(node) if hasattr(found, "__get__") else found


def kind_of(node: Node) -> type[Node]:
    """Return the class that created a Node, even if users have seen it and its class has
    changed.
    """
    return node.kind if isinstance(node, ShownNode) else type(node)


# Class attributes that kinds may override. The engine reads them for each Node.
for _name in ("accepts_undefined", "fresh", "takes_sparse", "waits"):
    setattr(ShownNode, _name, property(attrgetter(f"kind.{_name}")))


_CLASSES: dict[str, type[ShownNode]] = {}


def _class_called(name: str) -> type[ShownNode]:
    found = _CLASSES.get(name)
    if found is None:
        made = type(name, (ShownNode,), {"__slots__": (), "__module__": "fastdist.graph"})
        found = _CLASSES.setdefault(name, made)  # another thread may have been faster
    return found

"""The Node of an op with several results of which each has a gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from ..graph.modes import modes, tls
from ..graph.node import Edge, Node, raise_released
from ..graph.recording import begin_node
from ..graph.saved_tensors import pack_one
from ..tensor.storage import storage_of
from ..tensor.tensor import Tensor, layout_of, wrap
from .gradients import reduce_recorded
from .node_writer import Recording
from .saved import unpack_input
from .way import Way

Saved = tuple[Any, int]


class SeveralNode(Node):
    """One recorded call. Its results of a dtype that may have a gradient are its outputs.

    Not written out as `OpNode`s are: what has several results is no small op.
    """

    __slots__ = ("inputs", "num_outputs", "outs", "way")
    of: ClassVar[Recording]

    def record(
        self, edges: tuple[Any, ...], inputs: Sequence[Any], outs: Sequence[Tensor], way: Way
    ) -> None:
        """Stand for a call, save what its gradients ask for, and give its results their edges."""
        begin_node(self, edges, tuple([out.facts for out in outs]))
        self.num_outputs = len(outs)
        self.way: Way | None = way
        pairs = zip(self.of.gradients, edges, strict=True)
        asked = frozenset[str]().union(*[one.asks for one, edge in pairs if one and edge])
        self.inputs: tuple[Saved | None, ...] = tuple(
            [
                _saved(input, input) if name in asked and input is not None else None
                for name, input in zip(self.of.tensors, inputs, strict=True)
            ]
        )
        self.outs: tuple[Saved, ...] = ()
        if "outs" in asked:
            self.outs = tuple([_saved(out, self._alias(out)) for out in outs])
        for i, out in enumerate(outs):
            out.edge = self._edge(i)

    def name(self) -> str:
        """Return the name that `grad_fn` shows."""
        return self.of.node_name

    def apply(self, g: Any, keep: bool) -> tuple[Any, ...]:
        """Return the gradients of the inputs as raw arrays."""
        grads = [
            None if one is None else wrap(one, layout_of(one, layout.device))
            for one, layout in zip(g, self.facts, strict=True)
        ]
        return tuple([None if t is None else t.array for t in self.apply_recorded(grads, keep)])

    def apply_recorded(self, g: Any, keep: bool) -> tuple[Any, ...]:
        """Return the gradients of the inputs as Tensors."""
        # The Way last, as release() takes it first.
        inputs, outs, way, of = self.inputs, self.outs, self.way, self.of
        if way is None:
            raise_released(self)
        assert way is not None
        known = dict(zip(of.attributes, way.attributes, strict=True))
        for name, saved, edge in zip(of.tensors, inputs, self.edges, strict=True):
            known[name] = None if saved is None else unpack_input(self, *saved, edge)
        for name, layout in zip(of.tensors, way.layouts, strict=True):
            known[f"{name}_layout"] = layout
        known["grads"], known["plan"] = tuple(g), way.plan
        known["wanted"] = tuple([edge is not None for edge in self.edges])
        # A gradient that nobody differentiates has no use for edges.
        may_record = tls.grad or modes.special
        known["outs"] = tuple(
            [
                unpack_input(self, *saved, self._edge(i) if may_record else None)
                for i, saved in enumerate(outs)
            ]
        )
        found = self._gradients(known, way)
        if not keep:
            self.release()
        return found

    def _gradients(self, known: dict[str, Any], way: Way) -> tuple[Any, ...]:
        """Return the gradients of the inputs that have an edge; who makes several is asked once."""
        made: dict[Callable[..., Any], Any] = {}
        layouts: Any = way.layouts
        found: list[Any] = []
        for i, (one, derivative) in enumerate(
            zip(self.of.gradients, self.of.derivatives(), strict=True)
        ):
            if one is None or derivative is None or self.edges[i] is None:
                found.append(None)
                continue
            if derivative not in made:
                made[derivative] = derivative(*[known[name] for name in one.needs])
            gradient, name = made[derivative], self.of.tensors[i]
            if one.together:
                gradient = gradient[one.together.index(name)]
            maker = (self.of.node_name, i, f"the vjp of {self.of.name} by {name}")
            found.append(reduce_recorded(gradient, layouts[i], maker))
        return tuple(found)

    def _edge(self, i: int) -> Edge | None:
        return Edge(self, i) if self.facts[i].dtype.may_have_gradient else None

    @staticmethod
    def _alias(out: Tensor) -> Tensor:
        """Return out without its edge, since the Node must not hold itself."""
        alias = wrap(out.array, out.facts)
        alias.extra, alias._storage = out.extra, storage_of(out)
        return alias

    def release(self) -> None:
        """Forget what was saved."""
        self.way = None
        self.inputs = self.outs = ()


def _saved(of: Tensor, kept: Tensor) -> Saved:
    return pack_one(kept), of._version


def several_node_class(of: Recording) -> type[SeveralNode]:
    """Return the Node class of an op."""
    members = {"__slots__": (), "of": of, "fresh": of.fresh, "__module__": "fastdist.graph"}
    return type(of.node_name, (SeveralNode,), members)

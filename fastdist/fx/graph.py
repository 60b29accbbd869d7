"""Graph: a function as a list of steps, which can be changed and written as Python code."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ..core.missing import explain_missing
from ..nn.module import Module
from .code import Namespace, PythonCode, Writer
from .node import Argument, Node, Target, map_arg, walk

__all__ = ["CodeGen", "Graph", "PythonCode"]

_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class CodeGen:
    """Writes the function of a graph; subclasses may change its parameters and its result."""

    def __init__(self) -> None:
        self._body_transformer: Callable[[list[str]], list[str]] | None = None

    def process_inputs(self, *args: Any) -> Any:
        """Return the values of the placeholders, given the arguments of the function."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """Return the result of the function, given the value of the output step."""
        return outputs

    def python_code(self, nodes: list[Node], root: str) -> PythonCode:
        """Return the text of `forward` and the objects that the text refers to."""
        writer = Writer(nodes, root)
        parameters, body = writer.lines()
        if self._body_transformer is not None:
            body = self._body_transformer([f"{line}\n" for line in body])
            body = [line for text in body for line in text.splitlines()]
        lines = "\n    ".join(body)
        text = f"\n\n\ndef forward({', '.join([root, *parameters])}):\n    {lines}\n"
        return PythonCode(text, writer.globals)


class Graph:
    """A function as an ordered list of steps (Nodes). New steps are added at the end by default.

    Args:
        owning_module: The GraphModule whose `forward` this is, or None.
        tracer_cls: The class of the Tracer that made the graph.
        tracer_extras: More arguments for the constructor of tracer_cls.
    """

    def __init__(
        self,
        owning_module: Any = None,
        tracer_cls: Any = None,
        tracer_extras: dict[str, Any] | None = None,
    ) -> None:
        self._root = Node(self, "", "root", "", (), {})
        self._insert: Callable[[Node], None] = self._root.prepend
        self._graph_namespace = Namespace()
        self._owning_module = owning_module
        self._tracer_cls = tracer_cls
        self._tracer_extras = tracer_extras
        self._codegen = CodeGen()

    @property
    def owning_module(self) -> Any:
        """The GraphModule whose `forward` this is, or None."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, module: Any) -> None:
        self._owning_module = module

    @property
    def nodes(self) -> _Nodes:
        """The steps, in order."""
        return _Nodes(self)

    def output_node(self) -> Node:
        """Return the step "output"."""
        return next(node for node in walk(self._root, backward=True) if node.op == "output")

    def find_nodes(self, *, op: str, target: Target = None, sort: bool = True) -> Iterable[Node]:
        """Return the steps with the given `op`, and with the given `target` if it is not None."""
        chosen = [node for node in self.nodes if node.op == op]
        if target is None:
            return chosen
        return [node for node in chosen if node.target == target]

    # ---- Adding steps ---------------------------------------------------------------------------

    def create_node(
        self,
        op: str,
        target: Target,
        args: tuple[Argument, ...] | None = None,
        kwargs: Mapping[str, Argument] | None = None,
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Add a step at the insert point, and return it."""
        candidate = name if name is not None else self._target_to_str(target)
        name = self._graph_namespace.create_name(candidate, None)
        made = Node(self, name, op, target, args or (), kwargs or {}, type_expr)
        self._graph_namespace.associate_name_with_obj(name, made)
        self._insert(made)
        return made

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = ...) -> Node:
        """Add an input of the function; the default_value `...` means no default."""
        args = () if default_value is ... else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """Add a read of the module's parameter, buffer or attribute at a path."""
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self,
        module_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Add a call of the submodule at a path."""
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self,
        method_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Add a call of a method of args[0]."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any = None,
        name: str | None = None,
    ) -> Node:
        """Add a call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def output(self, result: Argument, type_expr: Any = None) -> Node:
        """Add the result of the function."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(
        self, node: Node, arg_transform: Callable[[Node], Argument] | None = None
    ) -> Node:
        """Add a copy of another graph's step, which reads arg_transform(n) instead of a Node n; the
        same Nodes if arg_transform is None.
        """
        args, kwargs = node.args, node.kwargs
        if arg_transform is not None:
            args, kwargs = map_arg(args, arg_transform), map_arg(kwargs, arg_transform)
        made = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        made.meta = dict(node.meta)
        return made

    def graph_copy(
        self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False
    ) -> Any:
        """Add copies of another graph's steps, and return the value of its output.

        Args:
            g: The other graph.
            val_map: Maps Nodes of g to Nodes of this graph. A Node that is a key of val_map is not
                copied. Each other Node is copied, and added to val_map with its copy.
            return_output_node: Whether to return the other graph's step "output" too.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                value = map_arg(node.args[0], lambda one: val_map[one])
                return (value, node) if return_output_node else value
            val_map[node] = self.node_copy(node, lambda one: val_map[one])
        return None

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Graph:
        made = Graph(tracer_cls=self._tracer_cls, tracer_extras=self._tracer_extras)
        made._codegen = self._codegen
        found = made.graph_copy(self, {}, return_output_node=True)
        if found is not None:
            made.output(found[0], found[1].type).meta = dict(found[1].meta)
        return made

    def inserting_before(self, n: Node | None = None) -> _InsertPoint:
        """Set the insert point before a step, or before the first one for None. In a `with`
        statement the insert point is restored at the end of the block.
        """
        if n is None:
            return self.inserting_after(self._root)
        self._require_own(n)
        return _InsertPoint(self, n.prepend)

    def inserting_after(self, n: Node | None = None) -> _InsertPoint:
        """Set the insert point after a step, or at the end for None. In a `with` statement the
        insert point is restored at the end of the block.
        """
        if n is None:
            return self.inserting_before(self._root)
        self._require_own(n)
        return _InsertPoint(self, n.append)

    def _require_own(self, node: Node) -> None:
        if node.graph is not self:
            raise AssertionError(f"Node to insert before or after ({node}) is not in graph.")

    # ---- Removing and checking ------------------------------------------------------------------

    def erase_node(self, to_erase: Node) -> None:
        """Remove a step whose result no step uses.

        Raises  RuntimeError for a step with users
        """
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in "
                f"the graph: {to_erase.users}!"
            )
        self._require_own(to_erase)
        if to_erase._erased:
            return
        to_erase.args, to_erase.kwargs = (), {}
        to_erase._remove_from_list()
        to_erase._erased = True

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Remove steps without users and without side effects; return whether one was removed."""
        is_impure = is_impure_node or (
            lambda node: node.is_impure() or self._is_called_impure(node)
        )
        changed = False
        for node in list(reversed(self.nodes)):
            if not node.users and not is_impure(node):
                self.erase_node(node)
                changed = True
        return changed

    def _is_called_impure(self, node: Node) -> bool:
        if node.op != "call_module" or self._owning_module is None:
            return False
        return bool(getattr(self._owning_module.get_submodule(node.target), "_is_impure", False))

    def lint(self) -> None:
        """Check that each step reads only earlier steps of this graph, that no name occurs twice,
        and that the paths of attributes and submodules exist.

        Raises  RuntimeError if the graph is invalid
        """
        seen: set[Node] = set()
        names: set[str] = set()
        for node in self.nodes:
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
            for one in node.all_input_nodes:
                if one not in seen:
                    raise RuntimeError(
                        f"Argument '{one}' of Node '{node}' was used before it has been defined! "
                        "Please check that Nodes in the graph are topologically ordered"
                    )
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            seen.add(node)
            names.add(node.name)
            self._lint_target(node)

    def _lint_target(self, node: Node) -> None:
        if self._owning_module is None or node.op not in ("get_attr", "call_module"):
            return
        found = self._owning_module
        for part in node.target.split("."):
            if not hasattr(found, part):
                raise RuntimeError(
                    f"Node {node} target {node.target} references nonexistent attribute {part} of "
                    f"{type(found).__name__}"
                )
            found = getattr(found, part)
        if node.op == "call_module" and not isinstance(found, Module):
            raise RuntimeError(f"Node {node} target {node.target} does not reference a Module")

    # ---- Text -----------------------------------------------------------------------------------

    def python_code(self, root_module: str, **kwargs: Any) -> PythonCode:
        """Return the graph as a Python function of the module and its inputs."""
        return self._codegen.python_code(list(self.nodes), root_module)

    def set_codegen(self, codegen: CodeGen) -> None:
        """Set the object that writes the function."""
        self._codegen = codegen

    @contextlib.contextmanager
    def on_generate_code(
        self, make_transformer: Callable[[Any], Callable[[list[str]], list[str]]]
    ) -> Iterator[None]:
        """Change the lines of functions that are generated in this `with` block. make_transformer
        gets the former transformer (or None), and returns a function from lines to lines.
        """
        before = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(before)
        try:
            yield
        finally:
            self._codegen._body_transformer = before

    def process_inputs(self, *args: Any) -> Any:
        """Return the values of the placeholders, given the arguments of the function."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        """Return the result of the function, given the value of the output step."""
        return self._codegen.process_outputs(out)

    def print_tabular(self) -> None:
        """Print a table of the steps."""
        rows: list[tuple[str, ...]] = [("opcode", "name", "target", "args", "kwargs")]
        for node in self.nodes:
            target = node._pretty_target()
            rows.append((node.op, node.name, target, str(node.args), str(node.kwargs)))
        widths = [max(len(row[column]) for row in rows) for column in range(5)]
        rows.insert(1, tuple("-" * width for width in widths))
        lines = ["  ".join(map(str.ljust, row, widths)) for row in rows]
        print("\n".join(lines))  # noqa: T201 (what it is for)

    def __str__(self) -> str:
        return "\n    ".join(["graph():", *(str(node.format_node()) for node in self.nodes)])

    @staticmethod
    def _target_to_str(target: Target) -> str:
        """Return a name for the result of a step: relu_ for the method `relu_`, layer1_0 for the
        submodule `layer1.0`.
        """
        name = target if isinstance(target, str) else getattr(target, "__name__", "")
        name = name.lstrip("*") if isinstance(target, str) else name
        if name.startswith("__") and name.endswith("__"):
            name = name[2:-2]
        return _CAPITAL.sub("_", name.replace(".", "_")).lower() or "_unnamed"


class _InsertPoint:
    """Sets the insert point of a graph. As a context manager, an object of this class restores the
    former insert point at the end of the block.
    """

    def __init__(self, graph: Graph, insert: Callable[[Node], None]) -> None:
        self._graph, self._before = graph, graph._insert
        graph._insert = insert

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None:
        self._graph._insert = self._before


class _Nodes:
    """The steps of a graph, with iteration in both directions and a length."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[Node]:
        return walk(self._graph._root)

    def __reversed__(self) -> Iterator[Node]:
        return walk(self._graph._root, backward=True)


explain_missing(__name__)

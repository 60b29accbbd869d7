"""Graph nodes: adding, moving, replacing and erasing them."""

from __future__ import annotations

import operator
from typing import Any

import pytest

import fastdist as fd
from fastdist import fx, nn

X = fd.tensor([1.0, -2.0])


def made() -> tuple[fx.Graph, dict[str, fx.Node]]:
    """Return a graph of relu(x) * 2 + y, and its nodes by name."""
    graph = fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y", default_value=1.0)
    relu = graph.call_function(fd.relu, (x,))
    mul = graph.call_method("mul", (relu, 2))
    graph.output(graph.call_function(operator.add, (mul, y)))
    return graph, {node.name: node for node in graph.nodes}


def test_a_graph_is_built_by_hand() -> None:
    graph, steps = made()
    module = fx.GraphModule({}, graph)
    assert module(X).tolist() == [3.0, 1.0] and module(X, X).tolist() == [3.0, -2.0]
    assert (
        list(steps)
        == ["x", "y", "relu", "mul", "add", "output"]
        == [node.name for node in graph.nodes]
    )
    assert steps["relu"].all_input_nodes == [steps["x"]]
    assert list(steps["relu"].users) == [steps["mul"]]
    assert (steps["x"].next, steps["y"].prev) == (steps["y"], steps["x"]) and len(graph.nodes) == 6
    assert graph.output_node() is steps["output"] and steps["relu"] < steps["mul"]
    assert graph.find_nodes(op="call_function", target=fd.relu) == [steps["relu"]]


def test_a_step_is_replaced_and_erased() -> None:
    graph, steps = made()
    module = fx.GraphModule({}, graph)
    with module.graph.inserting_after(steps["relu"]):
        new = module.graph.call_function(fd.neg, (steps["x"],))
    assert steps["relu"].replace_all_uses_with(new) == [steps["mul"]]
    with pytest.raises(RuntimeError, match="Tried to erase Node neg but it still had 1 users"):
        graph.erase_node(new)
    graph.erase_node(steps["relu"])
    module.recompile()
    assert module(X, 0.0).tolist() == [-2.0, 4.0]
    assert "relu" not in module.code and not steps["x"].users.keys() - {new}


def test_arguments_change_with_their_users() -> None:
    _, steps = made()
    steps["mul"].update_arg(1, steps["y"])
    assert list(steps["y"].users) == [steps["add"], steps["mul"]]
    steps["mul"].args = (steps["relu"], 3)
    steps["mul"].kwargs = {"out": None}
    assert list(steps["y"].users) == [steps["add"]]
    steps["mul"].update_kwarg("out", steps["x"])
    assert steps["mul"] in steps["x"].users
    steps["mul"].insert_arg(0, steps["x"])
    steps["mul"].replace_input_with(steps["x"], steps["y"])
    assert steps["mul"].args == (steps["y"], steps["relu"], 3)
    with pytest.raises(NotImplementedError, match="does not support mutation"):
        fx.Graph().call_function(sum, ([1, 2],)).args[0].append(3)


def test_order_and_paths_are_checked() -> None:
    graph, steps = made()
    graph.lint()
    steps["mul"].prepend(steps["add"])
    with pytest.raises(RuntimeError, match="Argument 'mul' of Node 'add' was used before it has"):
        graph.lint()
    module = fx.GraphModule({"a": nn.ReLU()}, fx.Graph())
    module.graph.call_module("b")
    with pytest.raises(RuntimeError, match="references nonexistent attribute b"):
        module.graph.lint()
    other = fx.Graph()
    other.get_attr("a")
    with pytest.raises(RuntimeError, match="target a but that target was not provided"):
        fx.GraphModule({}, other)


def test_dead_steps_go_and_those_with_effects_stay() -> None:
    graph, steps = made()
    with graph.inserting_before(steps["output"]):
        graph.call_function(fd.sin, (graph.call_method("cos", (steps["x"],)),))
        graph.call_method("zero_", (steps["y"],))
    assert graph.eliminate_dead_code() and not graph.eliminate_dead_code()
    assert [node.name for node in graph.nodes][-2:] == ["zero_", "output"]


def test_steps_are_added_at_a_place_in_a_block_and_for_good() -> None:
    graph, steps = made()
    with graph.inserting_after(steps["relu"]):
        graph.call_method("sin", (steps["relu"],))
        graph.call_method("cos", (steps["relu"],))
    graph.inserting_before(steps["x"])
    graph.placeholder("first")
    graph.placeholder("second")
    names = [node.name for node in graph.nodes]
    assert names == ["first", "second", "x", "y", "relu", "cos", "sin", "mul", "add", "output"]


def test_steps_are_copied_into_another_graph() -> None:
    graph, steps = made()
    other, seen = fx.Graph(), {}
    other.output(other.graph_copy(graph, seen))
    assert fx.GraphModule({}, other)(X).tolist() == [3.0, 1.0]
    assert seen[steps["mul"]].graph is other


def test_proxies_add_steps_to_a_graph() -> None:
    graph = fx.Graph()
    x = fx.Proxy(graph.placeholder("x"))
    out = fd.einsum("i,i->", (x, x)) + x.new_zeros(1)
    graph.output(out.node)
    assert [node.args for node in graph.nodes][1] == ("i,i->", x.node, x.node)
    assert fx.GraphModule(nn.Module(), graph)(X).tolist() == [5.0]
    with pytest.raises(RuntimeError, match="multiple different tracers"):
        fd.add(x, fx.Proxy(fx.Graph().placeholder("y")))


class Own(fx.GraphModule):
    def __init__(self) -> None:
        super().__init__(self, fx.Graph())
        x = fx.Proxy(self.graph.placeholder("x"))
        self.graph.output((x + 1).node)
        self.recompile()


def test_a_subclass_builds_its_own_graph() -> None:
    assert Own()(X).tolist() == [2.0, -1.0] and isinstance(Own(), Own)


def test_submodules_are_added_and_removed() -> None:
    module: Any = fx.GraphModule({"a.b": nn.ReLU(), "c": nn.Tanh()}, fx.Graph())
    assert module.add_submodule("a.b", nn.ReLU()) and module.add_submodule("c", nn.Tanh())
    module.graph.output(module.graph.call_module("c", (module.graph.placeholder("x"),)))
    module.delete_all_unused_submodules()
    assert [name for name, _ in module.named_modules()] == ["", "c"]
    assert module.delete_submodule("c") and not module.delete_submodule("c")
    assert "def forward(self)" in module.print_readable(print_output=False)


def test_a_body_is_changed_as_it_is_written() -> None:
    graph, _ = made()
    module = fx.GraphModule({}, graph)
    with module.graph.on_generate_code(lambda before: lambda lines: ["x = x * 0\n", *lines]):
        module.recompile()
        assert module(X).tolist() == [1.0, 1.0]
    module.recompile()
    assert module(X).tolist() == [3.0, 1.0]

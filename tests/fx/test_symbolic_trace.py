"""Graphs of modules and functions: tracing, generated code and changes."""

from __future__ import annotations

import copy
import math
import operator
import pickle
from math import sqrt
from typing import Any

import pytest

import fastdist as fd
import fastdist.nn.functional as F
from fastdist import fx, nn
from fastdist.fx._symbolic_trace import PH, Tracer

X = fd.tensor([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]])


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.scale = nn.Parameter(fd.full((4,), 2.0))
        self.register_buffer("shift", fd.arange(4.0))
        self.rest = nn.Sequential(nn.ReLU(), nn.Linear(2, 2))

    def forward(self, x: Any, factor: Any = 2.0, *, extra: Any = None) -> Any:
        y = self.first(x) * self.scale + self.shift
        left, right = fd.cat([y, F.relu(-y)], dim=-1).chunk(2, -1)
        z = self.rest(left[:, 2:]) + right[:, :2] / factor
        z += 1
        return {"sum": z.sum(-1, keepdim=True), "rows": z.shape[0], "more": fd.ones(2) + z.T[:, :1]}


def same(found: Any, wanted: Any) -> bool:
    """Return whether the results of two models are equal."""
    return found["rows"] == wanted["rows"] and all(
        fd.equal(found[name], wanted[name]) for name in ("sum", "more")
    )


def test_a_module_becomes_a_graph_with_the_same_results() -> None:
    model = Model()
    traced = fx.symbolic_trace(model)
    assert same(traced(X), model(X)) and same(traced(X, factor=4.0), model(X, 4.0))
    traced.graph.lint()
    ops = [(node.op, str(node.target)) for node in traced.graph.nodes]
    assert ops[:3] == [("placeholder", "x"), ("placeholder", "factor"), ("placeholder", "extra")]
    assert {("call_module", "rest.1"), ("get_attr", "scale"), ("call_method", "sum")} <= set(ops)
    assert traced.scale is model.scale and traced.get_submodule("rest.1") is model.rest[1]
    traced(X)["sum"].sum().backward()
    assert model.first.weight.grad is not None


def test_the_code_reads_as_pytorchs() -> None:
    def function(x: Any, y: Any) -> Any:
        z = fd.relu(x) @ y
        return z.view(-1)[1] + sqrt(x) - 2**y, math.floor(y)

    assert fx.symbolic_trace(function).code.split("\n", 3)[3] == (
        "def forward(self, x, y):\n"
        "    relu = torch.relu(x)\n"
        "    matmul = relu @ y;  relu = None\n"
        "    view = matmul.view(-1);  matmul = None\n"
        "    getitem = view[1];  view = None\n"
        "    sqrt = math.sqrt(x);  x = None\n"
        "    add = getitem + sqrt;  getitem = sqrt = None\n"
        "    pow_1 = 2 ** y\n"
        "    sub = add - pow_1;  add = pow_1 = None\n"
        "    floor = math.floor(y);  y = None\n"
        "    return (sub, floor)\n"
    )


def test_a_graph_is_printed_step_by_step(capsys: pytest.CaptureFixture[str]) -> None:
    graph = fx.symbolic_trace(lambda x, k=3: x.clamp(min=0).add(k)).graph
    assert str(graph) == (
        "graph():\n"
        "    %x : [num_users=1] = placeholder[target=x]\n"
        "    %k : [num_users=1] = placeholder[target=k](default=3)\n"
        "    %clamp : [num_users=1] = call_method[target=clamp](args = (%x,), kwargs = {min: 0})\n"
        "    %add : [num_users=1] = call_method[target=add](args = (%clamp, %k), kwargs = {})\n"
        "    return add"
    )
    graph.print_tabular()
    assert capsys.readouterr().out.splitlines()[2].split() == ["placeholder", "x", "x", "()", "{}"]


def test_control_flow_on_numbers_is_refused() -> None:
    def branches(x: Any) -> Any:
        return x if x.sum() > 0 else -x

    with pytest.raises(fx.TraceError, match="cannot be used as inputs to control flow"):
        fx.symbolic_trace(branches)
    with pytest.raises(fx.TraceError, match="cannot be iterated"):
        fx.symbolic_trace(lambda x: [row + 1 for row in x])
    with pytest.raises(RuntimeError, match="'len' is not supported"):
        fx.symbolic_trace(lambda x: len(x) + 1)
    with pytest.raises(AssertionError, match="Expected FunctionType"):
        fx.symbolic_trace(len)
    with pytest.raises(NotImplementedError, match="argument of type: <class 'object'>"):
        fx.symbolic_trace(lambda x: fd.add(x, object()))


def test_concrete_arguments_choose_a_branch_and_are_checked() -> None:
    def chosen(x: Any, flag: Any, other: Any) -> Any:
        return x + other if flag else x - other

    traced = fx.symbolic_trace(chosen, {"flag": True, "other": PH})
    assert fd.equal(traced(X, True, X), X + X)
    with pytest.raises(AssertionError, match="flag has been specialized to have value True"):
        traced(X, False, X)


def test_an_assertion_is_a_step() -> None:
    def checked(x: Any) -> Any:
        fd._assert(x.shape[0] == 2, "two rows")
        return x * 2

    traced = fx.symbolic_trace(checked)
    assert fd.equal(traced(X), X * 2)
    with pytest.raises(AssertionError, match="two rows"):
        traced(X[:1])


def test_star_arguments_are_inputs() -> None:
    def many(x: Any, *rest: Any, **named: Any) -> Any:
        return x + rest[0] * named["by"]

    traced = fx.symbolic_trace(many)
    assert [node.target for node in traced.graph.nodes][:3] == ["x", "*rest", "**named"]
    assert fd.equal(traced(X, X, by=3.0), X * 4)


def test_a_leaf_is_what_the_tracer_says() -> None:
    class Whole(Tracer):
        def is_leaf_module(self, m: nn.Module, path: str) -> bool:
            return path == "rest"

    model = Model()
    graph = Whole().trace(model)
    called = [node.target for node in graph.nodes if node.op == "call_module"]
    assert called == ["rest"] and graph._tracer_cls is Whole
    assert same(fx.GraphModule(model, graph)(X), model(X))


def test_parameters_have_shapes_while_they_are_traced() -> None:
    class Wide(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(fd.ones(3))

        def forward(self, x: Any) -> Any:
            return x * self.weight if self.weight.shape[0] == 3 and self.weight.ndim == 1 else x

    graph = Tracer(param_shapes_constant=True).trace(Wide())
    assert [node.op for node in graph.nodes].count("get_attr") == 1


def test_module_and_globals_are_as_before_after_a_trace() -> None:
    before = nn.Module.__call__, nn.Module.__getattr__, sqrt
    with pytest.raises(ZeroDivisionError):
        fx.symbolic_trace(lambda x: x / (1 // 0))
    assert (nn.Module.__call__, nn.Module.__getattr__, sqrt) == before
    assert "__getattr__" not in vars(nn.Module) and sqrt(4.0) == 2.0


def kept(x: Any) -> Any:
    return x * 2 if x.sum() > 0 else x


fx.wrap("kept")


def test_a_wrapped_function_stays_one_step() -> None:
    traced = fx.symbolic_trace(lambda x: kept(x) + 1)
    (step,) = [node for node in traced.graph.nodes if node.op == "call_function"][:1]
    assert step.target is kept and fd.equal(traced(X), X * 2 + 1)
    with pytest.raises(NotImplementedError, match="top level of a module"):
        fx.wrap(kept)
    with pytest.raises(RuntimeError, match="Must be either a callable or string name"):
        fx.wrap(3)


def test_a_graph_module_is_copied_and_pickled() -> None:
    traced = fx.symbolic_trace(Model())
    wanted = traced(X)
    for made in (copy.deepcopy(traced), pickle.loads(pickle.dumps(traced)), copy.copy(traced)):
        assert isinstance(made, fx.GraphModule) and made.code == traced.code
        assert same(made(X), wanted)
    assert (
        copy.copy(traced).scale is traced.scale and copy.deepcopy(traced).scale is not traced.scale
    )
    assert operator.add in {node.target for node in copy.deepcopy(traced.graph).nodes}

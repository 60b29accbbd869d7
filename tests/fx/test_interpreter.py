"""Running a graph node by node, and transforming it into another graph."""

from __future__ import annotations

from typing import Any

import pytest

import fastdist as fd
from fastdist import fx, nn

X = fd.tensor([1.0, -2.0])


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.act = nn.ReLU()
        self.weight = nn.Parameter(fd.tensor(3.0))

    def forward(self, x: Any, y: Any = 2.0) -> Any:
        return fd.sigmoid(self.act(x) * self.weight).add(y)


def test_steps_are_run_one_by_one() -> None:
    traced, model = fx.symbolic_trace(Model()), Model()
    seen = []

    class Listing(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            seen.append(n.op)
            return super().run_node(n)

    run = Listing(traced)
    assert fd.equal(run.run(X), model(X)) and fd.equal(run.run(X, 5.0), model(X, 5.0))
    assert seen[:3] == ["placeholder", "placeholder", "call_module"]
    assert [node.name for node in run.env] == ["output"]
    assert len(fx.Interpreter(traced, garbage_collect_values=False).graph.nodes) == 8
    given = [X]
    assert fd.equal(run.boxed_run(given), model(X)) and not given
    with pytest.raises(RuntimeError, match="Expected positional argument for parameter x"):
        run.run()


def test_an_error_names_the_step() -> None:
    traced = fx.symbolic_trace(lambda x, y: fd.matmul(x + 1, y))
    with pytest.raises(RuntimeError) as caught:
        fx.Interpreter(traced).run(fd.ones(2, 3), fd.ones(2, 3))
    assert "While executing %matmul" in caught.value.__notes__[0]


def test_a_transformer_makes_a_new_graph() -> None:
    class Swap(fx.Transformer):
        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            return super().call_function(fd.tanh if target is fd.sigmoid else target, args, kwargs)

        def call_method(self, target: Any, args: Any, kwargs: Any) -> Any:
            return super().call_method("sub" if target == "add" else target, args, kwargs)

    traced = fx.symbolic_trace(Model())
    made = Swap(traced).transform()
    made.graph.lint()
    assert fd.equal(made(X), fd.tanh(fd.relu(X) * 3) - 2) and fd.equal(traced(X), Model()(X))

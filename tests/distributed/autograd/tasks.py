"""Graphs and tasks of one worker, for tests of its part of a pass."""

from __future__ import annotations

from typing import Any

import fastdist
from fastdist import Tensor
from fastdist.distributed.autograd.context import DistAutogradContext
from fastdist.distributed.autograd.dependencies import compute_dependencies
from fastdist.distributed.autograd.engine import dist_engine
from fastdist.engine.graph_task import GraphRoot, GraphTask
from fastdist.graph.node import Node, next_sequence_number


def leaf(*values: float) -> Tensor:
    return fastdist.tensor(values or (1.0, 2.0), dtype=fastdist.float64, requires_grad=True)


def task_of(context: DistAutogradContext, *roots: Tensor, retain: bool = False) -> GraphTask:
    root = GraphRoot(tuple([root.edge for root in roots]), (), next_sequence_number())
    return compute_dependencies(context, root, retain, dist_engine().global_cpu_thread.queue)


class End(Node):
    """A Node at which a graph ends, and that is neither a leaf nor a receive."""

    def __init__(self, layout: Any) -> None:
        self.seq, self.edges, self.hooks, self.facts = next_sequence_number(), (), None, layout


class OnlyFirst(fastdist.autograd.Function):
    """Gives no gradient to its second input."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        return g * 2, None

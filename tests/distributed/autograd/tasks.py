"""Graphs and tasks of one worker, for tests of this worker's part of a pass."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import fastdist
from fastdist import Tensor
from fastdist.distributed.autograd.backward_pass import BackwardPass, DistGraphTask
from fastdist.distributed.autograd.context import DistAutogradContext
from fastdist.distributed.autograd.dependencies import compute_dependencies
from fastdist.distributed.autograd.engine import dist_engine
from fastdist.distributed.autograd.pass_metadata import Terms
from fastdist.engine.graph_task import GraphRoot, running
from fastdist.graph.node import Node, next_sequence_number


def leaf(*values: float) -> Tensor:
    return fastdist.tensor(values or (1.0, 2.0), dtype=fastdist.float64, requires_grad=True)


_pass_ids = itertools.count(1000)


def task_of(context: DistAutogradContext, *roots: Tensor, retain: bool = False) -> DistGraphTask:
    """Return the task of a new pass that is not registered in the context yet."""
    root = GraphRoot(tuple([root._edge for root in roots]), (), next_sequence_number())
    part = BackwardPass(Terms(context.id, next(_pass_ids), retain))
    sends = [*context._send_functions().values()]
    return compute_dependencies(context, part, root, sends, dist_engine().global_cpu_thread.queue)


def begin(context: DistAutogradContext, *roots: Tensor, retain: bool = False) -> BackwardPass:
    """Register a new pass in the context without running it."""
    task = task_of(context, *roots, retain=retain)
    sends = context._send_functions()
    awaited = {message_id: send.to_worker for message_id, send in sends.items()}
    assert context.set_graph_task(task, awaited, context.number_of_receives())
    return task.part


@contextmanager
def inside(part: BackwardPass) -> Iterator[None]:
    """Run the block as if this thread ran a Node of a pass."""
    before, running.graph_task = running.graph_task, part.task
    try:
        yield
    finally:
        running.graph_task = before


class End(Node):
    """A Node without next edges that is neither a leaf nor a receive."""

    def __init__(self, layout: Any) -> None:
        self.seq, self.edges, self.hooks, self.output_layout = (
            next_sequence_number(),
            (),
            None,
            layout,
        )


class OnlyFirst(fastdist.autograd.Function):
    """Returns no gradient for its second input."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        return g * 2, None

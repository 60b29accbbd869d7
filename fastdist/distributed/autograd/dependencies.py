"""Which Nodes of this worker a distributed pass must run, and what it waits for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ...core.errors import GraphError
from ...engine.graph_task import ExecInfo, GraphRoot, GraphTask
from ...engine.hooks import run_prehooks
from ...engine.ready_queue import ReadyQueue
from ...graph.accumulate_grad import AccumulateGrad
from ...graph.node import Node, next_sequence_number
from ...tensor.tensor import Tensor
from .context import DistAutogradContext
from .message_autograd import context_guard
from .recv_rpc_backward import RecvRpcBackward

# Note [The dummy root]
# On a worker the pass starts in several places: at the root (if this worker is it) and at every
# send of the context, each when its gradients come. The graph task is set up as if one Node stood
# above all of them, so that one walk finds what is needed. In the fast mode every send is taken to
# take part: each counts as one outstanding task from the beginning, so that the local pass cannot
# look finished while gradients are still on their way.


class DistGraphTask(GraphTask):
    """One worker's part of a distributed pass."""

    context_id = -1


def compute_dependencies(
    context: DistAutogradContext, root: GraphRoot, retain_graph: bool, cpu_ready_queue: ReadyQueue
) -> DistGraphTask:
    """Return a graph task of everything below root and the context's sends.

    Raises  GraphError if the graph ends in something that is neither a leaf nor came by RPC
    Source  PyTorch, torch/csrc/distributed/autograd/engine/dist_engine.cpp, computeDependencies
    """
    sends = list(context._send_functions().values())
    task = DistGraphTask(
        keep_graph=retain_graph,
        create_graph=False,
        depth=0,
        cpu_ready_queue=cpu_ready_queue,
        graph_roots=root.edges,
        exit_on_error=True,
    )
    # No waiting caller is to be woken: whoever completes the task goes on from there.
    task.owner_queue = None
    task.compute_dependencies([root, *sends])
    task.outstanding = len(sends)
    starts = {root, *sends}
    leaves, receives = _sinks(node for node in task.nodes_in_graph if node not in starts)
    for receive in receives:
        # Not captured, but run: it sends its gradients away.
        needed = task.exec_info[receive] = ExecInfo()
        needed.needed = True
    dummy = GraphRoot((root, *sends), (), next_sequence_number())
    task.init_to_execute(dummy, [(leaf, 0) for leaf in leaves], accumulate=False)
    for leaf in leaves:
        captures = task.exec_info[leaf].captures
        assert captures is not None
        captures[0].hooks.append(_accumulate_in(context, leaf))
    for start in starts:
        task.exec_info[start].needed = True
    context_id = task.context_id = context.id
    task.thread_state = lambda: context_guard(context_id)
    return task


def _sinks(nodes: Iterable[Node]) -> tuple[list[AccumulateGrad], list[Node]]:
    leaves: list[AccumulateGrad] = []
    receives: list[Node] = []
    for node in nodes:
        if node.edges:
            continue
        if node.is_accumulate:
            assert isinstance(node, AccumulateGrad)
            leaves.append(node)
        elif node.__class__ is RecvRpcBackward:
            receives.append(node)
        else:
            raise GraphError(
                f"{node.name()} ends the graph; a distributed pass ends in leaves and in tensors "
                "that came by RPC"
            )
    return leaves, receives


def _accumulate_in(
    context: DistAutogradContext, accumulator: AccumulateGrad
) -> Callable[[Tensor | None, bool], Tensor | None]:
    def hook(grad: Tensor | None, mine: bool) -> Tensor | None:
        # The tensor's hooks have run: the engine calls them before captures. The Node's own are for
        # whoever does its work, which here is the context.
        hooks: Any = accumulator.hooks
        if hooks is not None and hooks.pre:
            (grad,) = run_prehooks(accumulator, (grad,))
        if grad is not None:
            context.accumulate_grad(accumulator, grad, mine)
        if hooks is not None and hooks.post:
            for post in tuple(hooks.post.values()):
                post((), (grad,))
        return grad

    return hook

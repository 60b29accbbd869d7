"""Which Nodes of this worker a distributed pass must run, and what it waits for."""

from __future__ import annotations

from typing import Any

from ...core.errors import GraphError
from ...engine.graph_task import ExecInfo, GraphRoot, GraphTask
from ...engine.ready_queue import ReadyQueue
from ...graph.node import Node, next_sequence_number, node_of
from ...tensor.tensor import Tensor
from .context import DistAutogradContext
from .message_autograd import context_guard
from .recv_rpc_backward import RecvRpcBackward

# Note [The dummy root]
# On a worker the pass starts in several places: at the root (if this worker is it) and at every send of the context,
# each when its gradients come. The graph task is set up as if one Node stood above all of them, so that one walk finds
# what is needed. In the fast mode every send is taken to take part: each counts as one outstanding task from the
# beginning, so that the local pass cannot look finished while gradients are still on their way.


def compute_dependencies(
    context: DistAutogradContext, root: GraphRoot, retain_graph: bool, cpu_ready_queue: ReadyQueue
) -> GraphTask:
    """Return a graph task of everything below root and the context's sends, owned by the context.

    Source  PyTorch, torch/csrc/distributed/autograd/engine/dist_engine.cpp, computeDependencies
    """
    sends = list(context._send_functions().values())
    task = GraphTask(
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
    task.add_outstanding(len(sends))
    sinks = [node for node in task.nodes_in_graph if not node.edges and node is not root]
    sinks = [node for node in sinks if node not in sends]
    _require_known_sinks(sinks)
    dummy = GraphRoot((root, *sends), (), next_sequence_number())
    task.init_to_execute(dummy, [(node, 0) for node in sinks], accumulate=False)
    _hook_captures(context, task, sinks)
    _mark_what_leads_to(task, sinks, dummy)
    context_id = context.id
    task.thread_state = lambda: context_guard(context_id)
    context.set_graph_task(task)
    return task


def _require_known_sinks(sinks: list[Node]) -> None:
    for node in sinks:
        if not node.is_accumulate and node.__class__ is not RecvRpcBackward:
            raise GraphError(
                f"{node.name()} ends the graph; a distributed pass ends in leaves and in tensors that came by RPC"
            )


def _hook_captures(context: DistAutogradContext, task: GraphTask, sinks: list[Node]) -> None:
    for node in sinks:
        info = task.exec_info[node]
        if node.is_accumulate:
            assert info.captures is not None
            info.captures[0].hooks.append(_accumulate_in(context, node))
        else:
            # Captured for the count, and run: it sends its gradients away.
            info.needed = True


def _accumulate_in(context: DistAutogradContext, accumulator: Any) -> Any:
    def hook(grad: Tensor | None, mine: bool) -> Tensor | None:
        # The leaf's own hooks have run: the engine calls them before captures.
        if grad is not None:
            context.accumulate_grad(accumulator, grad, mine)
        if accumulator.hooks is not None and accumulator.hooks.post:
            for post in tuple(accumulator.hooks.post.values()):
                post((), (grad,))
        return grad

    return hook


def _mark_what_leads_to(task: GraphTask, sinks: list[Node], dummy: Node) -> None:
    """Mark again: receives became needed after the first walk, which counted them as captures."""
    for node in sinks:
        task.exec_info.setdefault(node, ExecInfo())
    assert task.exec_info[dummy].needed or not sinks
    for edge in dummy.edges:
        task.exec_info[node_of(edge)].needed = True

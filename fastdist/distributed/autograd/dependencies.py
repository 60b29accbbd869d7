"""Finds which Nodes of this worker a distributed pass must run, and for which sends it waits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...core.errors import GraphError
from ...engine.engine import current_graph_task
from ...engine.graph_task import Capture, ExecInfo, GraphRoot
from ...engine.hooks import run_prehooks
from ...engine.ready_queue import ReadyQueue
from ...graph.accumulate_grad import AccumulateGrad, context_hooks
from ...graph.modes import modes, tls
from ...graph.node import Edge, Node
from ...tensor.tensor import Tensor
from .backward_pass import BackwardPass, DistGraphTask
from .container import current_context_id
from .context import DistAutogradContext
from .message_autograd import context_guard
from .recv_rpc_backward import RecvRpcBackward
from .send_rpc_backward import SendRpcBackward

# Note [The dummy root]
# On a worker a pass starts in several places: at the root, if the root is on this worker, and at
# every send of the context, when the send's gradients arrive. The graph task is set up as if one
# Node were the parent of all these starts, so that one walk finds all Nodes to run. In the fast
# mode every send is assumed to take part. Each send counts as one outstanding task from the
# beginning, so that the local pass does not end while gradients are still on their way.


def compute_dependencies(
    context: DistAutogradContext,
    part: BackwardPass,
    root: GraphRoot,
    sends: Sequence[SendRpcBackward],
    cpu_ready_queue: ReadyQueue,
) -> DistGraphTask:
    """Return the graph task of a pass, for everything below root and the context's sends.

    Raises  GraphError if the graph ends in a Node that is neither a leaf nor a receive
    Source  PyTorch, torch/csrc/distributed/autograd/engine/dist_engine.cpp, computeDependencies
    """
    context_id = context.id
    task = DistGraphTask(
        part,
        root,
        cpu_ready_queue,
        lambda: None if current_context_id() == context_id else context_guard(context_id),
    )
    task.outstanding = len(sends)
    _walk(context, task, [root, *sends])
    return task


def _walk(context: DistAutogradContext, task: DistGraphTask, starts: list[Node]) -> None:
    """Count dependencies, find the sinks (leaves and receives), and mark the Nodes that lead to
    sinks, children first.

    This combines two walks of GraphTask in one, because the walk takes most of a tiny pass's time.
    """
    dependencies, exec_info = task.dependencies, task.exec_info
    entered: set[Node] = set()
    for start in starts:
        if start in entered:
            continue
        entered.add(start)
        stack: list[tuple[Node, Any]] = [(start, iter(start.edges))]
        while stack:
            node, edges = stack[-1]
            for edge in edges:
                if edge is None:
                    continue
                child = edge.node if edge.__class__ is Edge else edge
                dependencies[child] = dependencies.get(child, 0) + 1
                if child not in entered:
                    entered.add(child)
                    stack.append((child, iter(child.edges)))
                    break
            else:
                stack.pop()
                info = exec_info[node] = ExecInfo()
                if node.edges:
                    for edge in node.edges:
                        if edge is None:
                            continue
                        below = exec_info[edge.node if edge.__class__ is Edge else edge]
                        if below.needed or below.captures:
                            info.needed = True
                            break
                else:
                    _take_sink(context, task, node, info)
    for start in starts:
        # Starts run even if nothing depends on them.
        exec_info[start].needed, exec_info[start].captures = True, None
    task.nodes_in_graph = entered


def _take_sink(
    context: DistAutogradContext, task: DistGraphTask, node: Node, info: ExecInfo
) -> None:
    if node.is_accumulate:
        assert isinstance(node, AccumulateGrad)
        capture = Capture(0, len(task.captured_vars))
        capture.hooks.append(_accumulate_in(context, node, to_grad=task.part.terms.to_grad))
        info.captures = [capture]
        task.captured_vars.append(None)
    elif node.__class__ is RecvRpcBackward:
        # A receive must run, and its gradients are not captured, because it sends them away.
        info.needed = True
    elif not isinstance(node, GraphRoot | SendRpcBackward):
        raise GraphError(
            f"{node.name()} ends the graph; a distributed pass ends in leaves and in tensors "
            "that arrived by RPC"
        )


def _accumulate_in(
    context: DistAutogradContext, accumulator: AccumulateGrad, *, to_grad: bool
) -> Callable[[Tensor | None, bool], Tensor | None]:
    observer = None if to_grad or not context_hooks else context_hooks.get(accumulator)

    def hook(grad: Tensor | None, mine: bool) -> Tensor | None:
        # The tensor's hooks have run: the engine calls them before captures. The AccumulateGrad's
        # own hooks must run here, because the context accumulates in place of the AccumulateGrad.
        hooks: Any = accumulator.hooks
        if hooks is not None and hooks.pre:
            (grad,) = run_prehooks(accumulator, (grad,))
        if grad is not None:
            if to_grad:
                # `.grad` gets a copy first: the context may keep the gradient itself and change it.
                _accumulate_to_grad(accumulator, grad)
            context.accumulate_grad(accumulator, grad, mine)
            if observer is not None:
                observer(context)
        if hooks is not None and hooks.post:
            for post in tuple(hooks.post.values()):
                post((), (grad,))
        return grad

    return hook


def _accumulate_to_grad(accumulator: AccumulateGrad, grad: Tensor) -> None:
    # The task is looked up here, because a hook that referred to its task would form a reference
    # cycle.
    task = current_graph_task()
    stream = task.streams.get(accumulator.output_layout.device) if task is not None else None
    if tls.grad or modes.special:
        accumulator.accumulate_recorded(grad, stream)
    else:
        accumulator.accumulate(grad._array, False, stream)

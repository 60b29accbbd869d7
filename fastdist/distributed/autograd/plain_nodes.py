"""Runs plain Nodes: Nodes on the CPU without recording, hooks or observers."""

# Note [Plain Nodes]
# The engine's Python code takes most of the time of a small distributed pass: Engine._evaluate
# checks each Node, in a dozen functions, for hooks, streams, histories and observers. A Node
# without any of these runs here, in one function, with the same steps in the same order. Functions
# of the engine capture gradients, and add several gradients of one tensor. A round trip with 8x8
# tensors in `bench distributed_backward` makes 144 Python calls instead of 1,360, on both workers
# together.

# Note [Gradients that others wait for]
# Tensors from another worker are usually inputs of a layer. The layer's Node computes two kinds of
# gradients. The other worker continues with the gradients of the received tensors. No worker waits
# for the gradients of the layer's weights. If the layer's result is large, the Node runs in two
# parts. The gradients of the received tensors are computed and sent first. The gradients of the
# weights are computed after all other work of this worker.

from __future__ import annotations

from typing import Any

from ...dispatch.node_writer import OpNode
from ...engine.engine import Engine, _arrive, _device_of_array
from ...engine.input_buffer import InputBuffer
from ...graph.anomaly import anomaly
from ...graph.call_node import kind_of
from ...graph.modes import modes
from ...graph.node import Edge, Node, node_of
from ...tensor.tensor import layout_near, layout_of, wrap
from .backward_pass import DistGraphTask
from .outbox import LIGHT
from .own_queue import OwnQueue
from .recv_rpc_backward import RecvRpcBackward


def is_plain(task: DistGraphTask) -> bool:
    """Return whether `run_plain` may run the Nodes of a pass."""
    return not (task.streams or task.create_graph)


def run_plain(
    engine: Engine, task: DistGraphTask, node: Node, inputs: InputBuffer, queue: OwnQueue
) -> None:
    """Run one Node of a plain pass, and queue the Nodes that have now received all their gradients.
    If the Node has hooks, or observers are active, the engine runs the Node instead.

    Thread  the thread that owns the queue
    """
    if node.hooks is not None or modes.special or anomaly.enabled:
        engine._evaluate(task, node, inputs, queue)
        return
    values, exec_info = inputs.values, task.exec_info
    info = exec_info.get(node)
    if info is None:
        return
    if info.captures:
        grads = tuple(values)
        for capture in info.captures:
            engine._capture(task, capture, grads, inputs.owns(capture.input_idx))
    if not info.needed:  # a leaf: its gradient was captured above
        return
    raw = [None if g is None else g._array for g in values]
    if issubclass(kind_of(node), OpNode) and (parts := _parts(node)):
        if not task.keep_graph:
            node.release()
        node, rest = parts
        exec_info[rest] = info
        queue.put(rest, inputs)
    if node.num_outputs == 1:
        given = raw[0] if raw else None
        if raw and given is None and not node.accepts_undefined:
            results = (None,) * len(node.edges)
        else:
            results = node.apply(given, task.keep_graph)
    else:
        results = node.apply(tuple(raw), task.keep_graph)
    fresh = node.fresh
    for edge, array in zip(node.edges, results, strict=True):
        if edge is None:
            continue
        child, place = (edge.node, edge.output_nr) if edge.__class__ is Edge else (edge, 0)
        wanted = exec_info.get(child)
        if wanted is None or not (wanted.needed or wanted.captures):
            continue
        g = None
        if array is not None:
            made = child.output_layout
            layout = made[place] if made.__class__ is tuple else made
            g = wrap(
                array,
                layout_of(array, _device_of_array(node, array))
                if layout is None
                else layout_near(array, layout),
            )
        buffer = _arrive(task, edge, child, g, fresh)
        if buffer is not None:
            queue.put(child, buffer)


def _parts(node: Any) -> tuple[OpNode, OpNode] | None:
    """Return two copies of a Node: the first computes the gradients that other workers wait for,
    the second computes the Node's other gradients. Return None if one of the two kinds is missing,
    or if the Node has several results or a small one. See Note [Gradients that others wait for].
    """
    if node.op.several or node.output_layout.numel <= LIGHT:
        return None
    leaves = [node_of(edge).__class__ is RecvRpcBackward for edge in node.edges]
    if True not in leaves or node.route is None or node.route.gradients is None:
        return None
    pairs = [*zip(node.edges, leaves, strict=True)]
    away = node.along(tuple([edge if leaves else None for edge, leaves in pairs]))
    here = node.along(tuple([None if leaves else edge for edge, leaves in pairs]))
    here.seq = 0  # runs after all other Nodes
    return (away, here) if any(edge is not None for edge in here.edges) else None

"""Sets the attributes of every new Node: sequence number, edges, stream, traceback of the call."""

from __future__ import annotations

from typing import Any

from ..core.device import CPU
from .anomaly import note_forward
from .forward_streams import device_of, note_stream
from .modes import modes
from .node import Node, next_sequence_number


def begin_node(node: Node, edges: tuple[Any, ...], layout: Any) -> None:
    """Initialize `node` for the current call. `layout` is the layout of the call's output, or a
    tuple of layouts for several outputs.

    Note    the short paths contain this code inline, for CPU tensors while no tracer is open
    """
    node.seq = next_sequence_number()
    node.edges = edges
    node.hooks = None
    node.output_layout = layout
    if modes.tracers:
        note_forward(node)
    if layout is None or layout.__class__ is tuple or layout.device is not CPU:
        device = device_of(node)
        if device is not None:
            note_stream(node, device)

"""The streams on which Nodes of a device were recorded, and on which a pass runs them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..core.device import Device
from ..devices.backend import backend_of
from ..tensor.tensor import Tensor
from .node import Node

# Note [Streams of a pass]
# A Node runs on the stream on which it was recorded. So its saved values are ready, and memory that
# it releases is reused only after it has run. Where a gradient passes from one stream to another,
# the second stream waits for the first. Gradients of leaves are accumulated on the stream that is
# current in the thread that started the pass. Before that, this stream waits for the streams on
# which other passes added gradients to the same leaves. At the end of the pass it waits for all
# other streams of the pass, so that the caller sees the results.


def device_of(node: Node) -> Device | None:
    """Return the device on which a Node runs: the device of its first output that is not on the
    CPU; None if all are on the CPU.
    """
    layout = node.output_layout
    if layout.__class__ is tuple:
        for part in layout:
            if part is not None and part.device.index is not None:
                device: Device = part.device
                return device
        return None
    if layout is None or layout.device.index is None:
        return None
    found: Device = layout.device
    return found


def devices_of(node: Node) -> Iterator[Device]:
    """Yield the devices of a Node's outputs except the CPU, possibly repeated."""
    for part in (
        node.output_layout if node.output_layout.__class__ is tuple else (node.output_layout,)
    ):
        if part is not None and part.device.index is not None:
            yield part.device


def note_stream(node: Node, device: Device) -> None:
    """Store in node the calling thread's current stream of device, on which node is recorded."""
    if device.index is not None:
        node.stream = backend_of(device.type).current_stream(device.index)


def follow(stream: Any, made_on: Any, tensors: Iterable[Tensor]) -> None:
    """Make `stream`, which will use `tensors`, wait for `made_on`, the stream that computes them.
    Nothing happens if `made_on` is None.
    """
    if made_on is None or made_on is stream:
        return
    stream.follow(made_on)
    for tensor in tensors:
        backend_of(tensor._layout.device.type).record_stream(tensor._array, stream)


def hand_over(g: Tensor, stream: Any) -> None:
    """Make `stream` wait for g, which is computed on the calling thread's current stream."""
    device = g._layout.device
    follow(stream, backend_of(device.type).current_stream(device.index), (g,))


def other_streams(streams: dict[Any, Any], nodes: Iterable[Node]) -> list[tuple[Any, Any]]:
    """Return pairs for `after_pass`: the stream on which the pass started on a device, and another
    stream of this device on which Nodes of the pass run.
    """
    pairs: dict[int, tuple[Any, Any]] = {}
    for node in nodes:
        recorded_on = None if node.is_accumulate else getattr(node, "stream", None)
        if recorded_on is not None:
            own = streams.get(device_of(node))
            if own is not None and own is not recorded_on:
                pairs[id(recorded_on)] = (own, recorded_on)
    return list(pairs.values())


def after_pass(pairs: Iterable[tuple[Any, Any]]) -> None:
    """Make the streams on which a pass started wait for the other streams that the pass used."""
    for own, other in pairs:
        own.follow(other)

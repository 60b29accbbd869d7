"""Ops that hand in what they took, while somebody listens to core/time_ranges.py.

A profile lets every op take its general path, where `modes.tracers` is looked at in any case: who
does not listen pays nothing. A function that is made of ops hands in a range around theirs, and
views one of themselves alone; what an op's event is called says event_names.py.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

from ..core.device import CPU
from ..core.memory_meter import memory_meter
from ..core.time_ranges import time_range, time_ranges
from ..graph.modes import tls
from ..graph.node import next_sequence_number, node_of
from ..tensor.memory import root_of
from ..tensor.tensor import Tensor
from .device_work import device_of_operands, work_of
from .event_names import event_of
from .flops import flops_of


class _Within(threading.local):
    # The op whose range was opened, and which has not been entered since.
    op: Any = None


_within: Final = _Within()


def to_be_timed(op: Any) -> bool:
    """Return whether the call of op that begins here is to go through `timed`: not if it comes from
    there.

    Note    called where modes.tracers is not zero
    """
    if not time_ranges.on:
        return False
    if _within.op is op:
        _within.op = None
        return False
    return True


def timed(op: Any, name: str, call: Callable[..., Any], *args: Any) -> Any:
    """Return call(*args), which asks to_be_timed(op) first, and hand in the time that it took; the
    first of args are the op's operands, the second its attributes.
    """
    _within.op = op
    try:
        return told(name, args[0], call, *args)
    finally:
        _within.op = None


def timed_alone(event: str, op: Any, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Return call(*args, **kwargs), which asks to_be_timed(op) first, as told_alone does."""
    _within.op = op
    try:
        return told_alone(event, call, args, kwargs)
    finally:
        _within.op = None


def told_alone(event: str, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Return call(*args, **kwargs), and hand in how long it took and of what shapes, under the name
    of an event: of what computes nothing beside the ops that it calls.
    """
    with time_range(event, "op") as known:
        if time_ranges.wanted.shapes:
            given = (*args, *kwargs.values())
            known.note(shapes=tuple([tuple(getattr(value, "shape", ())) for value in given]))
        return call(*args, **kwargs)


def timed_view(op: Any, call: Callable[..., Any], operands: Any, attributes: Any) -> Any:
    """Return call(operands, attributes), which asks to_be_timed(op) first, and hand in the time
    that it took to look at operands so.
    """
    event = event_of(op.name, operands, attributes)
    before = next_sequence_number()
    _within.op = op
    try:
        with time_range(event, "op", sequence_nr=before + 1 if tls.grad else -1) as known:
            if time_ranges.wanted.shapes:
                shapes = [tuple(getattr(value, "shape", ())) for value in operands]
                known.note(shapes=tuple(shapes))
            result = call(operands, attributes)
            known.note(sequence_nr=_recorded_as(result, before))
            return result
    finally:
        _within.op = None


def told(name: str, operands: Any, call: Callable[..., Any], *args: Any) -> Any:
    """Return call(*args), and hand in the time that it took, and what else is wanted."""
    before = next_sequence_number()
    # A guess until the call is over: other threads record Nodes as well.
    event = event_of(name, operands, args[1] if len(args) > 1 else ())
    known = time_range(event, "op", sequence_nr=before + 1 if tls.grad else -1)
    device, wanted = device_of_operands(operands), time_ranges.wanted
    if device is not CPU:
        known.note(device=str(device))
    if wanted.shapes:
        # () for what is no tensor.
        known.note(shapes=tuple([tuple(getattr(value, "shape", ())) for value in operands]))
    with known:
        if device is CPU or not wanted.device:
            result = call(*args)
        else:
            with work_of(event, device, known):
                result = call(*args)
        known.note(sequence_nr=_recorded_as(result, before))
        if wanted.flops:
            known.note(flops=flops_of(name, operands, result))
        if wanted.memory:
            _count_memory((*operands, *args), result)
        return result


def _recorded_as(result: Any, before: int) -> int:
    """Return the number of the Node that stands for the op, -1 if it was not recorded."""
    for tensor in result if isinstance(result, tuple) else (result,):
        node = node_of(tensor.edge) if isinstance(tensor, Tensor) else None
        if node is not None and not node.is_accumulate and node.seq > before:
            return int(node.seq)
    return -1


def _count_memory(given: tuple[Any, ...], result: Any) -> None:
    """Count the arrays of a result that are not those of an operand, or of out."""
    known = [id(root_of(value)) for value in given if isinstance(value, Tensor)]
    for tensor in result if isinstance(result, tuple) else (result,):
        if isinstance(tensor, Tensor) and tensor.facts.device == CPU:
            root = root_of(tensor)
            if id(root) not in known:
                memory_meter.count(root)

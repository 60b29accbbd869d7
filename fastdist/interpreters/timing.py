"""Measures how long ops take, while instrumentation/time_ranges.py records.

An op's general path, which reads `modes.tracers` anyway, offers the op's calls to profiles: this
costs nothing while no profile is open. If the profiles need only names and times, a timed version
of the short path reports the call, see Note [The short path] in dispatch/short_path.py. A composite
reports a time range that contains the time ranges of its ops; dispatch/declaration.py has the names
of events.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from ..core.device import CPU
from ..core.interpreter import (
    NOT_TAKEN,
    Interpreter,
    interpreters_of_call,
    list_in_process,
    of_thread,
    resumed,
)
from ..core.torch_function import values_of
from ..graph.modes import tls
from ..graph.node import next_sequence_number, node_of
from ..instrumentation.memory_meter import memory_meter
from ..instrumentation.time_ranges import clock, time_range, time_ranges
from ..tensor.memory import root_of
from ..tensor.tensor import Tensor
from .batched_tensor import Batched
from .device_work import device_of_operands, work_of
from .flops import flops_of


class _Profiles(Interpreter):
    """An interpreter that measures the calls of all threads."""

    order = 2

    def call(self, op: Any, args: Any, target: Any, rest: Any) -> Any:
        """Time a call."""
        event = op.event(*args)
        if event is None or not time_ranges.on:
            return NOT_TAKEN
        if op.kind == "composite":
            return run_timed(event, partial(resumed, op, rest, op.call), *args)
        return run_timed(event, partial(resumed, op, rest, op.general), (*args, target), op=op)


profiles: Final = _Profiles()
time_ranges.watch("on", partial(list_in_process, profiles))


def time_composite(op: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Run a composite and report its time, for profiles that need only names and times. Return
    NOT_TAKEN if the composite has no event, or is being timed already.
    """
    outer, event = of_thread.resuming, op.event_name
    if outer is not None and outer[0] is op:
        of_thread.resuming = None
        return NOT_TAKEN
    if event is None:
        return NOT_TAKEN
    start_ns = clock()
    of_thread.resuming = op, ()
    try:
        return op.call(*args, **kwargs)
    finally:
        of_thread.resuming = outer
        time_ranges.add_op(event, start_ns, -1)


def should_time(op: Any) -> bool:
    """Return whether the present call of op must go through `run_timed`."""
    return profiles in interpreters_of_call(op) and time_ranges.on


def run_timed(
    event: str,
    call: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] = MappingProxyType({}),
    *,
    op: Any = None,
) -> Any:
    """Run call(*args, **kwargs), report its time under the name of an event, with further data if a
    profile wants them, and return the result.

    Note    if `op` is given, `call` is its general path, and args[0] are the operands. Then the
            Node, the number of floating-point operations and the device's work are reported too.
            For a composite, its ops report these data
    """
    if not time_ranges.is_full and op is None:
        start_ns = clock()
        try:
            return call(*args, **kwargs)
        finally:
            time_ranges.add_op(event, start_ns, -1)
    given = args[0] if op is not None else (*args, *kwargs.values())
    wanted, before = time_ranges.wanted, next_sequence_number() if op is not None else 0
    device = CPU if op is None or op.kind == "view" else device_of_operands(given)
    known = time_range(event, "op")
    if device is not CPU:
        known.note(device=str(device))
    if wanted.shapes:
        # A value that is not a tensor has the shape ().
        known.note(shapes=tuple([tuple(getattr(value, "shape", ())) for value in given]))
    if op is not None and tls.grad:
        # A preliminary number: other threads may record Nodes too, so it is corrected after the
        # call.
        known.note(sequence_nr=before + 1)
    works = wanted.device and device is not CPU
    with known:
        with work_of(event, device, known) if works else nullcontext():
            result = call(*args, **kwargs)
        if op is not None:
            known.note(sequence_nr=_recorded_as(result, before))
            if wanted.flops:
                known.note(flops=flops_of(op.name, given, result))
        if wanted.memory:
            _count_memory((*given, *args), result)
        return result


def _recorded_as(result: Any, before: int) -> int:
    """Return the sequence number of the Node that records the op; -1 if no Node records it."""
    for tensor in result if isinstance(result, tuple) else (result,):
        node = node_of(tensor._edge) if isinstance(tensor, Tensor) else None
        if node is not None and not node.is_accumulate and node.seq > before:
            return int(node.seq)
    return -1


def _count_memory(given: tuple[Any, ...], result: Any) -> None:
    """Count the memory of a result's new arrays, but not the arrays of arguments or of `out`."""
    known = {id(root) for value in values_of(given) for root in _roots_of(value)}
    for tensor in result if isinstance(result, tuple) else (result,):
        for root in _roots_of(tensor):
            if id(root) not in known and root.flags.owndata:
                memory_meter.count(root)


def _roots_of(value: Any) -> list[Any]:
    """Return the NumPy arrays that own the memory of a value."""
    if not isinstance(value, Tensor):
        return [value] if isinstance(value, np.ndarray) else []
    if value._layout.device is not CPU or value.__class__ is Batched:
        return []
    return (
        [value._array.indices, value._array.values] if value._layout.is_sparse else [root_of(value)]
    )

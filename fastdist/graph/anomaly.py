"""Anomaly mode: shows the forward call that recorded a Node which failed or returned NaN."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ..core.caller_warning import warn_caller
from ..core.errors import GraphError
from ..core.folded_frames import stack_text
from ..core.interpreter import Interpreter, list_in_process
from ..devices.backend import backend_of
from ..system.forked_locks import renew_in_children
from ..tensor.tensor import Tensor
from .modes import count_tracers
from .node import Node

_KEY = "fastdist.forward_traceback"


class _Anomaly:
    """The state of anomaly mode. As in PyTorch, it is the same for all threads of a process."""

    __slots__ = ("check_nan", "enabled")

    def __init__(self) -> None:
        self.enabled = False
        self.check_nan = True


anomaly = _Anomaly()


class _Noting(Interpreter):
    """An interpreter that makes ops take the general path, which notes the call of each Node."""

    order = 6


_noting: Final = _Noting()
# Held while the mode is switched, so that each change is counted once.
_switch_lock = threading.Lock()
renew_in_children(sys.modules[__name__], "_switch_lock")


def set_anomaly_mode(enabled: bool, check_nan: bool) -> None:
    """Switch anomaly mode on or off. While it is on, ops take the general path, which stores the
    traceback of each Node's call.
    """
    with _switch_lock:
        if enabled is not anomaly.enabled:
            change = 1 if enabled else -1
            if enabled:
                list_in_process(_noting, True)
            count_tracers(change)
        anomaly.enabled, anomaly.check_nan = enabled, check_nan
        list_in_process(_noting, enabled)


def note_forward(node: Node) -> None:
    """Store the traceback of the call that records `node`, if anomaly mode is on."""
    if anomaly.enabled:
        node.metadata[_KEY] = stack_text()


def warn_of(node: Node) -> None:
    """Warn with the traceback of the call that recorded the Node whose gradient failed."""
    forward = node.metadata.get(_KEY)
    if forward is None:
        text = (
            "No forward pass information available. Enable detect_anomaly during the forward pass"
        )
    else:
        text = f"Traceback of forward call that caused the error:\n{forward}"
    warn_caller(f"Error detected in {node.name()}. {text}")


def require_no_nan(node: Node, results: Sequence[Any]) -> None:
    """Check the gradients that `node` returned.

    Raises  GraphError for a gradient with NaN; it names the Node and the gradient's index
    """
    for i, g in enumerate(results):
        if isinstance(g, Tensor) and g._layout.dtype.may_have_gradient:
            elements = g._array.values if g._layout.is_sparse else g._array
            values = backend_of(g._layout.device.type).to_numpy(elements)
            if np.isnan(values).any():
                raise GraphError(
                    f"Function '{node.name()}' returned nan values in its {i}th output."
                )

"""The name of the op that a thread runs, read from its stack: for messages, not for each call."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Final

from .caller_warning import is_ours

# The files of generated code: the public functions of ops, and what runs a Node in a backward pass.
_GENERATED: Final = "<fastdist "
_NODE: Final = "<fastdist Node of "
_DERIVATIVE: Final = "<fastdist derivative "
_GRADIENT: Final = "the gradient of "
# Composites and factories have no generated function; the frame of their caller has `function`.
_CALLS: Final = ("fastdist.dispatch.composite", "fastdist.interpreters.torch_function")


# For ops that are parts of others: a function that returns the op that users call, from the local
# variables of the function that computes the part's gradient.
PARTS: Final[dict[str, Callable[[Mapping[str, object]], str]]] = {}


def running_op() -> str:
    """Return the name of the outermost op that the calling thread runs, "the gradient of NAME" in
    a backward pass, or an empty text outside of ops.
    """
    frame: FrameType | None = sys._getframe(1)
    inner = frame
    found = ""
    # Between a kernel and its op there are frames of contextlib's and Numba's, too.
    while frame is not None and (not found or is_ours(frame)):
        found = _op_of(frame) or found
        if found.startswith(_GRADIENT):  # not "backward", which is farther out
            part = found.removeprefix(_GRADIENT)
            if part in PARTS and inner is not None:
                found = f"{_GRADIENT}{PARTS[part](inner.f_locals)}"
            return found
        inner, frame = frame, frame.f_back
    return found


def _op_of(frame: FrameType) -> str:
    code = frame.f_code
    if code.co_filename.startswith(_NODE):
        # Another text of the same name has a number behind it.
        name = code.co_filename.removeprefix(_NODE).rstrip(">").partition(" ")[0]
        return f"{_GRADIENT}{name}"
    if code.co_filename.startswith(_DERIVATIVE):
        return ""  # runs inside the call or the backward pass of its op
    if code.co_filename.startswith(_GENERATED):
        return code.co_name
    if code.co_name == "call" and frame.f_globals.get("__name__") in _CALLS:
        function = frame.f_locals.get("function")
        return str(getattr(function, "__name__", ""))
    return ""

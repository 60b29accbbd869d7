"""The name of the op that a thread runs, read from its stack. This is slow: only errors use it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Final

from .caller_warning import is_ours
from .generated_code import GENERATED

# File names of generated code begin so: Nodes of a backward pass, and derivatives.
_NODE: Final = f"{GENERATED}Node of "
_DERIVATIVE: Final = f"{GENERATED}derivative "
_GRADIENT: Final = "the gradient of "
# The modules that call composites and factories, which have no generated function. In a frame of
# these modules, the variable `function` is the composite or the factory.
_CALLS: Final = ("fastdist.dispatch.composite", "fastdist.interpreters.torch_function")


# Name of an op that is only a part of other ops -> a function that returns the name of the op that
# the user called. The argument is the dict of the local variables of the function that computes the
# gradient of the part.
PARTS: Final[dict[str, Callable[[Mapping[str, object]], str]]] = {}


def running_op() -> str:
    """Return the name of the outermost op that the calling thread runs, "the gradient of NAME" in a
    backward pass, or an empty string outside of ops.
    """
    frame: FrameType | None = sys._getframe(1)
    inner = frame
    found = ""
    # Frames of contextlib and Numba can be between a kernel and its op.
    while frame is not None and (not found or is_ours(frame)):
        found = _op_of(frame) or found
        if found.startswith(_GRADIENT):  # the frames farther out belong to backward()
            part = found.removeprefix(_GRADIENT)
            if part in PARTS and inner is not None:
                found = f"{_GRADIENT}{PARTS[part](inner.f_locals)}"
            return found
        inner, frame = frame, frame.f_back
    return found


def _op_of(frame: FrameType) -> str:
    code = frame.f_code
    if code.co_filename.startswith(_NODE):
        # The file name may end in a number, if several texts have the same name.
        name = code.co_filename.removeprefix(_NODE).rstrip(">").partition(" ")[0]
        return f"{_GRADIENT}{name}"
    if code.co_filename.startswith(_DERIVATIVE):
        return ""  # the frame of the op is farther out on the stack
    if code.co_filename.startswith(GENERATED):
        return code.co_name
    if code.co_name == "call" and frame.f_globals.get("__name__") in _CALLS:
        function = frame.f_locals.get("function")
        return str(getattr(function, "__name__", ""))
    return ""

"""The names of functions in the code of a graph."""

from __future__ import annotations

import builtins
import functools
import math
import operator
import sys
from collections.abc import Callable
from typing import Any

from ..tensor.tensor import Tensor

# The modules in which a function's name is looked up, in this order.
_HOMES = ("torch", "torch.nn.functional", "torch.linalg", "torch.fft", "torch.special")


def root_module() -> Any:
    """Return the module that is called `torch` in the code."""
    return sys.modules["fastdist"]


def name_of(function: Callable[..., Any]) -> str:
    """Return a function's name in code, such as torch.relu or operator.add, or a full
    module path.
    """
    name = getattr(function, "__name__", type(function).__name__)
    for home, module in (("builtins", builtins), ("operator", operator), ("math", math)):
        if getattr(module, name, None) is function:
            return f"{home}.{name}"
    for home in _HOMES:
        found = functools.reduce(getattr, home.split(".")[1:], root_module())
        if getattr(found, name, None) is function:
            return f"{home}.{name}"
    if getattr(Tensor, name, None) is function:
        return f"torch.Tensor.{name}"
    return f"{getattr(function, '__module__', '')}.{name}".strip(".")

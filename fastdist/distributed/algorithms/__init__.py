"""Algorithms on process groups.

join.py            training in which processes have different numbers of inputs
ddp_comm_hooks     hooks that reduce gradients
model_averaging    averages parameters instead of reducing gradients in each step
_checkpoint        activation checkpointing
"""

from __future__ import annotations

import importlib
from functools import partial
from typing import TYPE_CHECKING, Any

from ...core.missing import show_public
from ...core.refused import find_below

if TYPE_CHECKING:
    from .join import Join as Join
    from .join import Joinable as Joinable
    from .join import JoinHook as JoinHook

    def __getattr__(name: str) -> Any: ...
else:
    _ROOMS = ("_checkpoint", "ddp_comm_hooks", "join", "model_averaging")
    _JOINS = ("Join", "JoinHook", "Joinable")
    _below = partial(find_below, __name__)

    def __getattr__(name: str) -> Any:
        """Import a module, or a class of join.py, on first access."""
        if name in _ROOMS:
            return importlib.import_module(f"{__name__}.{name}")
        if name in _JOINS:
            return getattr(importlib.import_module(f"{__name__}.join"), name)
        return _below(name)

    show_public(__name__, also=(*_ROOMS, *_JOINS))

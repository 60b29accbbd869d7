"""Time ranges for steps of optimisers while a profiler records.

Steps do not consist of ops, so they would otherwise be missing from the profile.
"""

from __future__ import annotations

import threading
from typing import Any

from ..graph.node import RemovableHandle
from ..instrumentation.time_ranges import time_range, time_ranges
from .hooks import register_optimizer_step_post_hook, register_optimizer_step_pre_hook


class _Open(threading.local):
    # The open ranges, by id() of the optimiser. If a step raises, its range stays open until the
    # next step of the optimiser closes it.
    ranges: dict[int, time_range] | None = None


_open = _Open()
_hooks: list[RemovableHandle] = []


def install() -> None:
    """Report steps while a profiler records, through hooks that are registered only meanwhile."""
    time_ranges.watch("on", _switch)


def _switch(is_on: bool) -> None:
    if is_on:
        _hooks.append(register_optimizer_step_pre_hook(_begins))
        _hooks.append(register_optimizer_step_post_hook(_ends))
    while not is_on and _hooks:
        _hooks.pop().remove()


def _begins(optimizer: Any, args: Any, kwargs: Any) -> None:
    _ends(optimizer, args, kwargs)
    name = type(optimizer).__name__
    opened = time_range(f"Optimizer.step#{name}.step", "user")
    if _open.ranges is None:
        _open.ranges = {}
    _open.ranges[id(optimizer)] = opened
    opened.__enter__()


def _ends(optimizer: Any, args: Any, kwargs: Any) -> None:
    opened = (_open.ranges or {}).pop(id(optimizer), None)
    if opened is not None:
        opened.__exit__(None, None, None)

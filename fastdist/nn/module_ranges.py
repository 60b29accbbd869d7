"""Time ranges for calls of modules, recorded while a profiler runs with with_modules=True.

`Module.__call__` is replaced only while such a profiler runs. At other times calls of modules have
no overhead.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, Final
from weakref import WeakKeyDictionary

from ..instrumentation.module_path import module_path
from ..instrumentation.time_ranges import time_range, time_ranges
from .module import Module

_plain_call: Final = Module.__call__
_within: Final[ContextVar[Module | None]] = ContextVar("within", default=None)


def _profiled_call(self: Module, *args: Any, **kwargs: Any) -> Any:
    outer = _within.get()
    entered = _within.set(self)
    path = module_path.set(_path_of(self, outer))
    try:
        with time_range(f"nn.Module: {_numbers.name_of(self)}", "module"):
            return _plain_call(self, *args, **kwargs)
    finally:
        module_path.reset(path)
        _within.reset(entered)


def _path_of(module: Module, outer: Module | None) -> str:
    """Return the path of `outer`, which is the calling module, plus the name of `module` in it.

    If there is no `outer`, or `outer` does not contain `module`, return the name of the class of
    `module`.
    """
    if outer is not None:
        for name, one in outer.named_modules():
            if one is module and name:
                return f"{module_path.get()}.{name}"
    return type(module).__name__


class _Numbers:
    """Names such as Linear_0 and Linear_1: modules are numbered per class, as in PyTorch's
    profiler.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Restart all numbers at 0."""
        self._names: WeakKeyDictionary[Module, str] = WeakKeyDictionary()
        # itertools.count is used, because `next` of a count is atomic between threads.
        self._next: defaultdict[str, Iterator[int]] = defaultdict(itertools.count)

    def name_of(self, module: Module) -> str:
        """Return the name of a module, which stays the same for all its calls."""
        name = self._names.get(module)
        if name is None:
            kind = type(module).__name__
            name = self._names.setdefault(module, f"{kind}_{next(self._next[kind])}")
        return name


_numbers: Final = _Numbers()


def install() -> None:
    """Record time ranges of module calls whenever a profiler runs with with_modules=True."""
    time_ranges.watch("modules", _switch)


def _switch(is_wanted: bool) -> None:
    _numbers.forget()
    Module.__call__ = _profiled_call if is_wanted else _plain_call  # type: ignore[method-assign, assignment]

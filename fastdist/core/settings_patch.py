"""A context manager that changes settings of a module and restores them on exit."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

_ABSENT = object()


def patch_of(module: str) -> Callable[..., AbstractContextManager[None]]:
    """Return the function `patch` for a module of settings."""

    def patch(changes: Any = None, value: Any = None, **more: Any) -> AbstractContextManager[None]:
        """Return a context manager, also usable as a decorator, in which settings have other
        values.

        Args:
            changes: A dict of settings, or the name of one setting.
            value: The value of the setting that `changes` names.
            more: Settings by name.
        """
        named = {changes: value} if isinstance(changes, str) else dict(changes or {})
        return _patched(vars(sys.modules[module]), {**named, **more})

    patch.__module__ = module
    return patch


@contextmanager
def _patched(names: dict[str, Any], changes: dict[str, Any]) -> Iterator[None]:
    before = {name: names.get(name, _ABSENT) for name in changes}
    names.update(changes)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is _ABSENT:
                del names[name]
            else:
                names[name] = old

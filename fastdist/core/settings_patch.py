"""A context that sets names of a module and puts them back at its end."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

_ABSENT = object()


def patch_settings(
    module: str, changes: Any, value: Any, more: dict[str, Any]
) -> AbstractContextManager[None]:
    """Return a context within which a module's settings have other values.

    Args:
        module: The module's name.
        changes: A dict of settings, or the name of one, or None.
        value: The value of the one that is named.
        more: Further settings.
    """
    named = {changes: value} if isinstance(changes, str) else dict(changes or {})
    return _patched(vars(sys.modules[module]), {**named, **more})


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

"""A module of ours that is imported as soon as somebody imports a library that it serves."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.abc import Loader


def after_import(library: str, ours: str) -> None:
    """Import our module right after a library's, which may be there already or never come."""
    if library in sys.modules:
        importlib.import_module(ours)
    else:
        sys.meta_path.insert(0, _Waiting(library, ours))


class _Waiting:
    """Finds nothing itself; asked for the library, it goes, and lets the others find it."""

    def __init__(self, library: str, ours: str) -> None:
        self._library = library
        self._ours = ours

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Return the library's own spec, with a loader that imports our module afterwards."""
        if fullname != self._library or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        spec: Any = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _LoadsBoth(spec.loader, self._ours)
        return spec  # type: ignore[no-any-return]


class _LoadsBoth:
    def __init__(self, loader: Loader, ours: str) -> None:
        self._loader = loader
        self._ours = ours

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Do what the library's own loader does."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run the library's module, then import ours."""
        self._loader.exec_module(module)
        importlib.import_module(self._ours)

"""Imports modules of fastdist when a library is imported, or when RPC starts."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.abc import Loader


# Another worker may request this worker's part of a backward pass although no code in this process
# has imported distributed autograd. So RPC must load distributed autograd. RPC must not contain an
# import of it, because RPC is the lower layer. `fastdist.distributed`, which may import both,
# registers a function that imports distributed autograd, and RPC calls the registered functions.
_rpc_loaders: list[Callable[[], object]] = []


def load_when_rpc_starts(load: Callable[[], object]) -> None:
    """Call load() each time before this process joins an RPC group."""
    _rpc_loaders.append(load)


def load_for_rpc() -> None:
    """Call every registered loader; for a loaded module this costs only a dictionary lookup."""
    for load in _rpc_loaders:
        load()


# Loaders for process groups: they are called after this process has made its default group.
_group_loaders: list[Callable[[], object]] = []


def load_when_groups_start(load: Callable[[], object]) -> None:
    """Call load() each time after this process has made its default process group."""
    _group_loaders.append(load)


def load_for_groups() -> None:
    """Call every loader that was registered for process groups."""
    for load in _group_loaders:
        load()


def after_import(library: str, ours: str) -> None:
    """Import module `ours` right after `library`, or now if the library is imported already."""
    if library in sys.modules:
        importlib.import_module(ours)
    else:
        sys.meta_path.insert(0, _Waiting(library, ours))


class _Waiting:
    """A finder that removes itself at the library's import; other finders then find the library."""

    def __init__(self, library: str, ours: str) -> None:
        self._library = library
        self._ours = ours

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Return the library's own spec, with a loader that then imports our module."""
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
        """Call the library's own loader."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run the library's module, then import ours."""
        self._loader.exec_module(module)
        importlib.import_module(self._ours)

"""Import paths that are aliases of modules defined elsewhere."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_ALIASES: dict[str, str] = {}


def alias_modules(aliases: Mapping[str, str]) -> None:
    """Let each name import the module that it maps to. Both names give the same module object,
    which is loaded on first import.

    The names are absolute. The module keeps its own `__name__`, which pickles therefore contain;
    pickles that contain the alias can be loaded as well.
    """
    _ALIASES.update(aliases)
    if AliasFinder not in sys.meta_path:
        sys.meta_path.insert(0, AliasFinder)


def real_name(name: str) -> str | None:
    """Return the absolute name of the module for an alias in alias_names.py, or None."""
    return _table().get(name)


@functools.cache
def _table() -> Mapping[str, str]:
    from .alias_names import ALIASES

    return {f"fastdist.{name}": f"fastdist.{real}" for name, real in ALIASES.items()}


class SameModule:
    """The loader for an alias; the real module is loaded already."""

    # Not a subclass of importlib.abc.Loader, because that would import a dozen more modules.

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def create_module(self, spec: ModuleSpec) -> None:
        """Let importlib create an empty module, so that the real module's spec stays unchanged."""

    def exec_module(self, module: ModuleType) -> None:
        """Replace the empty module in sys.modules with the real one."""
        assert module.__spec__ is not None
        sys.modules[module.__spec__.name] = self._module

    def get_code(self, name: str) -> Any:
        """Return the module's code, for `python -m NAME`."""
        spec: Any = self._module.__spec__
        return spec.loader.get_code(spec.name)


class AliasFinder:
    """Finds the names that were passed to `alias_modules`. Other finders handle all other names."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec for an alias, after importing the real module."""
        real = _ALIASES.get(name)
        return None if real is None else spec_of_alias(name, real)


def spec_of_alias(name: str, real: str) -> ModuleSpec:
    """Return the spec for a module's alias, after importing the real module."""
    module = importlib.import_module(real)
    loader: Any = SameModule(module)
    return ModuleSpec(name, loader, is_package=hasattr(module, "__path__"))

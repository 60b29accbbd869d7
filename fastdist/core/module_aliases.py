"""Import paths that lead to a module which is defined under another name."""

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
    """Let each name import the module that it maps to: one module, loaded when first imported.

    Both are full names. The module keeps its own `__name__`, so pickles use that; pickles that
    use the alias load as well.
    """
    _ALIASES.update(aliases)
    if AliasFinder not in sys.meta_path:
        sys.meta_path.insert(0, AliasFinder)


def real_name(name: str) -> str | None:
    """Return the full name of the module behind a name of alias_names.py, or None."""
    return _table().get(name)


@functools.cache
def _table() -> Mapping[str, str]:
    from .alias_names import ALIASES

    return {f"fastdist.{name}": f"fastdist.{real}" for name, real in ALIASES.items()}


class SameModule:
    """The loader of an alias, whose module is loaded already."""

    # importlib.abc.Loader, which it could be, loads a dozen modules more.

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def create_module(self, spec: ModuleSpec) -> None:
        """Let importlib make an empty module, so that it leaves the real one's spec unchanged."""

    def exec_module(self, module: ModuleType) -> None:
        """Replace the empty module in sys.modules by the real one."""
        assert module.__spec__ is not None
        sys.modules[module.__spec__.name] = self._module

    def get_code(self, name: str) -> Any:
        """Return the module's code, for `python -m NAME`."""
        spec: Any = self._module.__spec__
        return spec.loader.get_code(spec.name)


class AliasFinder:
    """Finds the names that were passed to `alias_modules`; the next finder gets all others."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a spec that leads to the real module, which is imported first."""
        real = _ALIASES.get(name)
        return None if real is None else spec_of_alias(name, real)


def spec_of_alias(name: str, real: str) -> ModuleSpec:
    """Return the spec of a module's alias; the real module is imported first."""
    module = importlib.import_module(real)
    loader: Any = SameModule(module)
    return ModuleSpec(name, loader, is_package=hasattr(module, "__path__"))

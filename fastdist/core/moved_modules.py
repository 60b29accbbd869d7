"""The modules and names of earlier versions, which pickles and saved files still name.

A pickle names a class or a function by its module and its name. When one of them moves, a row here
keeps every file that an earlier version wrote readable. Three readers use the table:

- `pickle`, through `MovedModuleFinder`, which Python queries after all other finders found nothing;
- `load(weights_only=True)` and RPC in strict mode, which translate a name with `current_name` and
  then check the new name as if the file had named it.

So a row grants no access: a name is accepted only if its new name is.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

# Classes that as-torch shows under PyTorch's names, and their (module, name) here.
RENAMED: Final[dict[Any, tuple[str, str]]] = {}


def own_name(thing: Any) -> tuple[str, str]:
    """Return the module and the name by which files and messages name a class or a function."""
    found = RENAMED.get(thing) if RENAMED and isinstance(thing, type) else None
    return found or (thing.__module__, thing.__qualname__)


@functools.cache
def _table() -> tuple[dict[str, str], dict[str, str]]:
    """Return the modules and the names that moved. A process that loads nothing saves 100 KB."""
    from .moved_names import MODULES, NAMES

    return MODULES, NAMES


def current_name(module: str, name: str) -> tuple[str, str]:
    """Return the current module and name of those in a file.

    Args:
        module: The module's full name, as a pickle has it.
        name: The name inside the module, such as "Kind" or "Kind.method".

    Returns:
        Both unchanged, unless the table has a row for them.
    """
    first, dot, rest = name.partition(".")
    modules, names = _table()
    moved = names.get(f"{module}.{first}")
    if moved is None:
        return modules.get(module, module), name
    home, _, own = moved.rpartition(".")
    return home, f"{own}{dot}{rest}"


def current_path(path: str) -> str:
    """Return today's name of a module ("pkg.mod"), or of a thing in one ("pkg.mod.f")."""
    module, dot, name = path.rpartition(".")
    modules, _ = _table()
    if path in modules or not dot:
        return modules.get(path, path)
    return ".".join(current_name(module, name))


class MovedModuleFinder:
    """Finds the modules of earlier versions; each imports nothing until a name is taken from it."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how to make a module of the table, None for any other."""
        if not name.startswith("fastdist."):
            return None
        packages = _packages()
        if name not in packages and name not in _modules():
            return None
        # importlib.abc, whose Loader this could be, imports a dozen modules more.
        loader: Any = _MovedModuleLoader
        return ModuleSpec(name, loader, is_package=name in packages)


class _MovedModuleLoader:
    @staticmethod
    def create_module(spec: ModuleSpec) -> None:
        """Leave the making of an empty module to Python."""

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """Let each name of the module be looked up where it is today."""
        names: Any = module
        names.__getattr__ = earlier_names(module.__name__)


def earlier_names(module: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module from which names moved, by the rows of moved_names.py.

    A module that is gone gets it from the finder. A module that stays, and has lost a name, needs
    the line `__getattr__ = earlier_names(__name__)`.
    """
    return functools.partial(_find, module)


def _find(module: str, name: str) -> Any:
    """Return the object that an earlier module had under a name.

    Raises  AttributeError if the table has no row for it
    """
    # Python looks up names such as __path__, for which the table need not be read.
    home, own = (module, name) if name.startswith("__") else current_name(module, name)
    if (home, own) == (module, name):
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    return getattr(importlib.import_module(home), own)


@functools.cache
def _modules() -> frozenset[str]:
    modules, names = _table()
    return frozenset({*modules, *(name.rpartition(".")[0] for name in names)})


@functools.cache
def _packages() -> frozenset[str]:
    """Return the packages that the modules of the table were in; some of them may be gone."""
    parts = [name.split(".") for name in _modules()]
    return frozenset(".".join(one[:end]) for one in parts for end in range(2, len(one)))


def find_moved_modules() -> None:
    """Add the finder after all others, once."""
    if not any(getattr(one, "__name__", "") == "MovedModuleFinder" for one in sys.meta_path):
        sys.meta_path.append(MovedModuleFinder)

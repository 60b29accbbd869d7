"""Names and modules of earlier versions that pickles and saved files still refer to.

A pickle refers to a class or a function by its module and its name. When a class or a function
moves, a row in the table of moved_names.py keeps the files of earlier versions readable. These
readers use the table:

- `pickle`, through `MovedModuleFinder`, which Python queries after all other finders have failed;
- `load(weights_only=True)` and RPC in strict mode. They translate a name with `current_name`, then
  check the new name as if the file had contained it. So a row grants no access: an old name is
  accepted only if the new name is accepted.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

# Classes that as-torch shows under PyTorch's names -> their (module, name) in fastdist.
RENAMED: Final[dict[Any, tuple[str, str]]] = {}


def own_name(thing: Any) -> tuple[str, str]:
    """Return the module and name by which files and messages refer to a class or a function."""
    found = RENAMED.get(thing) if RENAMED and isinstance(thing, type) else None
    return found or (thing.__module__, thing.__qualname__)


@functools.cache
def _table() -> tuple[dict[str, str], dict[str, str]]:
    """Return the moved modules and the moved names. They are loaded on demand, which
    saves 100 KB.
    """
    from .moved_names import MODULES, NAMES

    return MODULES, NAMES


def current_name(module: str, name: str) -> tuple[str, str]:
    """Return the current module and name for a module and name in a file.

    Args:
        module: The module's full name, as a pickle has it.
        name: The name inside the module, such as "Kind" or "Kind.method".

    Returns:
        The current module and name. If the table has no row for them, both are unchanged.
    """
    first, dot, rest = name.partition(".")
    modules, names = _table()
    moved = names.get(f"{module}.{first}")
    if moved is None:
        return modules.get(module, module), name
    home, _, own = moved.rpartition(".")
    return home, f"{own}{dot}{rest}"


def current_path(path: str) -> str:
    """Return the current path of a module ("pkg.mod") or of an object in a module ("pkg.mod.f")."""
    module, dot, name = path.rpartition(".")
    modules, _ = _table()
    if path in modules or not dot:
        return modules.get(path, path)
    return ".".join(current_name(module, name))


class MovedModuleFinder:
    """Finds the modules of earlier versions. They import nothing until one of their names
    is read.
    """

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec for a module of the table; None for any other module."""
        if not name.startswith("fastdist."):
            return None
        packages = _packages()
        if name not in packages and name not in _modules():
            return None
        # Not a subclass of importlib.abc.Loader, because that would import a dozen more modules.
        loader: Any = _MovedModuleLoader
        return ModuleSpec(name, loader, is_package=name in packages)


class _MovedModuleLoader:
    @staticmethod
    def create_module(spec: ModuleSpec) -> None:
        """Let Python create an empty module."""

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """Make the module look up each name in the module to which the name has moved."""
        names: Any = module
        names.__getattr__ = earlier_names(module.__name__)


def earlier_names(module: str) -> Callable[[str], Any]:
    """Return a `__getattr__` for a module from which names have moved. It uses the table of
    moved_names.py.

    MovedModuleFinder gives this function to modules that no longer exist. A module that still
    exists, but has lost a name, needs the line `__getattr__ = earlier_names(__name__)`.
    """
    return functools.partial(_find, module)


def _find(module: str, name: str) -> Any:
    """Return the object that a module of an earlier version had under a name.

    Raises  AttributeError if the table has no row for the name
    """
    # Python looks up names such as __path__; they need no look-up in the table.
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
    """Return the packages that contained the modules of the table. Some no longer exist."""
    parts = [name.split(".") for name in _modules()]
    return frozenset(".".join(one[:end]) for one in parts for end in range(2, len(one)))


def find_moved_modules() -> None:
    """Add the finder after all other finders, unless it is already installed."""
    if not any(getattr(one, "__name__", "") == "MovedModuleFinder" for one in sys.meta_path):
        sys.meta_path.append(MovedModuleFinder)

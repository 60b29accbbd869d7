"""Names of PyTorch that programs can import, but that raise an error when they are used.

Third-party packages import many names that they use rarely, or only under a condition. Each such
name exists here as a class or a function. Calling it raises NotImplementedError, with the name and
an alternative in the message; `isinstance` with such a class returns False.

`refused_names.py` lists the names by module. A module that consists of such names needs no file:
the finder in refused_finder.py makes it with `spec_of`. A module that has a file adds its rows with
`offer_refused`. When a name is implemented, its row is removed. Most programs load none of these
tables.
"""

from __future__ import annotations

import functools
import importlib
import re
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from .missing import find_late, instead, public_names
from .module_aliases import real_name, spec_of_alias
from .refusing import refusing, refusing_class, rows_of_modules

_WORD = re.compile(r"(\w+)(?:\(([\w ]*)\))?")


def refused_in(module: str) -> dict[str, Any]:
    """Return the refused classes and functions of a module; classes begin with a capital letter."""
    words, names = rows_of_modules()[module]
    found: dict[str, Any] = {}
    for name, methods in _WORD.findall(names):
        if name.lstrip("_")[0].isupper():
            found[name] = refusing_class(module, name, words, methods)
        else:
            found[name] = refusing(module, name, words)
    return found


def offer_refused(names: dict[str, Any]) -> None:
    """Add the refused names in the tables to a module. Its submodules are added on first use.

    Args:
        names: The module's globals. The public refused names are added to `__all__`.
    """
    module = names["__name__"]
    refused = refused_in(module)
    names.update(refused)
    public = sorted(name for name in refused if not name.startswith("_"))
    names["__all__"] = [*names.get("__all__", ()), *public]
    names["__getattr__"] = functools.partial(find_below, module)
    names.setdefault("__dir__", functools.partial(public_names, module))


def spec_of(name: str) -> ModuleSpec | None:
    """Return the spec of a module that the tables list and that has no file; None for any other."""
    real = real_name(name)
    if real is not None:
        return spec_of_alias(name, real)
    if name not in rows_of_modules():
        return None
    loader: Any = _RefusedModuleLoader
    return ModuleSpec(name, loader, is_package=True)


class _RefusedModuleLoader:
    @staticmethod
    def create_module(spec: ModuleSpec) -> None:
        """Let Python create an empty module."""

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """Add the refused names to the module."""
        words, _ = rows_of_modules()[module.__name__]
        vars(module)["__doc__"] = f"Names of PyTorch that refuse when they are used: {words}."
        offer_refused(vars(module))


def find_below(module: str, name: str) -> Any:
    """Return a submodule that the tables list, for a module's `__getattr__`.

    Raises  AttributeError if the tables do not list that name
    """
    whole = f"{module}.{name}"
    if whole in rows_of_modules() or real_name(whole) is not None:
        return importlib.import_module(whole)
    if module in rows_of_modules():
        instead({whole: rows_of_modules()[module][0]})
    return find_late(module, name)

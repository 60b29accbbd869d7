"""Names of PyTorch that programs can import and that refuse when they are used.

Packages import many names that they use in few of their runs, or only under a condition. Such a
name is here as a class or a function. Calling it raises NotImplementedError, which names
the call and the alternative; `isinstance` with such a class is False.

`refused_names.py` lists the names by module. A module that has nothing else needs no file: the
finder of this file makes it. A module that has a file takes its rows with `refused_in`.
An implemented name leaves its row.
"""

from __future__ import annotations

import functools
import importlib
import re
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn

from .missing import instead, missing, refusing
from .module_aliases import alias_modules, is_alias

# Modules that PyTorch has under two names, or whose names are in one place here.
_ALIASES = {
    **dict.fromkeys(("fx.graph", "fx.graph_module", "fx.interpreter", "fx.node", "fx.proxy"), "fx"),
    "fx._symbolic_trace": "fx",
    "nn.intrinsic": "ao.nn.intrinsic",
    "nn.qat": "ao.nn.qat",
    "nn.quantized": "ao.nn.quantized",
    "quantization": "ao.quantization",
}
_WORD = re.compile(r"(\w+)(?:\(([\w ]*)\))?")


def refusing_class(module: str, name: str, words: str, methods: str = "") -> type:
    """Return a class that can be imported, subclassed and tested for, and cannot be instantiated.

    Args:
        module: The full name of the module that offers it.
        name: The class's name.
        words: Why it cannot be instantiated and what to do instead.
        methods: Names of its static and class methods, which refuse as well.
    """

    def refuse(cls: type, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"{module}.{name}: {words}")

    def itself(cls: type, parameters: Any) -> type:
        return cls

    members: dict[str, Any] = {
        "__new__": refuse,
        "__module__": module,
        "__doc__": f"Refuse to be instantiated: {words}.",
        "__class_getitem__": classmethod(itself),
    }
    for method in methods.split():
        refused = refusing(module, f"{name}.{method}", words)
        members[method] = staticmethod(refused)
    return type(name, (), members)


@functools.cache
def _rows() -> Mapping[str, tuple[str, str]]:
    """Return module -> (words, names). Read on first use: most programs ask for none of them."""
    from .refused_names import ROWS

    return {f"fastdist.{module}": row for module, row in ROWS.items()}


def refused_in(module: str) -> dict[str, Any]:
    """Return the refusing classes and functions of a module; a class begins with a capital."""
    words, names = _rows()[module]
    found: dict[str, Any] = {}
    for name, methods in _WORD.findall(names):
        if name.lstrip("_")[0].isupper():
            found[name] = refusing_class(module, name, words, methods)
        else:
            found[name] = refusing(module, name, words)
    return found


class RefusedModuleFinder:
    """Makes the modules of `refused_names.py` that have no file."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how to make a module of the table, None for any other."""
        if not name.startswith("fastdist.") or name not in _rows():
            return None
        loader: Any = _RefusedModuleLoader
        return ModuleSpec(name, loader, is_package=True)


class _RefusedModuleLoader:
    @staticmethod
    def create_module(spec: ModuleSpec) -> None:
        """Leave the making of an empty module to Python."""

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """Give the module its names, and its submodules on first use."""
        words, _ = _rows()[module.__name__]
        refused = refused_in(module.__name__)
        names = vars(module)
        names.update(refused)
        names["__all__"] = sorted(name for name in refused if not name.startswith("_"))
        names["__doc__"] = f"Names of PyTorch that refuse when they are used: {words}."
        names["__getattr__"] = functools.partial(find_below, module.__name__)


def find_below(module: str, name: str) -> Any:
    """Return a submodule of the table or an alias, for a module's `__getattr__`.

    Raises:
        AttributeError: There is none of that name.
    """
    whole = f"{module}.{name}"
    if whole in _rows() or is_alias(whole):
        return importlib.import_module(whole)
    if module in _rows():
        instead({whole: _rows()[module][0]})
    raise missing(module, name)


def find_refused_modules() -> None:
    """Add the finder after all others, once."""
    if not any(getattr(one, "__name__", "") == "RefusedModuleFinder" for one in sys.meta_path):
        sys.meta_path.append(RefusedModuleFinder)
        alias_modules({f"fastdist.{name}": f"fastdist.{to}" for name, to in _ALIASES.items()})

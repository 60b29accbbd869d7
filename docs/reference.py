"""Lets Griffe see what fastdist makes at import: functions that only a stub declares.

Griffe reads `fastdist/__init__.pyi` next to `__init__.py`, and merges the two. It loses functions
of which the stub has overloads alone, such as `max`.
"""

from __future__ import annotations

from typing import Any

import griffe


class NamesOfStubs(griffe.Extension):
    """Makes a function of each group of overloads that has no implementation next to it."""

    def on_module_members(self, *, mod: griffe.Module, **kwargs: Any) -> None:
        """Add the functions of a stub before it is merged into its module."""
        _add(mod)
        if mod.path == "fastdist":
            # The package of that name is found under it; the function has its own module.
            mod.members.pop("tensor", None)

    def on_class_members(self, *, cls: griffe.Class, **kwargs: Any) -> None:
        """Add the methods of a class of a stub before it is merged."""
        _add(cls)


def _add(holder: griffe.Module | griffe.Class) -> None:
    if holder.filepath.suffix != ".pyi":  # type: ignore[union-attr]
        return
    for name, overloads in list(holder.overloads.items()):
        if not overloads or name in holder.members:
            continue
        first = overloads[0]
        function = griffe.Function(
            name,
            parameters=first.parameters,
            returns=first.returns,
            lineno=first.lineno,
            endlineno=first.endlineno,
            docstring=next((one.docstring for one in overloads if one.docstring), None),
        )
        function.overloads = overloads
        holder.set_member(name, function)
        del holder.overloads[name]

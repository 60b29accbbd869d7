"""Lets Griffe see what fastdist makes at import: functions that only a stub declares.

Griffe reads `fastdist/__init__.pyi` next to `__init__.py`, and merges the two. It loses functions
of which the stub has overloads alone, such as `max`.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

# A line of a docstring such as `Shape   (n, m) -> (m)`, and the lines that go on below it.
_ENTRY = re.compile(
    r"^(Dtype|Note|Raises|Shape|Source|Threads?|Units?)(?:  +|: )(?=\S)(.*(?:\n  +.*)*)",
    re.MULTILINE,
)
# NumPy's name of an argument -> PyTorch's, which the signature has already.
_SECOND_NAMES = {"axis": "dim", "keepdims": "keepdim"}


class NamesOfStubs(griffe.Extension):
    """Makes a function of each group of overloads that has no implementation next to it."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Write the entries of a docstring as a list, and name its examples."""
        if obj.docstring is not None:
            head, mark, tail = obj.docstring.value.partition("\nArgs:\n")
            text = f"{_ENTRY.sub(_item, head)}{mark}{tail}"
            # The word by which Griffe knows sessions at the prompt.
            obj.docstring.value = text.replace("\nExample:\n", "\nExamples:\n")

    def on_function_instance(self, *, func: griffe.Function, **kwargs: Any) -> None:
        """Give a function the names of parameters that users know."""
        taken = {one.name for one in func.parameters}
        for one in list(func.parameters):
            other = one.name.lstrip("_")
            if one.kind is griffe.ParameterKind.var_positional and other != one.name:
                if other in taken:
                    del func.parameters[other]
                one.name = other
            elif _SECOND_NAMES.get(one.name) in taken:
                del func.parameters[one.name]
            elif "builtins." in str(one.annotation):
                one.annotation = str(one.annotation).replace("builtins.", "")
        if "builtins." in str(func.returns):
            func.returns = str(func.returns).replace("builtins.", "")

    def on_module_members(self, *, mod: griffe.Module, **kwargs: Any) -> None:
        """Add the functions of a stub before it is merged into its module."""
        _add(mod)
        if mod.path == "fastdist":
            # The package of that name is found under it; the function has its own module.
            mod.members.pop("tensor", None)

    def on_class_members(self, *, cls: griffe.Class, **kwargs: Any) -> None:
        """Add the methods of a class of a stub before it is merged."""
        _add(cls)


def _item(found: re.Match[str]) -> str:
    return f"\n- **{found[1]}**: " + " ".join(found[2].split()) + "\n"


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

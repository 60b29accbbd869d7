"""What a public module says of a name that it does not have: what it has, and how to add one."""

from __future__ import annotations

import functools
import sys
from types import ModuleType

# So many names can be read; where there are more, it is of more use to know where they are listed.
_LISTED = 60
# What does the work of a name that is missing: not found by its spelling.
_INSTEAD = {
    "fastdist.save": "pickle.dump(model.state_dict(), file) keeps the same",
    "fastdist.load": "pickle.load(file) reads what pickle.dump kept; only of files that you trust",
}


def missing(module: str, name: str) -> AttributeError:
    """Return the error of a name that a public module lacks.

    Note    Python itself adds "Did you mean ...?" where it shows the error
    """
    found = sys.modules[module]
    text = f"module {module!r} has no attribute {name!r}"
    instead = _INSTEAD.get(f"{module}.{name}")
    if instead is not None:
        text += f"; {instead}"
    elif not name.startswith("__"):
        names = _offered(found)
        listed = ", ".join(names) if len(names) <= _LISTED else f"what dir({module}) lists"
        text += f"; it has: {listed}. CONTRIBUTING.md tells how to add one"
    return AttributeError(text, name=name, obj=found)


def _offered(module: ModuleType) -> list[str]:
    """Return a module's public names, without those that it imported for its own use."""
    names: list[str] | None = getattr(module, "__all__", None)
    if names is None:
        names = [name for name in dir(module) if _is_function(vars(module).get(name))]
    return sorted(name for name in names if not name.startswith("_"))


def _is_function(value: object) -> bool:
    # None: a name that is imported when it is first asked for.
    return value is None or (callable(value) and not isinstance(value, type))


def explain_missing(*modules: str) -> None:
    """Let modules that find all their names in themselves say so of any other."""
    for module in modules:
        vars(sys.modules[module])["__getattr__"] = functools.partial(_refuse, module)


def _refuse(module: str, name: str) -> None:
    raise missing(module, name)

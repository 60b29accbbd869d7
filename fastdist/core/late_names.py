"""Names that a module offers without loading them: objects of other modules, and names that raise.

`find_late` (missing.py) reads the tables of these names when a module lacks a name. Most programs
never load the tables.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

from .refusing import refusing, refusing_class, rows_of_modules
from .tables.late_refusals import ROWS as REFUSED
from .tables.late_rows import ROWS


@functools.cache
def _homes() -> dict[tuple[str, str], tuple[str, str]]:
    """Return the map (module, name) -> (defining module, name there). Module names are
    relative to fastdist.
    """
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for module, home, names in ROWS:
        for name in names.split():
            shown, _, own = name.partition("=")
            found[module, shown] = (home, own or shown)
    return found


@functools.cache
def _refusals() -> dict[tuple[str, str], str]:
    """Return the map (module, name) -> why that name raises an error, and what to use instead."""
    return {(module, name): words for module, words, names in REFUSED for name in names.split()}


@functools.cache
def late_name(module: str, name: str) -> Any:
    """Return the object for a name of a module in the tables, or None."""
    key = (module.removeprefix("fastdist").lstrip("."), name)
    home = _homes().get(key)
    if home is not None:
        place, own = home
        found = importlib.import_module(f"fastdist.{place}".rstrip("."))
        return getattr(found, own) if own != "." else found
    if f"{module}.{name}" in rows_of_modules():
        return importlib.import_module(f"{module}.{name}")
    words = _refusals().get(key)
    if words is None:
        return None
    is_class = name.lstrip("_")[:1].isupper()
    return refusing_class(module, name, words) if is_class else refusing(module, name, words)

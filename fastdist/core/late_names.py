"""Names that a module offers without loading them: real ones from elsewhere, and ones that refuse.

`find_late` (missing.py) reads these tables for a name that a module does not have. Most programs
read none of them.
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
    """Return (module, name) -> (the module that has it, its name there), below fastdist."""
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for module, home, names in ROWS:
        for name in names.split():
            shown, _, own = name.partition("=")
            found[module, shown] = (home, own or shown)
    return found


@functools.cache
def _refusals() -> dict[tuple[str, str], str]:
    """Return (module, name) -> why it refuses and what to do instead."""
    return {(module, name): words for module, words, names in REFUSED for name in names.split()}


@functools.cache
def late_name(module: str, name: str) -> Any:
    """Return the object of the tables under a name of a module, or None."""
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

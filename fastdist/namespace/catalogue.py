"""Fills the tables of ops and composites, by importing every file of `ops`.

A new file in `ops` needs no registration. Files that homes.py lists are imported at first use.
"""

from __future__ import annotations

import importlib
import os

from .. import ops
from ..dispatch.composite import COMPOSITES
from ..dispatch.op import OPS
from .homes import HOMES


def _import_all(folder: str, package: str) -> None:
    """Import the modules of a folder and of its subpackages, sorted by name."""
    for name in sorted(os.listdir(folder)):
        inside = f"{package}.{name.removesuffix('.py')}"
        if name.endswith(".py") and name != "__init__.py":
            if inside not in _late:
                importlib.import_module(inside)
        elif os.path.isfile(os.path.join(folder, name, "__init__.py")):
            _import_all(os.path.join(folder, name), inside)


# Files without declarations, which a call of few numbers imports.
_OF_CALLS = ("ops.index.few_nonzero", "ops.reduce.few_sorted")
_late = {f"{ops.__name__.rpartition('.')[0]}.{home}" for home in (*HOMES.values(), *_OF_CALLS)}
for _path in ops.__path__:
    _import_all(_path, ops.__name__)

__all__ = ["COMPOSITES", "OPS"]

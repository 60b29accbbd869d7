"""The tables of ops and composites, filled: importing this imports each file of `ops`.

A new file there needs no entry anywhere. Those whose names come late (homes.py) are left to them.
"""

from __future__ import annotations

import importlib
import os

from .. import ops
from ..dispatch.composite import COMPOSITES
from ..dispatch.op import OPS
from .homes import HOMES

_late = {"__init__", *[room.removeprefix("ops.") for room in HOMES.values()]}
for _path in ops.__path__:
    _files = {name.removesuffix(".py") for name in os.listdir(_path) if name.endswith(".py")}
    for _name in sorted(_files - _late):
        importlib.import_module(f"{ops.__name__}.{_name}")

__all__ = ["COMPOSITES", "OPS"]

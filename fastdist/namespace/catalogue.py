"""The tables of ops and composites, filled: importing this imports each file of `ops`.

A new file there needs no entry anywhere. Those that homes.py names are imported on first use.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path

from .. import ops
from ..dispatch.composite import COMPOSITES
from ..dispatch.op import OPS
from .homes import HOMES

_late = {f"{ops.__name__.rpartition('.')[0]}.{home}" for home in HOMES.values()}
for _root in ops.__path__:
    for _folder, _, _files in sorted(os.walk(_root)):
        _package = ".".join((ops.__name__, *Path(_folder).relative_to(_root).parts))
        for _file in sorted(name for name in _files if name.endswith(".py")):
            _module = f"{_package}.{_file.removesuffix('.py')}"
            if _file != "__init__.py" and _module not in _late:
                importlib.import_module(_module)

__all__ = ["COMPOSITES", "OPS"]

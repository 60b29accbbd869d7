"""Local SGD: members train alone for some steps, then bring parameters to their mean.

averagers.py                    a mean over one group, every so many steps
hierarchical_model_averager.py  means over small groups often, over large ones seldom
utils.py                        the mean itself
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ....core.missing import missing

if not TYPE_CHECKING:
    _ROOMS = ("averagers", "hierarchical_model_averager", "utils")

    def __getattr__(name: str) -> Any:
        """Import a module when it is first asked for."""
        if name in _ROOMS:
            return importlib.import_module(f"{__name__}.{name}")
        raise missing(__name__, name)

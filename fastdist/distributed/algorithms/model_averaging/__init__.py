"""Local SGD: members train independently for some steps, then average their parameters.

averagers.py                    a mean over one group, periodically
hierarchical_model_averager.py  means over small groups often, over large groups rarely
utils.py                        the computation of the mean
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ....core.missing import missing, show_public

if not TYPE_CHECKING:
    _ROOMS = ("averagers", "hierarchical_model_averager", "utils")

    def __getattr__(name: str) -> Any:
        """Import a module on first access."""
        if name in _ROOMS:
            return importlib.import_module(f"{__name__}.{name}")
        raise missing(__name__, name)

    show_public(__name__, also=_ROOMS)

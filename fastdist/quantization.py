"""The old name of `ao.quantization`: an import of this module returns that package."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from .core.missing import show_public

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


sys.modules[__name__] = importlib.import_module("fastdist.ao.quantization")

show_public(__name__)

"""The earlier name of ao.quantization, which an import of this module returns.

The file is for type checkers, which run no import hook.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...

"""PyTorch's quantization and pruning: not supported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.missing import show_public
from ..core.refused import offer_refused

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
else:
    offer_refused(globals())

show_public(__name__)

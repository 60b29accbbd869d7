"""PyTorch's names for starting elastic workers: only `errors` works, the classes raise errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....core.refused import offer_refused
from . import errors

__all__ = ["errors"]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
else:
    offer_refused(globals())

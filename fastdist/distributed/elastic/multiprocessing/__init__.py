"""How PyTorch's elastic agent starts workers: its classes refuse, `errors` is real."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....core.refused import offer_refused
from . import errors

__all__ = ["errors"]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
else:
    offer_refused(globals())

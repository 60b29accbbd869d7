"""Distributed tensors: placements work, but the tensors themselves raise errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...core.refused import offer_refused
from .placement_types import Partial, Placement, Replicate, Shard

__all__ = ["Partial", "Placement", "Replicate", "Shard"]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
else:
    offer_refused(globals())

"""Distributed tensors: the placements are real, the tensors refuse until there are collectives."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from ...core.refused import find_below, refused_in
from .placement_types import Partial, Placement, Replicate, Shard

__all__ = ["Partial", "Placement", "Replicate", "Shard"]
_refused = refused_in(__name__)
globals().update(_refused)
__all__ += sorted(_refused)  # noqa: PLE0605 (a table has the names)

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
else:
    __getattr__ = functools.partial(find_below, __name__)

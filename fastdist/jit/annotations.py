"""Types that programs write in annotations for PyTorch's compiler; here they annotate only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Dict, List, Optional, Tuple, TypeVar, Union  # noqa: UP035 (old programs)

from ..core.missing import explain_missing

__all__ = [
    "Any", "BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "Dict", "List",
    "Optional", "Tuple", "Union",
]  # fmt: skip

_T = TypeVar("_T")
# One value, or a list of as many.
BroadcastingList1 = Union[_T, Sequence[_T]]  # noqa: UP007 (subscripted by programs)
BroadcastingList2 = BroadcastingList3 = BroadcastingList1

explain_missing(__name__)

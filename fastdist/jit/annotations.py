"""Types with which programs for PyTorch's compiler annotate values; they have no effect here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Dict, List, Optional, Tuple, TypeVar, Union  # noqa: UP035 (old programs)

from ..core.missing import explain_missing

__all__ = [
    "Any", "BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "Dict", "List",
    "Optional", "Tuple", "Union",
]  # fmt: skip

_T = TypeVar("_T")
# A single value, or a list; the number in the name is the length of the list.
BroadcastingList1 = Union[_T, Sequence[_T]]  # noqa: UP007 (subscripted by programs)
BroadcastingList2 = BroadcastingList3 = BroadcastingList1

explain_missing(__name__)

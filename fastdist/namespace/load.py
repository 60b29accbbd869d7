"""Imports every file of the catalogue, attaches what they declare, and gathers the names that users type.

Importing this makes Tensor complete.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

from ..dispatch.op import OPS
from ..graph import tensor_methods
from ..ops import activation, arithmetic, copying, creation, matmul, movement, reductions, transcendental
from .attach import attach_all
from .functions import attach_methods

CATALOGUE = (
    arithmetic, transcendental, activation, reductions, matmul, movement, copying, creation, tensor_methods,
)  # fmt: skip
# Ops that are the adjoints or halves of others, and names that belong to the Tensor alone.
_PRIVATE = frozenset({"place", "basic_index", "cast"})


def gather() -> dict[str, Any]:
    """Return name -> function of all that `fastdist.X` offers of the catalogue."""
    names = {name: op.public for name, op in OPS.items() if name not in _PRIVATE}
    for module in (movement, copying, creation):
        for name, value in vars(module).items():
            if isinstance(value, FunctionType) and value.__module__ == module.__name__ and name[0] != "_":
                names.setdefault(name, value)
    return names


attach_all()
attach_methods()
NAMES = gather()

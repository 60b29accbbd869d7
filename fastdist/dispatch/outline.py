"""A tensor as plans see it: its layout, without values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.errors import DeclarationError
from ..core.torch_function import disabled_torch_function
from ..tensor.tensor import Tensor


class Outline(Tensor):
    """Replaces an operand while a plan is made that is kept for all operands of its layout.

    A plan that read values would be right for these operands, and silently wrong for the next ones
    of the same layout.
    """

    __slots__ = ("_fault",)
    __torch_function__ = disabled_torch_function
    _fault: str

    @property
    def _array(self) -> Any:
        """Raise: there are no values."""
        raise DeclarationError(
            f"{self._fault}, but is kept for all tensors of the same layout: a plan may depend "
            "only on layouts and attributes. Read the values in a composite around the op and "
            "pass the result as an attribute, or let the kernel read them"
        )


def outlines(op_name: str, names: Sequence[str], operands: Sequence[Any]) -> list[Any]:
    """Return replacements for the operands of these names; None for one that is not given."""
    made: list[Any] = []
    for name, operand in zip(names, operands, strict=True):
        if operand is None:
            made.append(None)
            continue
        outline = object.__new__(Outline)
        outline._layout = operand._layout
        outline._fault = f"{op_name}: its plan read values of {name}"
        outline._edge = outline._extra = outline._storage = None
        made.append(outline)
    return made

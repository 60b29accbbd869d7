"""The empty base class of Tensor, to which other packages attach Tensor's methods.

`graph/tensor_methods.py` attaches the autograd methods, and `namespace` attaches the ops. So this
package does not import ops. `Tensor.__mul__` is the function that dispatch generates, without a
wrapper. Type checkers read `methods.pyi`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex

from ..core.device import Device
from .subclasses import share_names

# Types used in signatures; the stub has more, which refer to Tensor.
DeviceLike = Device | str | int | None
Number = int | float | complex
Sizes = SupportsIndex | Sequence[SupportsIndex]


class TensorMethods:
    """Methods of Tensor that other packages attach."""

    __slots__ = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        share_names(cls)

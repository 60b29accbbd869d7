"""The empty base of Tensor, to which the packages above attach their methods.

`graph/tensor_methods.py` attaches the autograd methods, and `namespace` attaches the ops. So this
package imports no op, and `Tensor.__mul__` is the closure that dispatch makes, without a wrapper.
Type checkers read `methods.pyi`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex

from ..core.device import Device
from .subclasses import share_names

# Words in signatures; the stub has more, which speak of Tensor.
DeviceLike = Device | str | int | None
Number = int | float | complex
Sizes = SupportsIndex | Sequence[SupportsIndex]


class TensorMethods:
    """Methods of Tensor that other packages attach."""

    __slots__ = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        share_names(cls)

"""The empty base of Tensor, to which the packages above attach their methods.

`graph/tensor_methods.py` attaches the methods of the recording, `namespace` attaches the ops. So
this package imports no op, and `Tensor.__mul__` is the very closure that dispatch makes. Type
checkers read `methods.pyi`.
"""

from __future__ import annotations

from typing import Any

from .subclasses import share_names


class TensorMethods:
    """Methods of Tensor that other rooms attach."""

    __slots__ = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        share_names(cls)

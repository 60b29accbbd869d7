"""The empty base of Tensor, on which the rooms above hang their methods.

`graph/tensor_methods.py` attaches what recording means to a Tensor, `namespace` attaches the ops.
So the tensor room knows no op, and `Tensor.__mul__` is the very closure that dispatch makes.
`methods.pyi` is what type checkers read.
"""

from __future__ import annotations


class TensorMethods:
    """Methods of Tensor that other rooms attach."""

    __slots__ = ()

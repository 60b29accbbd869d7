"""The empty base of Tensor, to which the packages above attach their methods.

`graph/tensor_methods.py` attaches the methods of the recording, `namespace` attaches the ops. So
this package imports no op, and `Tensor.__mul__` is the very closure that dispatch makes. Type
checkers read `methods.pyi`.
"""

from __future__ import annotations


class TensorMethods:
    """Methods of Tensor that other rooms attach."""

    __slots__ = ()

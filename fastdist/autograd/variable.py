"""Variable: the former name of Tensor."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ..engine.engine import queue_callback
from ..tensor.tensor import Tensor

__all__ = ["Variable"]


class _VariableType(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor)

    def __call__(
        cls, data: Any = None, requires_grad: bool | None = None, volatile: bool | None = None
    ) -> Tensor:
        """Return a new leaf that shares the memory of the tensor `data`.

        Raises  TypeError for a value that is not a Tensor
        """
        if volatile:
            warnings.warn(
                "volatile was removed and now has no effect. Use `with torch.no_grad():` instead.",
                UserWarning,
                stacklevel=2,
            )
        if data is None:
            return Tensor()
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        leaf: Tensor = data.detach()
        return leaf.requires_grad_() if requires_grad else leaf


class ImperativeEngine:
    """The engine, under the name that module wrappers use: `Variable._execution_engine`."""

    @staticmethod
    def queue_callback(callback: Callable[[], None]) -> None:
        """Call callback() when the current backward pass has run all its Nodes.

        Raises  RuntimeError if no backward pass is running

        Example:
            >>> x = torch.ones(1, requires_grad=True)
            >>> queue = torch.autograd.Variable._execution_engine.queue_callback
            >>> y = x * 2
            >>> handle = y.register_hook(lambda grad: queue(lambda: print("over")))
            >>> y.backward()
            over
        """
        queue_callback(callback)


class Variable(metaclass=_VariableType):
    """Tensor under its old name: every Tensor is a Variable, and `Variable(x)` is a detached x."""

    _execution_engine = ImperativeEngine()

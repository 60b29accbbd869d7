"""What libraries ask before they call a function on what may be another class than Tensor."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .core.missing import explain_missing, instead
from .tensor.tensor import Tensor

__all__ = ["has_torch_function", "is_tensor_like"]

instead(
    {
        f"{__name__}.{name}": "functions do not ask their arguments for __torch_function__ here"
        for name in ("TorchFunctionMode", "handle_torch_function", "wrap_torch_function")
    }
)


def is_tensor_like(inp: Any) -> bool:
    """Return whether inp is a Tensor, or takes functions of Tensors over."""
    return isinstance(inp, Tensor) or hasattr(type(inp), "__torch_function__")


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Return whether an argument that is no Tensor takes functions of Tensors over."""
    return any(hasattr(type(one), "__torch_function__") for one in relevant_args)


explain_missing(__name__)

"""What libraries ask before they call a function on what may be another class than Tensor."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .core.missing import explain_missing, instead
from .tensor.tensor import Tensor

__all__ = [
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
    "is_tensor_method_or_property",
]

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


def has_torch_function_unary(tensor: Any) -> bool:
    """Return whether an argument that is no Tensor takes functions of Tensors over."""
    return has_torch_function((tensor,))


def has_torch_function_variadic(*args: Any) -> bool:
    """Return whether an argument that is no Tensor takes functions of Tensors over."""
    return has_torch_function(args)


def is_tensor_method_or_property(func: Any) -> bool:
    """Return whether func is a method of Tensor, or what a property of it reads by."""
    reads = {one.fget for one in vars(Tensor).values() if isinstance(one, property)}
    return func in reads or getattr(Tensor, getattr(func, "__name__", ""), None) is func


explain_missing(__name__)

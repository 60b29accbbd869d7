"""PyTorch's dispatch modes: importable, but entering a mode raises an error."""

from __future__ import annotations

from typing import Any

from ..core.missing import explain_missing, refusing

__all__ = ["is_traceable_wrapper_subclass"]

_WORDS = (
    "operators are not dispatched one by one: overrides.TorchFunctionMode and __torch_function__ "
    "see calls"
)


def is_traceable_wrapper_subclass(t: object) -> bool:
    """Return whether `t` is a tensor of a subclass that wraps tensors (`__tensor_flatten__`)."""
    from ..tensor.tensor import Tensor

    kind = type(t)
    return (
        issubclass(kind, Tensor)
        and kind is not Tensor
        and hasattr(t, "__tensor_flatten__")
        and hasattr(t, "__tensor_unflatten__")
    )


def is_traceable_wrapper_subclass_type(t: type) -> bool:
    """Return whether `t` is a tensor subclass that wraps other tensors (`__tensor_flatten__`)."""
    return hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")


class TorchDispatchMode:
    """PyTorch's base class of dispatch modes. Entering an instance raises NotImplementedError."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Raise NotImplementedError."""
        raise NotImplementedError(f"TorchDispatchMode: {_WORDS}")

    def __enter__(self) -> Any:
        raise NotImplementedError(f"TorchDispatchMode: {_WORDS}")

    def __exit__(self, exc_type: object, exc_val: object, exc_tb: object) -> None:
        raise NotImplementedError(f"TorchDispatchMode: {_WORDS}")


def _get_current_dispatch_mode() -> None:
    """Return None: dispatch modes are not supported."""


_disable_current_modes = refusing(__name__, "_disable_current_modes", _WORDS)
_pop_mode_temporarily = refusing(__name__, "_pop_mode_temporarily", _WORDS)

explain_missing(__name__)

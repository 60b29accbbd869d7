"""PyTorch's file of hooks, by its name: the handle by which one is taken back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..core.caller_warning import warn_caller
from ..core.missing import explain_missing
from ..graph.node import RemovableHandle

__all__ = ["RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]

F = TypeVar("F", bound=Callable[..., Any])


def unserializable_hook(f: F) -> F:
    """Return a hook marked so that no warning says that saving leaves it out."""
    f.__torch_unserializable__ = True  # type: ignore[attr-defined]
    return f


def warn_if_has_hooks(tensor: Any) -> None:
    """Warn of each hook of a tensor that saving leaves out and that is not marked."""
    hooks = getattr(tensor, "_backward_hooks", None) or {}
    for hook in hooks.values():
        if not hasattr(hook, "__torch_unserializable__"):
            warn_caller(
                f"backward hook {hook!r} on tensor will not be serialized. If this is expected, "
                "you can decorate the function with utils.hooks.unserializable_hook to suppress "
                "this warning"
            )


explain_missing(__name__)

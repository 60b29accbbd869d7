"""PyTorch's file of hooks: the handle that removes a hook, and warnings about unsaved hooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..core.caller_warning import warn_caller
from ..core.missing import explain_missing
from ..graph.node import RemovableHandle

__all__ = ["RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]

F = TypeVar("F", bound=Callable[..., Any])


def unserializable_hook(f: F) -> F:
    """Mark a hook, so that there is no warning that the hook is not saved; return the hook."""
    f.__torch_unserializable__ = True  # type: ignore[attr-defined]
    return f


def warn_if_has_hooks(tensor: Any) -> None:
    """Warn for each unmarked hook of a tensor, because hooks are not saved."""
    hooks = getattr(tensor, "_backward_hooks", None) or {}
    for hook in hooks.values():
        if not hasattr(hook, "__torch_unserializable__"):
            warn_caller(
                f"backward hook {hook!r} on tensor will not be serialized. If this is expected, "
                "you can decorate the function with utils.hooks.unserializable_hook to suppress "
                "this warning"
            )


explain_missing(__name__)

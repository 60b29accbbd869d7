"""Hooks around a Module's forward: what is called before and after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..graph.node import RemovableHandle


class Hook(NamedTuple):
    """One registered function and how it wants to be called."""

    call: Callable[..., Any]
    with_kwargs: bool = False
    always_call: bool = False


Hooks = dict[int, Any]


def add_hook(hooks: Hooks, hook: Hook, *, prepend: bool) -> RemovableHandle:
    """Put a hook behind the others, or before them; return what takes it away."""
    others = dict(hooks)
    handle = RemovableHandle(hooks, hook)  # type: ignore[arg-type]
    if prepend:
        for number, other in others.items():
            del hooks[number]
            hooks[number] = other
    return handle


def call_with_hooks(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call module.forward between its hooks."""
    for hook in tuple(module._forward_pre_hooks.values()):
        args, kwargs = _before(module, hook, args, kwargs)
    called: set[int] = set()
    try:
        result = module.forward(*args, **kwargs)
        for number, hook in tuple(module._forward_hooks.items()):
            called.add(number)
            result = _after(module, hook, args, kwargs, result)
    except BaseException:
        for number, hook in tuple(module._forward_hooks.items()):
            if hook.always_call and number not in called:
                # The first error is the one to tell; a hook that fails as well is its context.
                _after(module, hook, args, kwargs, None)
        raise
    return result


def _before(
    module: Any, hook: Hook, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if hook.with_kwargs:
        changed = hook.call(module, args, kwargs)
        if changed is None:
            return args, kwargs
        if not (isinstance(changed, tuple) and len(changed) == 2):
            raise RuntimeError(
                "forward pre-hook must return None or a tuple of (new_args, new_kwargs), "
                f"but got {changed}."
            )
        return changed
    changed = hook.call(module, args)
    if changed is None:
        return args, kwargs
    return (changed if isinstance(changed, tuple) else (changed,)), kwargs


def _after(
    module: Any, hook: Hook, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
) -> Any:
    if hook.with_kwargs:
        changed = hook.call(module, args, kwargs, result)
    else:
        changed = hook.call(module, args, result)
    return result if changed is None else changed

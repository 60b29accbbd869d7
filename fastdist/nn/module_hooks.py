"""Hooks around a Module's forward, and backward hooks, which each call attaches to the graph."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.caller_warning import warn_caller
from ..graph.node import RemovableHandle

if TYPE_CHECKING:
    from .backward_hooks import BackwardWatch


class Hook(NamedTuple):
    """A registered hook and its options.

    `backward` is "pre" or "full" for hooks on the gradients of a whole call, "old" for hooks on the
    gradients of the last op in a call, and "" for forward hooks.
    """

    call: Callable[..., Any]
    with_kwargs: bool = False
    always_call: bool = False
    backward: str = ""


Hooks = dict[int, Any]
# Global hooks, which are called for all modules: see global_hooks.py. A module's own hooks have the
# same format.
GLOBAL_PRE_HOOKS: Hooks = {}
GLOBAL_HOOKS: Hooks = {}


def add_hook(hooks: Hooks, hook: Hook, *, prepend: bool) -> RemovableHandle:
    """Add a hook last, or first if prepend is set; return a handle that removes the hook."""
    others = dict(hooks)
    handle = RemovableHandle(hooks, hook)  # type: ignore[arg-type]
    if prepend:
        for number, other in others.items():
            del hooks[number]
            hooks[number] = other
    return handle


def hooks_of_backward(hooks: Hooks, *kinds: str) -> dict[int, Callable[..., Any]]:
    """Return the functions of the backward hooks of the given kinds."""
    return {number: hook.call for number, hook in hooks.items() if hook.backward in kinds}


def adopt_hooks(attributes: dict[str, Any]) -> None:
    """Convert the hooks of an unpickled PyTorch Module to Hooks, in the same order.

    PyTorch stores plain functions, and their options in separate dicts with the same keys.
    """

    def options(name: str) -> Any:
        return attributes.pop(name, None) or ()

    hooks = attributes.setdefault("_forward_hooks", {})
    with_kwargs = options("_forward_hooks_with_kwargs")
    always_called = options("_forward_hooks_always_called")
    _adopt(hooks, lambda call, key: Hook(call, key in with_kwargs, key in always_called))
    pre_hooks = attributes.setdefault("_forward_pre_hooks", {})
    pre_with_kwargs = options("_forward_pre_hooks_with_kwargs")
    _adopt(pre_hooks, lambda call, key: Hook(call, key in pre_with_kwargs))
    kind = "full" if attributes.pop("_is_full_backward_hook", None) else "old"
    for name, backward in (("_backward_pre_hooks", "pre"), ("_backward_hooks", kind)):
        for key, call in dict(options(name)).items():
            hooks[key] = Hook(call, backward=backward)


def _adopt(hooks: Hooks, wrap: Callable[[Any, int], Hook]) -> None:
    for key, call in hooks.items():
        if not isinstance(call, Hook):
            hooks[key] = wrap(call, key)


def call_with_hooks(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the pre-hooks, module.forward and the forward hooks, and attach backward hooks."""
    for hook in (*GLOBAL_PRE_HOOKS.values(), *module._forward_pre_hooks.values()):
        args, kwargs = _before(module, hook, args, kwargs)
    watch, old = _watch(module)
    if watch is not None:
        args = watch.inputs(args)
    called: set[int] = set()
    try:
        result = module.forward(*args, **kwargs)
        for number, hook in (*GLOBAL_HOOKS.items(), *module._forward_hooks.items()):
            called.add(number)
            if not hook.backward:
                result = _after(module, hook, args, kwargs, result)
    except BaseException:
        for number, hook in (*GLOBAL_HOOKS.items(), *module._forward_hooks.items()):
            if hook.always_call and number not in called:
                _after_error(module, hook, args, kwargs)
        raise
    _watch_last(module, old, result)
    return result if watch is None else watch.outputs(result)


def _watch(module: Any) -> tuple[BackwardWatch | None, list[Callable[..., Any]]]:
    """Return the object that runs the "pre" and "full" hooks, and the list of the "old" hooks. The
    object is None if there are no "pre" and "full" hooks.
    """
    found: dict[str, list[Callable[..., Any]]] = {"pre": [], "full": [], "old": [], "": []}
    for hook in (*GLOBAL_HOOKS.values(), *module._forward_hooks.values()):
        found[hook.backward].append(hook.call)
    if not found["pre"] and not found["full"]:
        return None, found["old"]
    from .backward_hooks import BackwardWatch  # few models need it, and autograd loads slowly

    return BackwardWatch(module, found["pre"], found["full"]), found["old"]


def _watch_last(module: Any, hooks: list[Callable[..., Any]], result: Any) -> None:
    while hooks and isinstance(result, tuple | list | dict) and len(result):
        result = next(iter(result.values() if isinstance(result, dict) else result))
    last = getattr(result, "grad_fn", None)
    if last is not None:
        for hook in hooks:
            last.register_hook(partial(hook, module))


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


def _after_error(module: Any, hook: Hook, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Call a hook with `always_call` after an error in forward; an error of the hook only warns."""
    try:
        _after(module, hook, args, kwargs, None)
    except Exception as error:
        warn_caller(
            "module forward hook with ``always_call=True`` raised an exception that was silenced "
            f"as another error was raised in forward: {error}"
        )


def _after(
    module: Any, hook: Hook, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
) -> Any:
    if hook.with_kwargs:
        changed = hook.call(module, args, kwargs, result)
    else:
        changed = hook.call(module, args, result)
    return result if changed is None else changed

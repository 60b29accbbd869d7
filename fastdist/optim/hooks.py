"""What users may have called around steps and state dicts of optimisers, of one or of all."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from ..graph.node import RemovableHandle

Hook = Callable[..., Any]
_of_all_before_steps: OrderedDict[int, Hook] = OrderedDict()
_of_all_after_steps: OrderedDict[int, Hook] = OrderedDict()


def register_optimizer_step_pre_hook(hook: Hook) -> RemovableHandle:
    """Call hook(optimizer, args, kwargs) before each step of any optimiser."""
    return RemovableHandle(_of_all_before_steps, hook)


def register_optimizer_step_post_hook(hook: Hook) -> RemovableHandle:
    """Call hook(optimizer, args, kwargs) after each step of any optimiser."""
    return RemovableHandle(_of_all_after_steps, hook)


def with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method `step` of an optimiser that calls the hooks around itself.

    Note    once a step: one that a step of a subclass calls as super().step() adds none; args are
            those of the method, with the optimiser in front, as in PyTorch
    """
    if getattr(step, "hooked", False):
        return step

    @functools.wraps(step)
    def hooked(*args: Any, **kwargs: Any) -> Any:
        optimizer: HasHooks = args[0]
        with optimizer._step_lock:
            if optimizer._is_stepping:
                return step(*args, **kwargs)
            if optimizer._opt_called is not None:
                optimizer._opt_called = True
            optimizer._is_stepping = True
            try:
                # As lists: a hook may take itself away.
                before = optimizer._optimizer_step_pre_hooks
                for hook in [*_of_all_before_steps.values(), *before.values()]:
                    args, kwargs = _changed_by(hook, optimizer, args, kwargs)
                result = step(*args, **kwargs)
                after = optimizer._optimizer_step_post_hooks
                for hook in [*after.values(), *_of_all_after_steps.values()]:
                    hook(optimizer, args, kwargs)
            finally:
                optimizer._is_stepping = False
        return result

    hooked.hooked = True  # type: ignore[attr-defined]
    return hooked


def _changed_by(
    hook: Hook, optimizer: HasHooks, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    changed = hook(optimizer, args, kwargs)
    if changed is None:
        return args, kwargs
    if not (isinstance(changed, tuple) and len(changed) == 2):
        raise RuntimeError(
            f"{type(optimizer).__name__}.step must return None or a tuple of (new_args, "
            f"new_kwargs), but got {changed}: returned by the pre-hook {hook!r}"
        )
    return changed


class HasHooks:
    """The part of an optimiser that keeps its hooks."""

    _step_lock: Any
    _is_stepping = False
    # Whether a step was done since a scheduler was made; None while no scheduler wants to know.
    _opt_called: bool | None = None

    def _start_hooks(self) -> None:
        self._optimizer_step_pre_hooks: OrderedDict[int, Hook] = OrderedDict()
        self._optimizer_step_post_hooks: OrderedDict[int, Hook] = OrderedDict()
        self._optimizer_state_dict_pre_hooks: OrderedDict[int, Hook] = OrderedDict()
        self._optimizer_state_dict_post_hooks: OrderedDict[int, Hook] = OrderedDict()
        self._optimizer_load_state_dict_pre_hooks: OrderedDict[int, Hook] = OrderedDict()
        self._optimizer_load_state_dict_post_hooks: OrderedDict[int, Hook] = OrderedDict()

    def register_step_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call hook(optimizer, args, kwargs) before each step; it may return new args and
        kwargs.
        """
        return RemovableHandle(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call hook(optimizer, args, kwargs) after each step."""
        return RemovableHandle(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call hook(optimizer) before each state_dict."""
        return _put(self._optimizer_state_dict_pre_hooks, hook, prepend=prepend)

    def register_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call hook(optimizer, state_dict) after each state_dict; it may return another."""
        return _put(self._optimizer_state_dict_post_hooks, hook, prepend=prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Hook, prepend: bool = False
    ) -> RemovableHandle:
        """Call hook(optimizer, state_dict) before each load_state_dict; it may return another."""
        return _put(self._optimizer_load_state_dict_pre_hooks, hook, prepend=prepend)

    def register_load_state_dict_post_hook(
        self, hook: Hook, prepend: bool = False
    ) -> RemovableHandle:
        """Call hook(optimizer) after each load_state_dict."""
        return _put(self._optimizer_load_state_dict_post_hooks, hook, prepend=prepend)


def _put(hooks: OrderedDict[int, Hook], hook: Hook, *, prepend: bool) -> RemovableHandle:
    handle = RemovableHandle(hooks, hook)
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle

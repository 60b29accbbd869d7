"""Hooks before and after steps and state-dict calls, of one optimiser or of all optimisers."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable
from threading import RLock
from typing import Any, Final

from ..core.folded_frames import fold
from ..graph.node import RemovableHandle

Hook = Callable[..., Any]
_of_all_before_steps: OrderedDict[int, Hook] = OrderedDict()
_of_all_after_steps: OrderedDict[int, Hook] = OrderedDict()
_KINDS: Final = (
    "_optimizer_step_pre_hooks",
    "_optimizer_step_post_hooks",
    "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks",
    "_optimizer_load_state_dict_pre_hooks",
    "_optimizer_load_state_dict_post_hooks",
)


def register_optimizer_step_pre_hook(hook: Hook) -> RemovableHandle:
    """Register a function hook(optimizer, args, kwargs) to call before each optimiser's steps."""
    return RemovableHandle(_of_all_before_steps, hook)


def register_optimizer_step_post_hook(hook: Hook) -> RemovableHandle:
    """Register a function hook(optimizer, args, kwargs) to call after each optimiser's steps."""
    return RemovableHandle(_of_all_after_steps, hook)


def with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method `step` of an optimiser so that it calls the hooks before and after the step.

    Note    hooks run once per step, even if the step of a subclass calls super().step(). Hooks get
            the optimiser and the arguments of step, as in PyTorch. If a wrapper of an optimiser
            skips `Optimizer.__init__`, its steps use the hooks and the lock of the inner optimiser,
            unless hooks were registered on the wrapper
    """
    if getattr(step, "hooked", False):
        return step

    @functools.wraps(step)
    def hooked(*args: Any, **kwargs: Any) -> Any:
        optimizer: HasHooks = args[0]
        if optimizer.__dict__.get("_started_as") != id(optimizer):
            if optimizer._opt_called is not None:
                optimizer._opt_called = True
            return step(*args, **kwargs)
        with lock_of(optimizer):
            if optimizer._is_stepping:
                return step(*args, **kwargs)
            if optimizer._opt_called is not None:
                optimizer._opt_called = True
            optimizer._is_stepping = True
            try:
                # The loops iterate over copies, because a hook may remove itself.
                before = hooks_of(optimizer, "_optimizer_step_pre_hooks")
                for hook in [*_of_all_before_steps.values(), *before.values()]:
                    args, kwargs = _changed_by(hook, optimizer, args, kwargs)
                result = step(*args, **kwargs)
                after = hooks_of(optimizer, "_optimizer_step_post_hooks")
                for hook in [*after.values(), *_of_all_after_steps.values()]:
                    hook(optimizer, args, kwargs)
            except Exception as error:
                fold(error)
                raise
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


# Note [Optimisers without __init__]
# A subclass that wraps another optimiser often skips `Optimizer.__init__`: its `param_groups` and
# `state` are properties, and its `step` calls the inner optimiser. So no method relies on
# attributes that `__init__` sets: hooks and the lock are created on first use. A wrapper that
# forwards unknown names to the inner optimiser by `__getattr__`, or copies its `__dict__`, uses the
# inner optimiser's hooks and lock.


def hooks_of(optimizer: Any, name: str) -> OrderedDict[int, Hook]:
    """Return an optimiser's hooks of the kind `name`. See Note [Optimisers without __init__].

    Thread  any
    """
    found = getattr(optimizer, name, None)
    if found is None:
        found = optimizer.__dict__.setdefault(name, OrderedDict())
    return found  # type: ignore[no-any-return]


def lock_of(optimizer: Any) -> Any:
    """Return the lock that an optimiser holds during a step; create the lock on first use.

    Thread  any
    """
    found = getattr(optimizer, "_step_lock", None)
    return optimizer.__dict__.setdefault("_step_lock", RLock()) if found is None else found


class HasHooks:
    """Base class of Optimizer, which stores the optimiser's hooks."""

    _is_stepping = False
    # Whether a step has run since a scheduler was created; None without a scheduler.
    _opt_called: bool | None = None

    def _start_hooks(self) -> None:
        # The lock is held during a whole step, including user hooks. A step does not acquire the
        # locks of other optimisers.
        self._step_lock = RLock()
        self._started_as = id(self)  # differs from id(self) after a copy of `__dict__`
        for name in _KINDS:
            setattr(self, name, OrderedDict[int, Hook]())

    def _register_around_steps(self, name: str, hook: Hook) -> RemovableHandle:
        if "_started_as" not in self.__dict__ and not hasattr(self, name):
            self._start_hooks()
        return RemovableHandle(hooks_of(self, name), hook)

    def register_step_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call hook(optimizer, args, kwargs) before each step. A hook may return new arguments."""
        return self._register_around_steps("_optimizer_step_pre_hooks", hook)

    def register_step_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call hook(optimizer, args, kwargs) after each step."""
        return self._register_around_steps("_optimizer_step_post_hooks", hook)

    def register_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call hook(optimizer) before each state_dict call."""
        return _put(self, "_optimizer_state_dict_pre_hooks", hook, prepend=prepend)

    def register_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call hook(optimizer, state_dict) after each state_dict call. If the hook returns a dict,
        this dict is used instead.
        """
        return _put(self, "_optimizer_state_dict_post_hooks", hook, prepend=prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Hook, prepend: bool = False
    ) -> RemovableHandle:
        """Call hook(optimizer, state_dict) before each load_state_dict. If the hook returns a dict,
        this dict is used instead.
        """
        return _put(self, "_optimizer_load_state_dict_pre_hooks", hook, prepend=prepend)

    def register_load_state_dict_post_hook(
        self, hook: Hook, prepend: bool = False
    ) -> RemovableHandle:
        """Call hook(optimizer) after each load_state_dict."""
        return _put(self, "_optimizer_load_state_dict_post_hooks", hook, prepend=prepend)


def _put(optimizer: Any, name: str, hook: Hook, *, prepend: bool) -> RemovableHandle:
    hooks = hooks_of(optimizer, name)
    handle = RemovableHandle(hooks, hook)
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle

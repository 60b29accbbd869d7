"""Hooks on all modules, which run at every call or registration (of a parameter, buffer or child).

The hooks are for debugging and profiling. The functions have the same names and arguments as in
PyTorch's nn/modules/module.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..graph.node import RemovableHandle
from .module_hooks import GLOBAL_HOOKS, GLOBAL_PRE_HOOKS, Hook, add_hook
from .module_tree import BUFFER_HOOKS, MODULE_HOOKS, PARAMETER_HOOKS

Function = Callable[..., Any]

# PyTorch's private names. Backward hooks are kept in the table of forward hooks.
_global_forward_pre_hooks = GLOBAL_PRE_HOOKS
_global_forward_hooks = GLOBAL_HOOKS
_global_parameter_registration_hooks = PARAMETER_HOOKS
_global_buffer_registration_hooks = BUFFER_HOOKS
_global_module_registration_hooks = MODULE_HOOKS


def register_module_forward_pre_hook(hook: Function) -> RemovableHandle:
    """Call hook(module, args) before every module's forward; the hook's result replaces args."""
    return add_hook(GLOBAL_PRE_HOOKS, Hook(hook), prepend=False)


def register_module_forward_hook(
    hook: Function, *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call hook(module, args, output) after every module's forward.

    The hook's result replaces output.

    Args:
        hook: The function.
        with_kwargs: Whether to call hook(module, args, kwargs, output) instead.
        always_call: Whether to call the hook with output=None when forward raises.
    """
    return add_hook(GLOBAL_HOOKS, Hook(hook, with_kwargs, always_call), prepend=False)


def register_module_full_backward_pre_hook(hook: Function) -> RemovableHandle:
    """Call hook(module, grad_output) in each backward pass through a module.

    The hook's result replaces grad_output.
    """
    return add_hook(GLOBAL_HOOKS, Hook(hook, backward="pre"), prepend=False)


def register_module_full_backward_hook(hook: Function) -> RemovableHandle:
    """Call hook(module, grad_input, grad_output) in each backward pass through a module.

    The hook's result replaces grad_input.

    Raises  RuntimeError if register_module_backward_hook has registered a hook
    """
    _require_no("old", "a full")
    return add_hook(GLOBAL_HOOKS, Hook(hook, backward="full"), prepend=False)


def register_module_backward_hook(hook: Function) -> RemovableHandle:
    """Call hook(module, grad_input, grad_output) in each backward pass through a module. The
    gradients are those of the inputs and outputs of the last op in the module's call.

    Raises  RuntimeError if register_module_full_backward_hook has registered a hook
    """
    _require_no("full", "a regular")
    return add_hook(GLOBAL_HOOKS, Hook(hook, backward="old"), prepend=False)


def register_module_parameter_registration_hook(hook: Function) -> RemovableHandle:
    """Call hook(module, name, parameter) when a module registers a parameter.

    The hook's result replaces the parameter.
    """
    return RemovableHandle(PARAMETER_HOOKS, hook)


def register_module_buffer_registration_hook(hook: Function) -> RemovableHandle:
    """Call hook(module, name, buffer) when a module registers a buffer.

    The hook's result replaces the buffer.
    """
    return RemovableHandle(BUFFER_HOOKS, hook)


def register_module_module_registration_hook(hook: Function) -> RemovableHandle:
    """Call hook(module, name, child) when a module registers a child.

    The hook's result replaces the child.
    """
    return RemovableHandle(MODULE_HOOKS, hook)


def _has_any_global_hook() -> bool:
    return bool(GLOBAL_PRE_HOOKS or GLOBAL_HOOKS)


def _require_no(kind: str, wanted: str) -> None:
    if any(hook.backward == kind for hook in GLOBAL_HOOKS.values()):
        other = "full" if kind == "full" else "regular"
        raise RuntimeError(
            f"cannot register {wanted} backward hook for all modules: they have {other} ones; "
            "remove those first"
        )

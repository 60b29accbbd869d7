"""Policies that select the modules of a model to wrap, for example for sharding.

A policy is called as `policy(module, recurse=..., nonwrapped_numel=...)`. With recurse=True it
returns whether to visit the module's children. With recurse=False it returns whether to wrap the
module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...core.missing import explain_missing
from ...nn import Module, ModuleDict, ModuleList, MultiheadAttention

__all__ = [
    "CustomPolicy", "ModuleWrapPolicy", "always_wrap_policy", "enable_wrap",
    "lambda_auto_wrap_policy", "size_based_auto_wrap_policy", "transformer_auto_wrap_policy",
    "wrap",
]  # fmt: skip

_Policy = Callable[..., bool]
# The wrappers and options of the open `enable_wrap` blocks, innermost last.
_wrappers: list[tuple[Any, dict[str, Any]]] = []


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """Return True, to wrap each module."""
    return True


def _module_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, module_classes: set[type[Module]]
) -> bool:
    return recurse or isinstance(module, tuple(module_classes))


def transformer_auto_wrap_policy(
    module: Module,
    recurse: bool,
    nonwrapped_numel: int,
    transformer_layer_cls: set[type[Module]],
) -> bool:
    """Return whether to wrap a module: True for the given classes, such as a layer's class."""
    return _module_wrap_policy(module, recurse, nonwrapped_numel, transformer_layer_cls)


def lambda_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, lambda_fn: Callable[[Module], bool]
) -> bool:
    """Return whether to wrap a module: the result of lambda_fn(module)."""
    return recurse or lambda_fn(module)


def size_based_auto_wrap_policy(
    module: Module,
    recurse: bool,
    nonwrapped_numel: int,
    min_num_params: int = 100_000_000,
    force_leaf_modules: set[type[Module]] | None = None,
    exclude_wrap_modules: set[type[Module]] | None = None,
) -> bool:
    """Return whether to wrap a module: True if it has enough parameters that are not wrapped yet.

    Args:
        module: The module.
        recurse: If true, return instead whether to visit the module's children.
        nonwrapped_numel: The number of elements of the module's unwrapped parameters.
        min_num_params: The smallest number of such elements for which a module is wrapped.
        force_leaf_modules: Classes whose children are not visited; by default MultiheadAttention.
        exclude_wrap_modules: Classes that are never wrapped; by default ModuleList and ModuleDict.
    """
    leaves = {MultiheadAttention} if force_leaf_modules is None else force_leaf_modules
    excluded = {ModuleList, ModuleDict} if exclude_wrap_modules is None else exclude_wrap_modules
    large = nonwrapped_numel >= min_num_params
    return large and not isinstance(module, tuple(leaves if recurse else excluded))


def _or_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, policies: Sequence[_Policy]
) -> bool:
    return any(
        policy(module=module, recurse=recurse, nonwrapped_numel=nonwrapped_numel)
        for policy in policies
    )


class ModuleWrapPolicy:
    """A policy that wraps modules of the given classes."""

    def __init__(self, module_classes: Iterable[type[Module]]) -> None:
        self._module_classes = set(module_classes)
        self._module_classes_str = str(self._module_classes)

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        return _module_wrap_policy(module, recurse, -1, self._module_classes)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._module_classes_str})"


class CustomPolicy:
    """A policy that wraps the modules that a function selects.

    Args:
        lambda_fn: A function that is called with a module. It returns whether to wrap the module,
            or a dict of options for the wrapper.
    """

    def __init__(self, lambda_fn: Callable[[Module], bool | dict[str, Any]]) -> None:
        self._lambda_fn = lambda_fn


@contextmanager
def enable_wrap(*, wrapper_cls: Any, **wrapper_kwargs: Any) -> Iterator[None]:
    """Let calls of `wrap` inside the block wrap their modules.

    Args:
        wrapper_cls: The wrapper class; it is called with a module and the options.
        wrapper_kwargs: The options.
    """
    _wrappers.append((wrapper_cls, wrapper_kwargs))
    try:
        yield
    finally:
        _wrappers.pop()


def wrap(module: Module, **wrap_overrides: Any) -> Module:
    """Return the wrapped module inside an `enable_wrap` block, and the unchanged module elsewhere.

    Args:
        module: The module.
        wrap_overrides: Options that differ from those of `enable_wrap`.
    """
    if not _wrappers:
        return module
    wrapper, options = _wrappers[-1]
    wrapped: Module = wrapper(module, **{**options, **wrap_overrides})
    return wrapped


def wrap_below(
    module: Module, policy: _Policy, wrapper: Callable[[Module], Module], seen: set[int]
) -> tuple[Module, int]:
    """Wrap the modules that the policy selects among the module and all modules below it.

    Args:
        module: The module, whose children are replaced in place.
        policy: The policy.
        wrapper: A function that returns a wrapped module.
        seen: The ids of modules that were visited, which are not visited again.

    Returns:
        The module or its wrapper, and the number of parameter elements that are wrapped.
    """
    whole = sum(parameter.numel() for parameter in module.parameters())
    if not policy(module=module, recurse=True, nonwrapped_numel=whole):
        return module, 0
    wrapped = 0
    for name, child in module.named_children():
        if id(child) not in seen:
            seen.add(id(child))
            new, count = wrap_below(child, policy, wrapper, seen)
            setattr(module, name, new)
            wrapped += count
    rest = whole - wrapped
    if policy(module=module, recurse=False, nonwrapped_numel=rest):
        return wrapper(module), whole
    return module, wrapped


explain_missing(__name__)

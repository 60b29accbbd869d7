"""Which modules of a model are wrapped, such as by fully sharded data parallelism.

A policy is called with a module as `policy(module, recurse=..., nonwrapped_numel=...)`. With
recurse=True it returns whether to look at the children, with False whether to wrap the module.
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
# The wrapper and its options within `enable_wrap`, innermost last.
_wrappers: list[tuple[Any, dict[str, Any]]] = []


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """Return True: wrap each module."""
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
    """Return whether to wrap a module: those of the given classes, such as a model's layers."""
    return _module_wrap_policy(module, recurse, nonwrapped_numel, transformer_layer_cls)


def lambda_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, lambda_fn: Callable[[Module], bool]
) -> bool:
    """Return whether to wrap a module: where lambda_fn(module) says so."""
    return recurse or lambda_fn(module)


def size_based_auto_wrap_policy(
    module: Module,
    recurse: bool,
    nonwrapped_numel: int,
    min_num_params: int = 100_000_000,
    force_leaf_modules: set[type[Module]] | None = None,
    exclude_wrap_modules: set[type[Module]] | None = None,
) -> bool:
    """Return whether to wrap a module: those with so many parameters that are not wrapped yet.

    Args:
        module: The module.
        recurse: Ask whether to look at its children instead.
        nonwrapped_numel: How many numbers its unwrapped parameters have.
        min_num_params: The smallest count to wrap.
        force_leaf_modules: Classes whose children are left alone: attention by default.
        exclude_wrap_modules: Classes that are never wrapped: lists and dicts by default.
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
    """The policy that wraps modules of the given classes."""

    def __init__(self, module_classes: Iterable[type[Module]]) -> None:
        self._module_classes = set(module_classes)
        self._module_classes_str = str(self._module_classes)

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        return _module_wrap_policy(module, recurse, -1, self._module_classes)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._module_classes_str})"


class CustomPolicy:
    """The policy that wraps where a function says so.

    Args:
        lambda_fn: Takes a module; returns whether to wrap it, or the wrapper's options as a dict.
    """

    def __init__(self, lambda_fn: Callable[[Module], bool | dict[str, Any]]) -> None:
        self._lambda_fn = lambda_fn


@contextmanager
def enable_wrap(*, wrapper_cls: Any, **wrapper_kwargs: Any) -> Iterator[None]:
    """Let `wrap` wrap modules within the block.

    Args:
        wrapper_cls: The wrapper: it is called with the module and the options.
        wrapper_kwargs: The options.
    """
    _wrappers.append((wrapper_cls, wrapper_kwargs))
    try:
        yield
    finally:
        _wrappers.pop()


def wrap(module: Module, **wrap_overrides: Any) -> Module:
    """Return the module wrapped within `enable_wrap`, and unchanged outside of it.

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
    """Return the module with its children, and itself, wrapped where the policy says so.

    Args:
        module: The module, whose children are replaced in place.
        policy: The policy.
        wrapper: Returns the wrapped module.
        seen: The ids of modules that were looked at, which are left alone.

    Returns:
        The module or its wrapper, and how many numbers of parameters are wrapped.
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

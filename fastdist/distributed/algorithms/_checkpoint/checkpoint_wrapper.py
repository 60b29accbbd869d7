"""Module wrappers that recompute activations, or keep activations in CPU memory."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from typing import Any

from ....autograd.graph import save_on_cpu
from ....core.missing import explain_missing
from ....nn import Module, Parameter
from ....utils.checkpoint import checkpoint
from ...fsdp.wrap import lambda_auto_wrap_policy, wrap_below

__all__ = [
    "ActivationWrapper", "CheckpointImpl", "CheckpointWrapper", "OffloadWrapper",
    "apply_activation_checkpointing", "checkpoint_wrapper", "offload_wrapper",
]  # fmt: skip

_CHECKPOINT_WRAPPED_MODULE = "_checkpoint_wrapped_module"
_CHECKPOINT_PREFIX = _CHECKPOINT_WRAPPED_MODULE + "."


class CheckpointImpl(enum.Enum):
    """Selects one of the two implementations of `utils.checkpoint.checkpoint`."""

    REENTRANT = 1
    NO_REENTRANT = 2


class ActivationWrapper(Module):
    """The base class of the wrappers. A wrapper has the attributes and the state_dict of the
    wrapped module.
    """

    def __init__(self, mod: Module) -> None:
        super().__init__()
        self._checkpoint_wrapped_module = mod
        self._register_state_dict_hook(_remove_prefix)
        self._register_load_state_dict_pre_hook(_add_prefix)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the result; subclasses must implement it.

        Raises  ValueError if the method was not overridden
        """
        raise ValueError("Subclasses should implement forward().")

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self._checkpoint_wrapped_module, name)

    def __getitem__(self, key: int) -> Any:
        return self._checkpoint_wrapped_module[key]  # type: ignore[index]

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Parameter]]:
        """Yield the parameters with the names that they have in the wrapped module."""
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield name.replace(_CHECKPOINT_PREFIX, ""), parameter


def _remove_prefix(
    module: Module, state: dict[str, Any], prefix: str, *args: Any
) -> dict[str, Any]:
    _rename(state, prefix + _CHECKPOINT_PREFIX, prefix)
    return state


def _add_prefix(state: dict[str, Any], prefix: str, *args: Any) -> None:
    _rename(state, prefix, prefix + _CHECKPOINT_PREFIX)


def _rename(state: dict[str, Any], old: str, new: str) -> None:
    for key in [key for key in state if key.startswith(old)]:
        state[new + key.removeprefix(old)] = state.pop(key)


class OffloadWrapper(ActivationWrapper):
    """A module whose saved activations are kept in CPU memory."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return the result of the wrapped module."""
        with save_on_cpu(pin_memory=True):
            return self._checkpoint_wrapped_module(*args, **kwargs)


class CheckpointWrapper(ActivationWrapper):
    """A module whose activations are recomputed in the backward pass.

    Args:
        mod: The module to wrap.
        checkpoint_impl: The implementation of `checkpoint`.
        checkpoint_fn: The function that runs the module and recomputes its activations; by default
            `utils.checkpoint.checkpoint`.
        checkpoint_fn_kwargs: Options of checkpoint_fn.
    """

    def __init__(
        self,
        mod: Module,
        checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
        checkpoint_fn: Callable[..., Any] | None = None,
        **checkpoint_fn_kwargs: Any,
    ) -> None:
        super().__init__(mod)
        self.checkpoint_impl = checkpoint_impl
        if checkpoint_fn is None:
            checkpoint_fn = checkpoint
            checkpoint_fn_kwargs["use_reentrant"] = checkpoint_impl is CheckpointImpl.REENTRANT
        self.checkpoint_fn = checkpoint_fn
        self._options = checkpoint_fn_kwargs

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return the result of the wrapped module."""
        if self.checkpoint_impl is CheckpointImpl.REENTRANT and kwargs:
            # The reentrant implementation accepts only positional arguments.
            return self.checkpoint_fn(
                lambda *given: self._checkpoint_wrapped_module(*given, **kwargs),
                *args,
                **self._options,
            )
        return self.checkpoint_fn(self._checkpoint_wrapped_module, *args, **self._options, **kwargs)


def offload_wrapper(module: Module) -> Module:
    """Return the module wrapped in an OffloadWrapper."""
    return OffloadWrapper(module)


def checkpoint_wrapper(
    module: Module,
    checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
    checkpoint_fn: Callable[..., Any] | None = None,
    **checkpoint_fn_kwargs: Any,
) -> Module:
    """Return the module wrapped in a CheckpointWrapper, whose class describes the arguments."""
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def apply_activation_checkpointing(
    model: Module,
    checkpoint_wrapper_fn: Callable[[Module], Module] = checkpoint_wrapper,
    check_fn: Callable[[Module], bool] = lambda _: True,
    auto_wrap_policy: Callable[..., bool] | None = None,
) -> None:
    """Wrap modules inside a model, in place; the model itself is not wrapped.

    Args:
        model: The model.
        checkpoint_wrapper_fn: Called with a module; returns its wrapper.
        check_fn: Called with a module; returns whether to wrap it.
        auto_wrap_policy: A policy of `fsdp.wrap` that selects the modules instead of check_fn.
    """

    def chosen(module: Module, recurse: bool, nonwrapped_numel: int) -> bool:
        return lambda_auto_wrap_policy(module, recurse, nonwrapped_numel, check_fn)

    policy = chosen if auto_wrap_policy is None else auto_wrap_policy
    seen = {id(model)}
    for name, child in list(model.named_children()):
        if id(child) not in seen:
            seen.add(id(child))
            setattr(model, name, wrap_below(child, policy, checkpoint_wrapper_fn, seen)[0])


explain_missing(__name__)

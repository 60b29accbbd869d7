"""Modules as functions of their parameters, as in the former package functorch.

`func.functional_call` takes parameters by name. The functions that this module returns take a
sequence of parameters.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from ..core.missing import explain_missing
from ..func import functional_call, stack_module_state
from ..nn.module import Module
from ..tensor.tensor import Tensor

__all__ = [
    "FunctionalModule",
    "FunctionalModuleWithBuffers",
    "combine_state_for_ensemble",
    "make_functional",
    "make_functional_with_buffers",
]


class FunctionalModule:
    """A function of a module's parameters (in the order of named_parameters) and arguments."""

    def __init__(self, stateless_model: Module, names: Sequence[str]) -> None:
        self.stateless_model = stateless_model
        self.param_names = tuple(names)

    def __call__(self, params: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:
        named = dict(zip(self.param_names, params, strict=True))
        return functional_call(self.stateless_model, named, args, kwargs)


class FunctionalModuleWithBuffers:
    """A function of a module's parameters, its buffers and its arguments."""

    def __init__(
        self, stateless_model: Module, names: Sequence[str], buffer_names: Sequence[str]
    ) -> None:
        self.stateless_model = stateless_model
        self.param_names, self.buffer_names = tuple(names), tuple(buffer_names)

    def __call__(
        self, params: Sequence[Tensor], buffers: Sequence[Tensor], *args: Any, **kwargs: Any
    ) -> Any:
        named = dict(zip(self.param_names, params, strict=True))
        named.update(zip(self.buffer_names, buffers, strict=True))
        return functional_call(self.stateless_model, named, args, kwargs)


def make_functional(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModule, tuple[Tensor, ...]]:
    """Return a function of a module's parameters and arguments, and copies of the parameters.

    Raises  RuntimeError for a module with buffers
    """
    if next(iter(model.buffers()), None) is not None:
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use "
            "make_functional_with_buffers(model) instead."
        )
    made, params, _ = make_functional_with_buffers(model, disable_autograd_tracking)
    return FunctionalModule(made.stateless_model, made.param_names), params


def make_functional_with_buffers(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Return a function of a module's parameters, buffers and arguments; and copies of its
    parameters and buffers.

    Args:
        model: The module; it is not changed.
        disable_autograd_tracking: Whether to return parameters that do not require grad.
    """
    held = copy.deepcopy(model)
    named, buffers = dict(held.named_parameters()), dict(held.named_buffers())
    if disable_autograd_tracking:
        for one in named.values():
            one.requires_grad_(False)
    made = FunctionalModuleWithBuffers(held, list(named), list(buffers))
    return made, tuple(named.values()), tuple(buffers.values())


def combine_state_for_ensemble(
    models: Sequence[Module],
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Return the first model as a function of parameters, buffers and arguments; and the parameters
    and buffers of all models, stacked for `vmap`.

    Raises  RuntimeError for models of different classes, or for a mix of training and eval mode
    """
    params, buffers = stack_module_state(list(models))
    made = FunctionalModuleWithBuffers(copy.deepcopy(models[0]), list(params), list(buffers))
    return made, tuple(params.values()), tuple(buffers.values())


explain_missing(__name__)

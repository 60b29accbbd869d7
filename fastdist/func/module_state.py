"""Stacks the states of several modules, and removes the running statistics of batch norms."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..core.folded_frames import folds
from ..core.sequences import finite_list
from ..core.short_repr import short_repr
from ..nn.batch_norm import _BatchNorm
from ..nn.module import Module
from ..ops.shape.joining import stack


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Remove the running statistics of all batch norms in root, in place, and return root."""
    for one in root.modules():
        if isinstance(one, _BatchNorm):
            one.running_mean = one.running_var = one.num_batches_tracked = None
            one.track_running_stats = False
    return root


@folds
def stack_module_state(models: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parameters and the buffers of several models of one class: two dicts by name. Each
    value is the stack of the models' tensors along a new first axis. The parameters are leaves.

    Raises  RuntimeError for an empty list, for different classes, or for a mix of training and eval
            mode
    """
    models = finite_list(models) if isinstance(models, Iterable) else [models]
    for place, model in enumerate(models):
        if not isinstance(model, Module):
            raise TypeError(
                "stack_module_state(): argument 'models' must be a sequence of Modules; element "
                f"{place} is {short_repr(model)}"
            )
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({model.training for model in models}) > 1:
        raise RuntimeError(
            "stack_module_state: Expected all models to have the same training/eval mode."
        )
    if len({type(model) for model in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")

    def stacked(of: Callable[[Module], Any]) -> dict[str, Any]:
        each = [dict(of(model)) for model in models]
        return {
            name: stack([one[name] for one in each]).detach().requires_grad_(first.requires_grad)
            for name, first in each[0].items()
        }

    return stacked(Module.named_parameters), stacked(Module.named_buffers)

"""The mean of parameters over a group."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ....core.missing import show_public
from ....graph.modes import no_grad
from ....nn.parameter import Parameter
from ....ops.shape.joining import cat
from ....tensor.tensor import Tensor
from ...process_group.collectives import all_reduce
from ...process_group.world import group_of, is_outside

__all__ = [
    "average_parameters",
    "average_parameters_or_parameter_groups",
    "get_params_to_average",
]


def average_parameters(params: Iterable[Tensor], process_group: Any) -> None:
    """Replace parameters by their means over a group; do nothing in a process outside the group.

    Parameters with the same dtype and device share one message, so none is converted. All members
    must pass parameters with the same shapes.

    Args:
        params: The parameters.
        process_group: The group; the default group if None.
    """
    if is_outside(process_group):
        return
    group = group_of(process_group)
    by_kind: dict[Any, list[Any]] = {}
    for one in params:
        layout = one._layout
        by_kind.setdefault((layout.dtype, layout.device), []).append(one)
    with no_grad():
        for tensors in by_kind.values():
            joined: Any = cat([one.detach().reshape(-1) for one in tensors])
            joined.div_(group.size())
            all_reduce(joined, group=group)
            parts = joined.split([one.numel() for one in tensors])
            for one, part in zip(tensors, parts, strict=True):
                one.copy_(part.reshape(one.shape))


def get_params_to_average(params: Iterable[Any]) -> list[Tensor]:
    """Return the parameters that have gradients.

    Raises  NotImplementedError if an entry is neither a Parameter nor a parameter group

    Args:
        params: Parameters, such as `model.parameters()`, or an optimizer's `param_groups`.
    """
    found: list[Tensor] = []
    for one in params:
        if isinstance(one, Parameter):
            found.append(one)
        elif isinstance(one, dict):
            found.extend(one["params"])
        else:
            raise NotImplementedError(f"Parameter input of type {type(one)} is not supported")
    return [one for one in found if one.grad is not None]


def average_parameters_or_parameter_groups(params: Iterable[Any], process_group: Any) -> None:
    """Replace the parameters that have gradients by their means over a group.

    Args:
        params: See `get_params_to_average`.
        process_group: The group; the default group if None.
    """
    average_parameters(get_params_to_average(params), process_group)


show_public(__name__)

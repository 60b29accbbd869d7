"""Checks of options that PyTorch's optimisers share: ranges, and mutually exclusive options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.short_repr import short_repr
from ..devices.backend import backend_of
from ..tensor.tensor import Tensor

_NOT_NEGATIVE = frozenset(
    {"eps", "initial_accumulator_value", "lr_decay", "momentum", "momentum_decay", "weight_decay"}
)


def checked(**options: Any) -> dict[str, Any]:
    """Check the ranges of a constructor's options, and return them.

    Raises  ValueError for the first option that is out of range
    """
    for name, value in options.items():
        if name == "lr":
            require_rate(value)
        elif name == "betas":
            _require_betas(value)
        elif name in _NOT_NEGATIVE:
            what = "epsilon" if name == "eps" else name
            require_not_negative(f"{what} value", value)
    return options


def require_rate(lr: Any) -> None:
    """Raise for a learning rate that is negative, NaN, or a Tensor of several elements."""
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError(f"Tensor lr must be 1-element; it has {lr.numel()}")
    require_not_negative("learning rate", lr)


def require_not_negative(what: str, value: Any) -> None:
    """Raise for a number that is negative or NaN."""
    if not value >= 0.0:
        raise ValueError(f"Invalid {what}: {value}; it must be 0 or more")


def _require_betas(betas: tuple[Any, Any]) -> None:
    """Raise unless betas has two entries and all are in [0, 1)."""
    if len(betas) < 2:
        raise IndexError(f"betas must be two decay rates, got {short_repr(betas)}")
    for number, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(
                f"Invalid beta parameter at index {number}: {beta}; it must be in [0, 1)"
            )


def require_one_way(*, fused: bool | None, foreach: bool | None, differentiable: bool) -> None:
    """Raise for options that are mutually exclusive, as in PyTorch."""
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`: leave fused out")
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


def require_no_lists(group: dict[str, Any]) -> None:
    """Raise if a group has both differentiable and foreach set."""
    if group["foreach"] and group.get("differentiable"):
        raise AssertionError("_foreach ops don't support autograd: leave foreach out")


def require_not_captured(optimizer: Any, parameters: Sequence[Tensor]) -> None:
    """Raise while a graph is captured on the parameters' devices.

    Each replay of the graph would repeat the step with the same step number.
    """
    for device in {parameter._layout.device for parameter in parameters}:
        if backend_of(device.type).is_capturing(device.index):
            raise RuntimeError(
                "Attempting CUDA graph capture of step() for an instance of "
                f"{type(optimizer).__name__} but param_groups' capturable is False. Make it with "
                "capturable=True, where it has that; otherwise step after each replay"
            )


def require_for_fused(parameter: Tensor) -> None:
    """Raise for a parameter that fused=True does not support."""
    if not parameter.is_floating_point():
        raise RuntimeError(
            "`fused=True` requires all the params to be floating point Tensors of supported "
            f"devices, but {parameter.dtype} and {parameter.device.type}"
        )

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
    """Check the ranges of a constructor's options, and return the options.

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
    """Raise ValueError for a rate that is negative, NaN, or a Tensor of several elements."""
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError(f"Tensor lr must be 1-element; it has {lr.numel()}")
    require_not_negative("learning rate", lr)


def require_not_negative(what: str, value: Any) -> None:
    """Raise ValueError for a number that is negative or NaN."""
    if not value >= 0.0:
        raise ValueError(f"Invalid {what}: {value}; it must be 0 or more")


def _require_betas(betas: tuple[Any, Any]) -> None:
    """Raise an error unless betas has two entries and each entry is in [0, 1)."""
    if len(betas) < 2:
        raise IndexError(f"betas must be two decay rates, got {short_repr(betas)}")
    for number, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(
                f"Invalid beta parameter at index {number}: {beta}; it must be in [0, 1)"
            )


def require_one_way(*, fused: bool | None, foreach: bool | None, differentiable: bool) -> None:
    """Raise RuntimeError if mutually exclusive options are set, as in PyTorch."""
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`: leave fused out")
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


def require_no_lists(group: dict[str, Any]) -> None:
    """Raise AssertionError if differentiable and foreach are both set in a group."""
    if group["foreach"] and group.get("differentiable"):
        raise AssertionError("_foreach ops don't support autograd: leave foreach out")


def require_not_captured(optimizer: Any, parameters: Sequence[Tensor]) -> None:
    """Raise RuntimeError if a graph is being captured on a device of the parameters.

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
    """Raise RuntimeError for a parameter that fused=True does not support."""
    if not parameter.is_floating_point():
        raise RuntimeError(
            "`fused=True` requires all the params to be floating point Tensors of supported "
            f"devices, but {parameter.dtype} and {parameter.device.type}"
        )

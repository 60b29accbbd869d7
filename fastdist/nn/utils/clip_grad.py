"""Gradient clipping, by norm or by value."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from ...core.caller_warning import warn_caller
from ...core.dtypes import float32
from ...core.errors import GraphError
from ...core.folded_frames import fold_public
from ...dispatch.signature import tensors_in
from ...graph.modes import no_grad
from ...ops.create.creation import tensor, zeros
from ...ops.reduce.norms import vector_norm
from ...ops.shape.joining import stack
from ...tensor.tensor import Tensor


def get_total_norm(
    tensors: Tensor | Iterable[Tensor], norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> Tensor:
    """Return the norm of all elements of all tensors, as if they were one vector.

    Raises  RuntimeError if error_if_nonfinite is set and the norm is infinite or NaN
    """
    tensors = tensors_in("get_total_norm", "tensors", tensors)
    if not tensors:
        return tensor(0.0)
    order = float(norm_type)
    found = _total_on_device(tensors, order)
    if found is None:
        norms = np.array([_norm(_elements(each), order) for each in tensors])
        dtype = tensors[0].dtype
        found = tensor(_norm(norms, order), dtype=dtype.to_real() if dtype.is_complex else dtype)
    if error_if_nonfinite and not math.isfinite(found.item()):
        raise GraphError(
            f"The total norm of order {order} for gradients from `parameters` is non-finite, so "
            "it cannot be clipped. To disable this error and scale the gradients by the "
            "non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return found


def _total_on_device(tensors: list[Tensor], order: float) -> Tensor | None:
    """Return the norm of all tensors on the first tensor's device, without waiting for that device.

    Return None if that device is the CPU.
    """
    where = tensors[0].device
    if where.type == "cpu":
        return None
    with no_grad():
        values = [each.coalesce()._values() if each.is_sparse else each for each in tensors]
        norms: Any = []
        for each in values:
            each = each if each.is_floating_point() else each.to(float32)
            empty = zeros((), dtype=each.dtype, device=where)
            norms.append(vector_norm(each, order).to(where) if each.numel() else empty)
        found: Any = vector_norm(stack(norms), order)
        return found.to(tensors[0].dtype)  # type: ignore[no-any-return]


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale all gradients by one factor, so that their total norm is at most max_norm.

    Raises  RuntimeError if error_if_nonfinite is set and the norm is infinite or NaN

    Args:
        parameters: A tensor or an iterable of tensors.
        max_norm: The largest allowed norm; if the total is larger, all gradients are scaled by one
            factor.
        norm_type: The order p of the norm; may be inf.
        error_if_nonfinite: Whether a norm that is infinite or NaN is an error.
        foreach: Ignored: there is one implementation.

    Returns:
        The norm before clipping, as a 0-d tensor.

    Example:
        >>> weight = nn.Parameter(torch.ones(2))
        >>> (weight * torch.tensor([3.0, 4.0])).sum().backward()
        >>> nn.utils.clip_grad_norm_([weight], max_norm=1.0)
        tensor(5.)
        >>> weight.grad
        tensor([0.6000, 0.8000])
    """
    gradients = _gradients("clip_grad_norm_", parameters)
    total = get_total_norm(gradients, norm_type, error_if_nonfinite)
    _scale(gradients, max_norm, total)
    return total


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    total_norm: Tensor,
    foreach: bool | None = None,
) -> None:
    """If total_norm exceeds max_norm, scale all gradients by max_norm / total_norm.

    Note    foreach is ignored
    """
    _scale(_gradients("clip_grads_with_norm_", parameters), max_norm, total_norm)


def _scale(gradients: list[Tensor], max_norm: float, total_norm: Tensor) -> None:
    with no_grad():
        if total_norm.device.type != "cpu":
            # The CPU does not wait for the norm: the device multiplies by 1 if no scaling is
            # needed.
            by = (max_norm / (total_norm + 1e-6)).clamp(max=1.0)
            for gradient in gradients:
                gradient.mul_(by.to(gradient.device))
            return
        factor = max_norm / (total_norm.item() + 1e-6)
        if not factor >= 1.0:
            for gradient in gradients:
                gradient.mul_(factor)


def clip_grad_value_(
    parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None
) -> None:
    """Clamp each element of all gradients to [-clip_value, clip_value].

    Note    foreach is ignored
    """
    with no_grad():
        for gradient in _gradients("clip_grad_value_", parameters):
            gradient.clamp_(-clip_value, clip_value)


def _gradients(function: str, parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    given = tensors_in(function, "parameters", parameters)
    return [parameter.grad for parameter in given if parameter.grad is not None]


def _elements(gradient: Tensor) -> np.ndarray:
    """Return a gradient's elements, or a sparse gradient's stored values, as a NumPy array."""
    found = gradient.detach()
    return (found.coalesce()._values() if found.is_sparse else found).to_numpy()


def _norm(values: np.ndarray, order: float) -> float:
    # In float64, because a sum of many float32 squares loses digits and may overflow.
    flat = (np.abs(values) if values.dtype.kind == "c" else values).reshape(-1).astype(np.float64)
    return float(np.linalg.norm(flat, order)) if flat.size else 0.0


def clip_grad_norm(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Call clip_grad_norm_, the new name of this deprecated function."""
    warn_caller(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of "
        "`torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


fold_public(__name__)

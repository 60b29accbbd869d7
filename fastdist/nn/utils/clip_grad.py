"""Keeping gradients small."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from ...core.errors import GraphError
from ...graph.modes import no_grad
from ...ops.creation import tensor
from ...tensor.tensor import Tensor


def get_total_norm(
    tensors: Tensor | Iterable[Tensor], norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> Tensor:
    """Return the norm of all elements of all tensors, as if they were one vector.

    Raises  RuntimeError if error_if_nonfinite and it is infinite or NaN
    """
    tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    if not tensors:
        return tensor(0.0)
    order = float(norm_type)
    norms = np.array([_norm(each.detach().to_numpy(), order) for each in tensors])
    total = _norm(norms, order)
    if error_if_nonfinite and not math.isfinite(total):
        raise GraphError(
            f"The total norm of order {order} for gradients from `parameters` is non-finite, so "
            "it cannot be clipped. To disable this error and scale the gradients by the "
            "non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return tensor(total, dtype=tensors[0].dtype, device=tensors[0].device)


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale all gradients by one factor so that their common norm is at most max_norm; return the
    norm that they had.

    Raises  RuntimeError if error_if_nonfinite and the norm is infinite or NaN
    Note    foreach changes nothing
    """
    gradients = _gradients(parameters)
    total = get_total_norm(gradients, norm_type, error_if_nonfinite)
    factor = max_norm / (total.item() + 1e-6)
    if not factor >= 1.0:
        with no_grad():
            for gradient in gradients:
                gradient.mul_(factor)
    return total


def clip_grad_value_(
    parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None
) -> None:
    """Bring each element of all gradients into -clip_value ... clip_value.

    Note    foreach changes nothing
    """
    with no_grad():
        for gradient in _gradients(parameters):
            gradient.clamp_(-clip_value, clip_value)


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    if isinstance(parameters, Tensor):
        parameters = [parameters]
    return [parameter.grad for parameter in parameters if parameter.grad is not None]


def _norm(values: np.ndarray, order: float) -> float:
    # In float64: a sum of many squares of float32 loses digits, and may overflow.
    flat = values.reshape(-1).astype(np.float64)
    return float(np.linalg.norm(flat, order)) if flat.size else 0.0

"""Adafactor."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, ClassVar

from ..core.dtypes import DType
from ..dispatch.op import OPS
from ..namespace.limits import finfo
from ..ops.create.creation import empty_like, zeros_like
from ..tensor.tensor import Tensor
from .counted import CountedOptimizer
from .fused import fused
from .optimizer import Group

# The op that `norm` calls. `norm` itself first determines the kind of norm, which doubles the time
# for a small tensor.
_norm = OPS["vector_norm"]
_shrink = fused("p * keep", "p", "keep")
_spread = fused("v + new * (g * g - v)", "v", "g", "new")
_average = fused("v + new * (norm * norm / count - v)", "v", "norm", "new", "count")
_weigh = fused("g / sqrt(maximum(v, least))", "u", "g", "v", "least")
_descend = fused("p - rate * u", "p", "u", "rate")


class Adafactor(CountedOptimizer):
    """Adafactor: the gradient is divided by its running root mean square.

    For a parameter with two or more axes, only mean squares of rows and of columns are stored.

    Raises  ValueError for options out of range
    Source  Shazeer and Stern 2018, "Adafactor: Adaptive Learning Rates with Sublinear Memory Cost"
    """

    _gained: ClassVar[dict[str, Any]] = {"foreach": None}

    steps_complex = False

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        for what, value, is_fine in (
            ("Learning rate should be >= 0", lr, lr >= 0.0),
            ("beta2_decay should be <= 0", beta2_decay, beta2_decay <= 0.0),
            ("epsilon1 should be >= 0", eps[0], eps[0] is None or eps[0] >= 0.0),
            ("epsilon2 should be >= 0", eps[1], eps[1] >= 0.0),
            ("Clipping threshold d should be >= 1", d, d >= 1.0),
            ("weight_decay should be >= 0", weight_decay, weight_decay >= 0.0),
        ):
            if not is_fine:
                raise ValueError(f"{what} but is: {value}")
        defaults = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def update(self, group: Group, parameter: Tensor, gradient: Tensor) -> None:
        """Update one parameter."""
        state = self.state[parameter]
        if not state:
            self._begin(group, parameter, gradient, state)
        step, lr, (eps1, eps2) = self.count(group, parameter, state), group["lr"], group["eps"]
        least = _eps(parameter.dtype) if eps1 is None else eps1
        new = step ** group["beta2_decay"]
        rate = max(eps2, _mean_size(parameter)) * min(lr, 1.0 / step**0.5)
        if group["weight_decay"] != 0:
            _shrink(parameter, 1.0 - lr * group["weight_decay"])
        if gradient.ndim > 1:
            square = _from_factors(state["row_var"], state["col_var"], gradient, new, least)
        else:
            square = state["variance"]
            _spread(square, gradient, new)
        way = empty_like(gradient)
        _weigh(way, gradient, square, least * least)
        rate = rate / max(1.0, _mean_size(way) / group["d"])
        _descend(parameter, way, -rate if group["maximize"] else rate)

    def _begin(
        self, group: Group, parameter: Tensor, gradient: Tensor, state: dict[str, Any]
    ) -> None:
        state["step"] = self.number(group, parameter)
        if gradient.ndim > 1:
            *others, rows, columns = gradient.shape
            state["row_var"] = gradient.new_zeros([*others, rows, 1])
            state["col_var"] = gradient.new_zeros([*others, 1, columns])
        else:
            state["variance"] = zeros_like(gradient)


def _from_factors(
    rows: Tensor, columns: Tensor, gradient: Tensor, new: float, least: float
) -> Tensor:
    """Update the mean squares of rows and columns, and estimate those of all elements from them."""
    for means, dim in ((rows, -1), (columns, -2)):
        _average(means, _norm(gradient, 2, dim, True), new, gradient.shape[dim])
    return (rows @ columns) / rows.mean(dim=-2, keepdim=True).clamp(min=least)


@functools.cache
def _eps(dtype: DType) -> float:
    return finfo(dtype).eps


def _mean_size(x: Tensor) -> float:
    """Return the root mean square of x."""
    return float(_norm(x, 2).item()) / x.numel() ** 0.5 if x.numel() else 0.0

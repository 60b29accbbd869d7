"""A decorator for methods of distributions that compute half types in float32."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from ..core.dtypes import DType, float32
from ..ops.create.creation import as_tensor
from ..ops.shape.casting import result_type
from ..tensor.tensor import Tensor
from .distribution import Distribution

M = TypeVar("M", bound=Callable[..., Any])


def computed_in_float32(method: M) -> M:
    """Make a method compute in float32 if the parameters have a half type, then round its result.

    lgamma(1e4) overflows float16, and differences of large terms keep few digits in half types.

    Note    the decorated methods are log_prob and cdf, which take a value, and entropy; if the
            parameters have a wider dtype, the only added cost is a check of one parameter's dtype
    """

    @wraps(method)
    def compute(self: Any, *values: Any) -> Any:
        parameter = _parameter(self)
        if parameter is None or parameter._layout.dtype.itemsize != 2:
            return method(self, *values)
        dtype: DType = parameter.dtype
        if values:
            (value,) = values
            if not isinstance(value, Tensor):
                value = as_tensor(value, dtype=dtype, device=parameter.device)
            if self._validate_args:
                self._validate_sample(value)
            dtype = result_type(parameter, value)
            values = (value.to(float32) if value.dtype.itemsize == 2 else value,)
        return method(_in_float32(self), *values).to(dtype)

    return compute  # type: ignore[return-value]


def _parameter(of: Distribution) -> Tensor | None:
    """Return a floating-point parameter of a distribution or of the distributions inside it."""
    parts = vars(of)
    for name in type(of)._batched or parts:
        one = parts.get(name)
        if isinstance(one, Distribution):
            one = _parameter(one)
        if isinstance(one, Tensor) and one._layout.dtype.is_floating_point:
            return one
    return None


def _in_float32(one: Distribution) -> Distribution:
    """Return a copy of a distribution with its parameters cast to float32.

    Gradients flow through the casts.
    """
    new = copy.copy(one)
    for name, part in vars(one).items():
        if isinstance(part, Distribution):
            vars(new)[name] = _in_float32(part)
        elif isinstance(part, Tensor) and part.is_floating_point():
            vars(new)[name] = part.to(float32)
    new._validate_args = False
    return new

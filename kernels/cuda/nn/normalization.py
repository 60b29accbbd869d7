"""Layer norm, its gradient, and RMS norm, on CUDA arrays."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..launch import C_TYPES, Launch, computing_type, int64_fields, launch, text_of
from ..layout import element_strides
from ..prepared import only_launches
from ..reduce.reductions import sum_dtype
from ..rows import pack_of, rows_header, shared

DType = np.dtype[Any]


@only_launches
def layer_norm(
    x: Any, weight: Any, bias: Any, out: Any, mean: Any, deviation: Any, eps: float
) -> None:
    """Write (x - mean) / deviation * weight + bias of each row into out, and each row's statistics
    into mean and deviation.

    x and out: (rows, n); weight and bias: (n,) or None; mean and deviation: (rows, 1), in the dtype
    in which x is computed. Sums of float32 are float64, and sums of half types are float32.

    Thread  any; queued on the current stream of out's device
    """
    launch(plan_layer_norm(x, weight, bias, out, mean, deviation, eps))


@only_launches
def layer_norm_gradient(g: Any, x: Any, weight: Any, mean: Any, deviation: Any, out: Any) -> None:
    """Write the gradient of layer_norm by x into out. Shapes and dtypes as for layer_norm."""
    launch(plan_layer_norm_gradient(g, x, weight, mean, deviation, out))


@only_launches
def rms_norm(x: Any, weight: Any, out: Any, scale: Any, eps: float) -> None:
    """Write x * scale * weight of each row into out, with scale = 1 / sqrt(mean square + eps).

    x and out: (rows, n); weight: (n,) or None; scale: (rows, 1). Dtypes as in layer_norm.
    """
    launch(plan_rms_norm(x, weight, out, scale, eps))


def plan_layer_norm(
    x: Any, weight: Any, bias: Any, out: Any, mean: Any, deviation: Any, eps: float
) -> list[Launch]:
    """Return the launch of layer_norm; no launch if x is empty."""
    given = {"x": x, "weight": weight, "bias": bias, "mean": mean, "scale": deviation}
    # The kernel gets x in place of a missing array, and does not read it.
    arrays = (x, x if weight is None else weight, x if bias is None else bias)
    return _plan("layer_norm", (*arrays, out, mean, deviation, np.float64(eps)), out, given)


def plan_layer_norm_gradient(
    g: Any, x: Any, weight: Any, mean: Any, deviation: Any, out: Any
) -> list[Launch]:
    """Return the launch of layer_norm_gradient; no launch if x is empty."""
    given = {"x": x, "g": g, "weight": weight, "mean": mean, "scale": deviation}
    arrays = (g, x, x if weight is None else weight, mean, deviation, out)
    return _plan("layer_norm_gradient", arrays, out, given)


def plan_rms_norm(x: Any, weight: Any, out: Any, scale: Any, eps: float) -> list[Launch]:
    """Return the launch of rms_norm; no launch if x is empty."""
    given = {"x": x, "weight": weight, "scale": scale}
    arrays = (x, x if weight is None else weight, out, scale, np.float64(eps))
    return _plan("rms_norm", arrays, out, given)


def _plan(name: str, args: tuple[Any, ...], out: Any, given: dict[str, Any]) -> list[Launch]:
    rows, length = out.shape
    if not out.size:
        return []
    read = [given.get(key) for key in ("x", "g", "weight", "bias")]
    pack = pack_of(length, out, *read)
    sharing = shared(length, pack)

    def strides(key: str) -> tuple[int, ...]:
        array = given.get(key)
        return (0, 0) if array is None else element_strides(array)

    task = int64_fields(
        *(rows, length, sharing.lanes),
        *element_strides(out),
        *(*strides("x"), *strides("g")),
        *(strides(key)[0] for key in ("weight", "bias", "mean", "scale")),
    )
    parameters = [
        None if given.get(key) is None else given[key].dtype for key in ("weight", "bias")
    ]
    source = source_of_normalization(out.dtype, *parameters, sharing.held, pack)
    return [Launch(source, name, sharing.grid(rows), (*args, task))]


@functools.lru_cache(maxsize=256)
def source_of_normalization(
    dtype: DType,
    weight: DType | None = None,
    bias: DType | None = None,
    held: int = 0,
    pack: int = 1,
) -> str:
    """Return the CUDA source for dtypes of elements and parameters (None for a missing one). A
    thread holds `held` elements in registers, and loads `pack` adjacent elements at a time.
    """
    kinds = [dtype, weight or dtype, bias or dtype]
    return f"""{rows_header(kinds, computing_type(dtype), held, pack)}
typedef {C_TYPES[dtype]} Stored;
typedef {C_TYPES[sum_dtype(dtype)]} Sum;
typedef {C_TYPES[weight or dtype]} Weight;
typedef {C_TYPES[bias or dtype]} Bias;
constexpr bool HAS_WEIGHT = {str(weight is not None).lower()};
constexpr bool HAS_BIAS = {str(bias is not None).lower()};
{text_of("nn/normalization.cu")}"""

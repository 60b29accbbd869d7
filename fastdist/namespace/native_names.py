"""Functions of PyTorch's native library that packages call by their private names."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

from ..core.dtypes import DType, bfloat16, float32, int32, int64
from ..core.errors import DTypeError, ShapeError
from ..graph.modes import no_grad
from ..ops.create.creation import ones
from ..tensor.tensor import Tensor, from_array
from .load import NAMES

_OF_DTYPES = {
    "Byte": "uint8", "Char": "int8", "Double": "float64", "Float": "float32", "Half": "float16",
    "Int": "int32", "Long": "int64", "Short": "int16",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Return a function such as `_cast_Long` by its name."""
    kind = _OF_DTYPES.get(name.removeprefix("_cast_"))
    if kind is None or not name.startswith("_cast_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def cast(input: Tensor, non_blocking: bool = False) -> Tensor:
        return input.to(NAMES[kind] if kind in NAMES else dtype_named(kind))

    cast.__name__ = cast.__qualname__ = name
    cast.__doc__ = f"Return input in {kind}."
    return cast


def dtype_named(name: str) -> DType:
    """Return a dtype by its name."""
    from ..core import dtypes

    found: DType = getattr(dtypes, name)
    return found


def _shape_as_tensor(input: Tensor) -> Tensor:
    """Return the shape as an int64 tensor."""
    import numpy as np

    return from_array(np.asarray(tuple(input.shape), np.int64))


def _has_compatible_shallow_copy_type(input: Tensor, from_: Tensor) -> bool:
    """Return whether `input.data = from_` is allowed: both are dense, or both are sparse."""
    return bool(input.is_sparse == from_.is_sparse)


def _disable_dynamo(fn: Any = None, recursive: bool = True) -> Any:
    """Return the function, or a decorator that returns its function; there is no compiler."""
    return fn if fn is not None else lambda function: function


def _softmax_backward_data(
    grad_output: Tensor, output: Tensor, dim: int, input_dtype: DType
) -> Tensor:
    """Return the gradient of softmax's input from the gradient of its output."""
    product = grad_output * output
    return (product - output * product.sum(dim, keepdim=True)).to(input_dtype)


def _log_softmax_backward_data(
    grad_output: Tensor, output: Tensor, dim: int, input_dtype: DType
) -> Tensor:
    """Return the gradient of log_softmax's input from the gradient of its output."""
    return (grad_output - output.exp() * grad_output.sum(dim, keepdim=True)).to(input_dtype)


def _int_mm(input: Tensor, mat2: Tensor) -> Tensor:
    """Return the exact product of two int8 matrices as int32.

    Raises  RuntimeError for other dtypes
    """
    if input.dtype is not mat2.dtype or input.dtype.itemsize != 1:
        raise DTypeError(
            f"Expected self and mat2 to be of dtype int8, got {input.dtype} and {mat2.dtype}"
        )
    return input.to(int32) @ mat2.to(int32)


def _scaled_mm(
    input: Tensor,
    mat2: Tensor,
    scale_a: Tensor,
    scale_b: Tensor,
    bias: Tensor | None = None,
    scale_result: Tensor | None = None,
    out_dtype: DType | None = None,
    use_fast_accum: bool = False,
) -> Tensor:
    """Return (input * scale_a) @ (mat2 * scale_b), summed in float32. There is one scale per
    tensor, or one per row of input and per column of mat2.

    Raises  RuntimeError for scales of other shapes
    """
    rows, columns = input.shape[0], mat2.shape[1]
    is_whole = scale_a.numel() == 1 and scale_b.numel() == 1
    if not is_whole and not (
        tuple(scale_a.shape) == (rows, 1) and tuple(scale_b.shape) == (1, columns)
    ):
        raise ShapeError(
            "_scaled_mm: scales are one number each, or of shapes "
            f"({rows}, 1) and (1, {columns}), got {tuple(scale_a.shape)} and "
            f"{tuple(scale_b.shape)}"
        )
    if is_whole:
        scale_a, scale_b = scale_a.reshape(()), scale_b.reshape(())
    product = (input.to(float32) @ mat2.to(float32)) * scale_a * scale_b
    if bias is not None:
        product = product + bias.to(float32)
    if scale_result is not None and (out_dtype or input.dtype).is_float8:
        product = product * scale_result
    return product.to(out_dtype or input.dtype)


class ScalingType(Enum):
    """The part of a matrix that shares one scale in scaled_mm."""

    TensorWise = 0
    RowWise = 1
    BlockWise1x16 = 2
    BlockWise1x32 = 3
    BlockWise1x128 = 4
    BlockWise128x128 = 5


class SwizzleType(Enum):
    """The order of block scales in PyTorch's GPU kernels."""

    NO_SWIZZLE = 0
    SWIZZLE_32_4_4 = 1


def scaled_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    scale_a: Any,
    scale_recipe_a: Any,
    scale_b: Any,
    scale_recipe_b: Any,
    swizzle_a: Any = None,
    swizzle_b: Any = None,
    bias: Tensor | None = None,
    output_dtype: DType | None = bfloat16,
    contraction_dim: Sequence[int] = (),
    use_fast_accum: bool = False,
) -> Tensor:
    """Return the product of two scaled matrices. There is one scale per matrix, or one per row of
    mat_a and one per column of mat_b.

    Raises  NotImplementedError for block scales
    """
    scales, kinds = [], []
    for scale, kind in ((scale_a, scale_recipe_a), (scale_b, scale_recipe_b)):
        (one,) = scale if isinstance(scale, list | tuple) else (scale,)
        (what,) = kind if isinstance(kind, list | tuple) else (kind,)
        scales.append(one)
        kinds.append(what)
    if any(kind not in (ScalingType.TensorWise, ScalingType.RowWise) for kind in kinds):
        raise NotImplementedError(
            "scaled_mm: scales of blocks are not here: multiply the matrices by them before"
        )
    one, other = scales
    return _scaled_mm(mat_a, mat_b, one, other, bias, None, output_dtype, use_fast_accum)


def _fused_sdp_choice(query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any) -> int:
    """Return 0: attention has one implementation, which PyTorch calls "math"."""
    return 0


def native_layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the layer norm, the means, and the reciprocals of the standard deviations."""
    axes = tuple(range(input.dim() - len(tuple(normalized_shape)), input.dim()))
    mean = input.mean(axes, keepdim=True)
    rstd = (input.var(axes, correction=0, keepdim=True) + eps).rsqrt()
    norm: Any = NAMES["layer_norm"]
    return norm(input, tuple(normalized_shape), weight, bias, eps), mean, rstd


def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """Return input with dropout applied, and the mask of kept elements."""
    kept: Any = ones(input.shape, dtype=dtype_named("bool_"), device=input.device)
    if train is False or p == 0:
        return input.clone(), kept
    draw: Any = NAMES["rand_like"]
    mask = draw(input.detach().to(float32)) >= p
    scale = 0.0 if p == 1 else 1 / (1 - p)
    return input * mask.to(input.dtype) * scale, mask


def native_channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Return input with its channels shuffled between groups."""
    found: Tensor = NAMES["channel_shuffle"](input, groups)
    return found


@no_grad()
def _amp_foreach_non_finite_check_and_unscale_(
    tensors: Sequence[Tensor], found_inf: Tensor, inv_scale: Tensor
) -> None:
    """Multiply gradients by inv_scale; set found_inf to 1 if an element is not finite."""
    for one in tensors:
        if not bool(one.isfinite().all()):
            found_inf.fill_(1.0)
        one.mul_(inv_scale.to(one.dtype))


@no_grad()
def _amp_update_scale_(
    input: Tensor,
    growth_tracker: Tensor,
    found_inf: Tensor,
    scale_growth_factor: float,
    scale_backoff_factor: float,
    growth_interval: int,
) -> Tensor:
    """Update the scale of GradScaler in place and return it: shrink it if a gradient was not
    finite, grow it after growth_interval steps with finite gradients.
    """
    if found_inf.item():
        input.mul_(scale_backoff_factor)
        growth_tracker.zero_()
        return input
    steps = int(growth_tracker.item()) + 1
    if steps == growth_interval:
        grown = input * scale_growth_factor
        if bool(grown.isfinite().all()):
            input.copy_(grown)
        steps = 0
    growth_tracker.fill_(steps)
    return input


def _convert_indices_from_coo_to_csr(
    input: Tensor, size: int, *, out_int32: bool = False
) -> Tensor:
    """Return the row pointers of CSR, from the sorted row indices of COO."""
    import numpy as np

    counts = np.bincount(input.numpy(force=True), minlength=size)
    ends = np.concatenate([[0], np.cumsum(counts)])
    found: Tensor = from_array(ends.astype(np.int32 if out_int32 else np.int64))
    return found.to(input.device)


def _convert_indices_from_csr_to_coo(
    crow_indices: Tensor, col_indices: Tensor, *, out_int32: bool = False, transpose: bool = False
) -> Tensor:
    """Return the row and column indices of COO; with `transpose`, columns come first."""
    lengths = crow_indices.diff()
    numbers: Any = NAMES["arange"](lengths.numel(), device=crow_indices.device)
    rows: Any = numbers.repeat_interleave(lengths.to(int64))
    parts: list[Any] = [col_indices, rows] if transpose else [rows, col_indices]
    stacked: Tensor = NAMES["stack"]([one.to(int32 if out_int32 else int64) for one in parts])
    return stacked


def fake_quantize_per_tensor_affine(
    input: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int
) -> Tensor:
    """Return input rounded to the values of a quantized dtype. The gradient is passed through where
    no value was clamped.
    """
    return _fake_quantized(input, scale, zero_point, quant_min, quant_max)


def fake_quantize_per_channel_affine(
    input: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    """Return input rounded as by fake_quantize_per_tensor_affine, but with a scale and a zero point
    for each index of `axis`.
    """
    shape = [1] * input.dim()
    shape[axis] = -1
    points = zero_point.reshape(shape)
    return _fake_quantized(input, scale.reshape(shape), points, quant_min, quant_max)


def _fake_quantized(
    input: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int
) -> Tensor:
    if quant_min > quant_max:
        raise RuntimeError(
            "`quant_min` should be less than or equal to `quant_max`, got "
            f"{quant_min} and {quant_max}"
        )
    with no_grad():
        steps = (input.detach() / scale).round() + zero_point
        inside = (steps >= quant_min) & (steps <= quant_max)
        rounded = (steps.clamp(quant_min, quant_max) - zero_point) * scale
        moved = rounded.to(input.dtype)
    # The result has the rounded values. Its gradient passes only where no value was clamped.
    passed: Tensor = input.masked_fill(~inside, 0)
    found: Tensor = moved + (passed - passed.detach())
    return found


def saddmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    """Return beta * input + alpha * mat1 @ mat2 for a sparse mat1."""
    found: Tensor = NAMES["addmm"](input, mat1, mat2, beta=beta, alpha=alpha)
    return found


def set_vital(vital: str, attr: str, value: str) -> bool:
    """Return False: usage statistics are not collected."""
    return False

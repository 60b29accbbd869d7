"""Linear interpolation between two tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.dtypes import WORDS, DType
from ...dispatch.node_writer import OpNode
from ...dispatch.pointwise import pointwise
from ...tensor.constants import require_held
from ...tensor.tensor import Tensor


@pointwise(
    "d = end - input; where(abs(weight) < T(0.5), input + weight * d, end - d * (T(1) - weight))",
    ["T(1) - weight", "weight", "end - input"],
    dtype="number",
    numbers="last",
    exact="input end weight",
)
def lerp(input: Tensor, end: Tensor, weight: Tensor) -> Tensor:
    """Return input + weight * (end - input).

    Raises  RuntimeError if input has an integer dtype, if input and end have different dtypes, or
            if weight has axes and a different dtype than input

    Args:
        input: The result for weight 0, a floating-point or complex tensor. Weights outside of [0,
            1] extrapolate.
        end: The result for weight 1.
        weight: A number or a tensor.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.lerp(torch.tensor([0.0]), torch.tensor([10.0]), 0.25)
        tensor([2.5000])
    """


@lerp.names_node
def _(node: OpNode) -> str:
    return "lerp" if node.has_number("weight") else "lerp.1"


# PyTorch's error for different dtypes calls the dtypes by these C++ names.
_C_NAMES = {
    "bool": "bool",
    "uint8": "unsigned char",
    "int8": "signed char",
    "int16": "short int",
    "int32": "int",
    "int64": "long int",
    "float16": "c10::Half",
    "float32": "float",
    "float64": "double",
    "bfloat16": "c10::BFloat16",
    "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
    "uint16": "short unsigned int",
    "uint32": "unsigned int",
    "uint64": "long unsigned int",
}


@lerp.refusal
def _(dtypes: Sequence[DType], operands: Sequence[Any]) -> str | None:
    input, end, kind = dtypes
    weight = operands[2]
    is_tensor = isinstance(weight, Tensor)
    if not is_tensor and not (isinstance(weight, complex) and not input.is_complex):
        require_held(weight, input.computes_in)
    # A 0-d weight may have any dtype: it is cast, like a number.
    has_axes = is_tensor and bool(weight._layout.shape)
    for name, other in (("end", end), ("weight", kind)) if has_axes else (("end", end),):
        if other is not input:
            return (
                f"expected dtype {_C_NAMES[input.name]} for `{name}` but got dtype "
                f"{_C_NAMES[other.name]}: cast one of them."
            )
    if kind.is_complex and not (input.is_complex or is_tensor):
        return f"value cannot be converted to type {_C_NAMES[input.name]} without overflow."
    if not input.is_floating_point and not input.is_complex:
        kernel = "lerp_kernel_tensor" if has_axes else "lerp_kernel_scalar"
        return f'"{kernel}" not implemented for {WORDS[input]!r}: cast to floating.'
    return None

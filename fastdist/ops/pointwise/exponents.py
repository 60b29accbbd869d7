"""Powers in float64 (float_power), and powers of 2: ldexp and its inverse, frexp."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.dtypes import WORDS, DType, bool_, complex128, float64, int32, int64
from ...core.errors import DTypeError, NoKernelError
from ...dispatch.composite import composite, inplace_of
from ...dispatch.target import GivenOut, store_in_out
from ...interpreters.batched_tensor import map_unbatched
from ...tensor.methods import Number
from ...tensor.promotion import result_dtype
from ...tensor.tensor import Tensor, from_array
from .. import return_types
from ..create.creation import empty_like
from .arithmetic import floor_divide, mul
from .arithmetic import pow as pow_op


@composite()
def float_power(
    input: Tensor | Number, exponent: Tensor | Number, *, out: GivenOut = None
) -> Tensor:
    """Return input to the power of exponent, computed in float64, or in complex128 if an operand is
    complex.
    """
    given = (input, exponent)
    dtype = _dtype_of_float_power(given)
    if isinstance(out, Tensor):
        _require_wide("output given to float_power", out, dtype)
    wide = [o.to(dtype) if isinstance(o, Tensor) else o for o in given]
    return pow_op.public(*wide, out=out)


@composite(name="float_power_", homes="method")
def float_power_(input: Tensor, exponent: Tensor | Number) -> Tensor:
    """Compute float_power in place; input must have the result's dtype, float64 or complex128."""
    _require_wide("base given to float_power_", input, _dtype_of_float_power((input, exponent)))
    return inplace_of("float_power", float_power)(input, exponent)


def _dtype_of_float_power(given: tuple[Any, Any]) -> DType:
    return complex128 if result_dtype(given).is_complex else float64


def _require_wide(what: str, tensor: Tensor, dtype: DType) -> None:
    if tensor._layout.dtype is not dtype:
        raise DTypeError(
            f"the {what} has dtype {WORDS[tensor._layout.dtype]} but the operation's result "
            f"requires dtype {WORDS[dtype]}: use float_power, which returns it"
        )


@composite(homes="function method inplace")
def ldexp(input: Tensor, other: Tensor, *, out: GivenOut = None) -> Tensor:
    """Return input * 2**other.

    Dtype   a floating input keeps its dtype if other is an integer
    """
    if other._layout.dtype is bool_ and input._layout.dtype.is_floating_point:
        raise NoKernelError("\"ldexp_cpu_exp\" not implemented for 'Bool': cast other with .int()")
    dtype = result_dtype([input, 1.0])
    if not other._layout.dtype.may_have_gradient and not dtype.is_complex:
        # Multiply in float64, and in two steps: 2**other may overflow the dtype, or even float64.
        whole = other.to(int64)
        half = floor_divide(whole, 2)
        wide = input.to(float64) * 2.0 ** half.to(float64) * 2.0 ** (whole - half).to(float64)
        return store_in_out("ldexp", out, wide.to(dtype), (input, other), "cast", "apart")
    power = pow_op(2.0, other)
    return mul.public(input, power, out=out)


@composite(out="same", node="frexp")
def frexp(input: Tensor) -> Any:
    """Return (mantissa, exponent), where input is mantissa * 2**exponent and 0.5 <= |mantissa| < 1.
    If input is not on the CPU, the call waits for the device.

    Dtype   exponent is int32
    Raises  RuntimeError for integers and bool
    """
    if not input._layout.dtype.is_floating_point:
        raise DTypeError("torch.frexp() only supports floating-point dtypes; cast with .float()")
    exponent = map_unbatched(_exponents, input)
    return return_types.frexp(ldexp(input, -exponent), exponent)


def _exponents(input: Tensor) -> Tensor:
    if input.is_meta:
        return empty_like(input, dtype=int32)
    found = np.frexp(input.detach().to_numpy())[1].astype(np.int32)
    return from_array(np.asarray(found)).to(input._layout.device)

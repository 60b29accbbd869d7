"""Functions that choose among pointwise ops by an argument, such as div by its rounding_mode."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.dtypes import WORDS, DType, bool_, complex128, float64, float_limits, int64
from ...core.errors import DTypeError, NoKernelError, ShapeError
from ...core.short_repr import short_repr
from ...dispatch.composite import composite
from ...dispatch.copy_inplace import inplace_of
from ...dispatch.kinds import ArgumentError
from ...dispatch.op import OPS
from ...dispatch.output import given_out
from ...dispatch.pytorch_names import recorded_as
from ...graph.unresolved import resolved
from ...listeners.batched_tensor import each_call
from ...tensor.constants import held
from ...tensor.promotion import result_dtype
from ...tensor.tensor import Tensor, from_array
from .. import return_types
from ..refusals import require_floating_inputs
from .complex_numbers import complex_sign, view_as_complex, view_as_real

# Looked up at the call: the table holds the closure that namespace has put there by then.
_ops = OPS
# What bounds of clamp are mostly: then nothing else needs to be looked at, which few elements feel.
_PLAIN = frozenset({float, int, type(None)})


@composite(homes="function method inplace", known_as="")
def div(input: Any, other: Any, *, rounding_mode: str | None = None, out: Any = None) -> Tensor:
    """Return input / other; with rounding_mode "floor" or "trunc" rounded to a whole number."""
    if rounding_mode is None:
        return _ops["div"].public(input, other, out=out)  # type: ignore[no-any-return]
    if rounding_mode == "floor":
        return _ops["floored_divide"].public(input, other, out=out)  # type: ignore[no-any-return]
    if rounding_mode != "trunc":
        raise RuntimeError(
            "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found "
            f"{short_repr(rounding_mode)}"
        )
    dtype = result_dtype([input, other])
    if dtype.is_floating_point:
        return _ops["trunc_divide"].public(input, other, out=out)  # type: ignore[no-any-return]
    input, other = (o.to(dtype) if isinstance(o, Tensor) else o for o in (input, other))
    # fmod's remainder has the sign of input, so what is left divides towards zero.
    rest = _ops["fmod"].public(input, other)
    # add, for input may be bool, of which there is no difference.
    whole = _ops["add"].public(input, rest, alpha=-1)
    return _ops["floor_divide"].public(whole, other, out=out)  # type: ignore[no-any-return]


@composite(homes="function method inplace")
def round(input: Tensor, *, decimals: int = 0, out: Any = None) -> Tensor:
    """Return the nearest number with so many decimals, the even one of two."""
    if decimals == 0:
        return _ops["round"].public(input, out=out)  # type: ignore[no-any-return]
    if not input.facts.dtype.is_floating_point:
        raise DTypeError("round: decimals are for floating tensors")
    scale = 10.0 ** abs(decimals)
    if decimals > 0:
        rounded = _ops["round"].public(input * scale) / scale
    else:
        rounded = _ops["round"].public(input / scale) * scale
    rounded = recorded_as("RoundBackward1", rounded, ())
    return given_out("round", out, rounded, (input,), "cast", "apart")


@composite(homes="function", known_as="")
def where(condition: Tensor, input: Any = None, other: Any = None, *, out: Any = None) -> Any:
    """Return input where condition holds, other elsewhere; of condition alone, where it holds."""
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    if input is None or other is None:
        raise TypeError("where(): give both input and other, or neither")
    return _ops["where"].public(condition, input, other, out=out)


@composite(homes="function method inplace", known_as="")
def clamp(input: Tensor, min: Any = None, max: Any = None, *, out: Any = None) -> Tensor:
    """Return input, but no less than min and no more than max: numbers or tensors, one may be
    None.
    """
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    is_plain = min.__class__ in _PLAIN and max.__class__ in _PLAIN
    if not is_plain:
        min, max = _counted_alike(min, max), _counted_alike(max, min)
    if not is_plain and (isinstance(min, Tensor) or isinstance(max, Tensor)):
        result = _between_tensors(input, min, max)
    elif min is None:
        result = _ops["clamp_below"].public(input, max)
    elif max is None:
        result = _ops["clamp_above"].public(input, min)
    else:
        result = _ops["clamp_between"].public(input, min, max)
    if out is None:
        return result  # type: ignore[no-any-return]
    return given_out("clamp", out, result, (input, min, max), "cast", "apart")


def _between_tensors(input: Tensor, min: Any, max: Any) -> Any:
    if isinstance(min, int | float) or isinstance(max, int | float):
        raise ArgumentError(
            "clamp() received an invalid combination of arguments: min is "
            f"{type(min).__name__}, max {type(max).__name__}; give two numbers or two Tensors"
        )
    result: Any = input
    if min is not None and max is not None:
        dtype = result_dtype([input, min, max])  # all three meet at once
        result = input if dtype is input.facts.dtype else input.to(dtype)
    if min is not None:
        result = _bounded("clamp_above_tensor", result, min)
    if max is not None:
        result = _bounded("clamp_below_tensor", result, max)
    return result


def _counted_alike(bound: Any, other: Any) -> Any:
    """Return a bound; a tensor without axes, beside one that is a number, as a number as well."""
    if isinstance(bound, Tensor) and not bound.facts.shape and bound.edge is None:
        return bound.item() if isinstance(other, int | float) else bound
    return bound


def _bounded(name: str, input: Any, bound: Any) -> Tensor:
    return _ops[name].public(input, bound)  # type: ignore[no-any-return]


@composite(homes="function method inplace", node="clamp_min")
def clamp_min(input: Tensor, min: Any, *, out: Any = None) -> Tensor:
    """Return input, but no less than min."""
    return clamp(input, min, None, out=out)


@composite(homes="function method inplace", node="clamp_max")
def clamp_max(input: Tensor, max: Any, *, out: Any = None) -> Tensor:
    """Return input, but no more than max."""
    return clamp(input, None, max, out=out)


@composite(homes="function method inplace", known_as="")
def logit(input: Tensor, eps: float | None = None, *, out: Any = None) -> Tensor:
    """Return log(input / (1 - input)), of input brought into eps ... 1 - eps first if eps is
    given; beyond 1/2, where that is empty, less than eps becomes eps and all else 1 - eps.
    """
    if eps is not None and eps > 0.5:
        choose, low = _ops["where"].public, _ops["lt"].public(input, eps)
        high = _ops["ge"].public(input, eps)
        input = choose(low, eps, choose(high, 1 - eps, input))  # NaN stays
    elif eps is not None:
        input = clamp(input, eps, 1 - eps)
    return _ops["log_odds"].public(input, out=out)  # type: ignore[no-any-return]


@composite(homes="function functional")
def celu(input: Tensor, alpha: float = 1.0) -> Tensor:
    """Return input where positive, alpha * (exp(input / alpha) - 1) elsewhere.

    Raises  RuntimeError if alpha is 0
    """
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return _ops["celu"].public(input, alpha=alpha)  # type: ignore[no-any-return]


@composite(homes="functional")
def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """Return input cut off below min_val and above max_val; of integers, both are cut off to whole
    numbers first.

    Dtype   any but bool -> the same
    Raises  ValueError if min_val is larger than max_val, RuntimeError for bounds that an integer
            dtype does not hold
    """
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    dtype = input.facts.dtype
    if not dtype.is_floating_point and dtype is not bool_:
        bounds = [held(bound, int64).item() for bound in (min_val, max_val)]
        if dtype.numpy.kind == "u" and bounds[0] < 0:
            raise DTypeError(
                "cannot do hardtanh on an unsigned type with negative limits: cast with .int()"
            )
        min_val, max_val = [held(bound, dtype).item() for bound in bounds]
    return _ops["hardtanh"].public(input, min_val=min_val, max_val=max_val)  # type: ignore[no-any-return]


@composite(homes="function method inplace", known_as="")
def nan_to_num(
    input: Tensor,
    nan: float | None = None,
    posinf: float | None = None,
    neginf: float | None = None,
    *,
    out: Any = None,
) -> Tensor:
    """Return input with nan (0), posinf and neginf (the dtype's largest and smallest) replaced."""
    dtype = input.facts.dtype
    if dtype.is_complex:
        parts = nan_to_num(view_as_real(resolved(input)), nan, posinf, neginf)
        return given_out("nan_to_num", out, view_as_complex(parts), (input,), "same", "apart")
    if not dtype.is_floating_point:
        return given_out("nan_to_num", out, input.clone(), (input,), "same", "apart")
    largest = float(float_limits(dtype).max)
    numbers = (
        0.0 if nan is None else float(nan),  # an integer of any size is one
        largest if posinf is None else float(posinf),
        -largest if neginf is None else float(neginf),
    )
    return _ops["replace_nonfinite"].public(input, *numbers, out=out)  # type: ignore[no-any-return]


@composite()
def float_power(input: Any, exponent: Any, *, out: Any = None) -> Tensor:
    """Return input to the power of exponent, computed in float64, of complex numbers in
    complex128.
    """
    given = (input, exponent)
    dtype = _dtype_of_float_power(given)
    if isinstance(out, Tensor):
        _require_wide("output given to float_power", out, dtype)
    wide = [o.to(dtype) if isinstance(o, Tensor) else o for o in given]
    return _ops["pow"].public(*wide, out=out)  # type: ignore[no-any-return]


@composite(name="float_power_", homes="method")
def float_power_(input: Tensor, exponent: Any) -> Tensor:
    """In-place version of float_power, for tensors of its result's dtype."""
    _require_wide("base given to float_power_", input, _dtype_of_float_power((input, exponent)))
    return inplace_of("float_power", float_power)(input, exponent)


def _dtype_of_float_power(given: tuple[Any, Any]) -> DType:
    return complex128 if result_dtype(given).is_complex else float64


def _require_wide(what: str, tensor: Tensor, dtype: DType) -> None:
    if tensor.facts.dtype is not dtype:
        raise DTypeError(
            f"the {what} has dtype {WORDS[tensor.facts.dtype]} but the operation's result requires "
            f"dtype {WORDS[dtype]}: use float_power, which returns it"
        )


@composite(homes="function method inplace")
def ldexp(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """Return input * 2**other.

    Dtype   a floating input times a power of integers keeps its dtype
    """
    if other.facts.dtype is bool_ and input.facts.dtype.is_floating_point:
        raise NoKernelError("\"ldexp_cpu_exp\" not implemented for 'Bool': cast other with .int()")
    dtype = result_dtype([input, 1.0])
    if not other.facts.dtype.may_have_gradient and not dtype.is_complex:
        # In two steps and in float64, for 2**other itself may be more than the dtype holds.
        whole = other.to(int64)
        half = _ops["floor_divide"].public(whole, 2)
        wide = input.to(float64) * 2.0 ** half.to(float64) * 2.0 ** (whole - half).to(float64)
        return given_out("ldexp", out, wide.to(dtype), (input, other), "cast", "apart")
    power = _ops["pow"].public(2.0, other)
    return _ops["mul"].public(input, power, out=out)  # type: ignore[no-any-return]


@composite(out="same", node="frexp")
def frexp(input: Tensor) -> Any:
    """Return (mantissa, exponent): input is mantissa * 2**exponent, and mantissa within 0.5 ... 1
    without its sign; waits for a device.

    Dtype   exponent is int32
    Raises  RuntimeError for integers and bool
    """
    if not input.facts.dtype.is_floating_point:
        raise DTypeError("torch.frexp() only supports floating-point dtypes; cast with .float()")
    exponent = each_call(_exponents, input)
    return return_types.frexp(ldexp(input, -exponent), exponent)


def _exponents(input: Tensor) -> Tensor:
    found = np.frexp(input.detach().to_numpy())[1].astype(np.int32)
    return from_array(np.asarray(found)).to(input.facts.device)


@composite(homes="function method inplace")
def lcm(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """Return the least common multiple of integers, never negative; 0 where one is 0."""
    divisor = _ops["gcd"].public(input, other)
    safe = _ops["where"].public(divisor == 0, 1, divisor)
    result = _ops["abs"].public(_ops["floor_divide"].public(input, safe) * other)
    return given_out("lcm", out, result, (input, other), "cast", "apart")


@composite(homes="function method inplace")
def sgn(input: Tensor, *, out: Any = None) -> Tensor:
    """Return the sign: -1, 0 or 1; of complex numbers those of the same angle at distance 1."""
    if input.facts.dtype.is_complex:
        return given_out("sgn", out, complex_sign(input), (input,), "same", "apart")
    return _ops["sign"].public(input, out=out)  # type: ignore[no-any-return]


@composite()
def positive(input: Tensor) -> Tensor:
    """Return input itself.

    Raises  RuntimeError for bool
    """
    if input.facts.dtype is bool_:
        raise DTypeError("The `+` operator, on a bool tensor is not supported.")
    return input


@composite(homes="functional", known_as="")
def gelu(input: Tensor, approximate: str = "none", *, out: Any = None) -> Tensor:
    """Return input times the probability that a normal number lies below it.

    approximate="tanh" computes that probability with tanh
    """
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    name = "gelu_exact" if approximate == "none" else "gelu_tanh"
    if input.facts.dtype is float64:
        name += "_tails"
    return _ops[name].public(input, out=out)  # type: ignore[no-any-return]


@composite(homes="function method functional")
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """Return input where positive, weight * input elsewhere; weight is one number or one a
    channel.
    """
    shape = input.facts.shape
    if len(weight.facts.shape) > 1:
        raise ShapeError(
            "prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = "
            f"{len(weight.facts.shape)}"
        )
    if weight.facts.numel != 1:
        channels = shape[1] if len(shape) > 1 else 1
        if weight.facts.numel != channels:
            raise RuntimeError(
                "Mismatch of parameter numbers and input channel size. Found parameter numbers = "
                f"{weight.facts.numel} and channel size = {channels}."
            )
        weight = weight.reshape((1, channels) + (1,) * (len(shape) - 2))
    elif weight.facts.shape:
        weight = weight.reshape(())
    if input.facts.dtype is not weight.facts.dtype:
        raise DTypeError(
            f"prelu: Type promoting not supported. Got {WORDS[input.facts.dtype]} and "
            f"{WORDS[weight.facts.dtype]}: cast one with .to()"
        )
    require_floating_inputs("prelu_cpu", input)
    return _ops["prelu_kernel"].public(input, weight)  # type: ignore[no-any-return]

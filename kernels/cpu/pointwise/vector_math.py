"""exp, log, tanh and similar functions as polynomials that LLVM vectorizes, instead of libm calls.

`functions("float32")` returns them by name. They are right for NaN, inf, -0.0 and subnormals, have
no branches, and are accurate to 3 units in the last place (tests/kernels/cpu/test_vector_math.py).
sin, cos and tan are valid for arguments up to FAR; the calling code uses libm for larger ones.

Times in ns per element for 1e6 elements on one core, and the largest error found, in units in the
last place (AMD EPYC, Zen 4, AVX-512; NumPy 2.4 and PyTorch 2.13 in the same run):

            float32  NumPy  PyTorch  error    float64  NumPy  PyTorch  error
    exp      0.28    0.47    0.82    0.95      0.69    0.80    1.60    0.95
    log      0.37    0.37    1.00    0.77      0.94    0.82    2.24    0.80
    log1p    0.49    2.64    0.78    1.44      1.26    4.24    1.98    1.43
    tanh     0.28    0.36    2.51    2.17      0.81    1.65    5.07    2.41
    sigmoid  0.37     -      0.40    2.23      0.92     -      1.18    2.15
    erf      0.39     -      1.30    2.49      2.76     -      3.09    2.00
    sin      0.68    0.74    1.71    1.41      1.42   12.18    4.37    1.45
    cos      0.67    0.75    1.70    1.43      1.26   12.45    4.21    1.45
    tan      0.70    0.54    2.34    2.98      1.46    1.76    8.19    2.88
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numba.extending import register_jitable

from fastdist.core.generated_code import compile_text

from ..jit import machine
from ..jit.compiler import compiled
from ..jit.machine import copysign, fabs, fma, select
from . import bessel, orthogonal_polynomials, polynomials, special

Function = Callable[..., Any]

# Up to this angle, the reduction by pi / 2, which has three parts, is accurate to the last bits.
FAR: Final = {"float32": 2.0**28, "float64": 2.0**27}

for _function in (*special.COMPILED, *bessel.COMPILED, *orthogonal_polynomials.COMPILED):
    register_jitable(error_model="numpy")(_function)

# The only fast-math flag is contract (a * b + c rounded once). Other flags would exclude NaN and
# inf, or ignore the sign of zero.
_inline = compiled(inline=True, fastmath={"contract"})
_exact = compiled(inline=True)


@functools.cache
def functions(dtype: str) -> dict[str, Function]:
    """Return the compiled functions for numbers of dtype, float32 or float64, by primitive."""
    exp, expm1_bounded = _exponentials(dtype)
    log = _logarithm(dtype)
    return {
        "exp": exp,
        **_from_exponentials(dtype, exp, expm1_bounded),
        "log": log,
        "log1p": _log1p(dtype, log),
        "erf": _error_function(dtype, exp),
        "erfc": _complement_of_error_function(dtype),
        **_circular(dtype),
        **_divisions(dtype),
    }


def _polynomial(dtype: str, coefficients: tuple[float, ...]) -> Function:
    """Return a function that evaluates a polynomial by Horner's rule. The rule is unrolled in the
    source, because LLVM would unroll a loop over a tuple too late.
    """
    number = np.dtype(dtype).type
    scope: dict[str, Any] = {f"c{i}": number(c) for i, c in enumerate(coefficients)}
    text = "c0"
    for i in range(1, len(coefficients)):
        text = f"({text}) * x + c{i}"
    source = f"def polynomial(x):\n    return {text}\n"
    exec(compile_text(f"polynomial of degree {len(coefficients) - 1}", source), scope)
    compiled_polynomial: Function = _inline(scope["polynomial"])
    return compiled_polynomial


def _exponentials(dtype: str) -> tuple[Function, Function]:
    """Return exp, and expm1 for arguments from -44 to 44."""
    is_32 = dtype == "float32"
    number, integer = (np.float32, np.int32) if is_32 else (np.float64, np.int64)
    bits_of = machine.bits_of_float32 if is_32 else machine.bits_of_float64
    of_bits = machine.float32_of_bits if is_32 else machine.float64_of_bits
    # Adding this number rounds to an integer, which is then in the last bits of the sum.
    rounder = number(1.5 * 2.0 ** (23 if is_32 else 52))
    log2_e, one = number(1 / math.log(2)), number(1)
    # ln 2 as a sum of two numbers. The product of the first number and a small integer is exact.
    high = number(0.693359375 if is_32 else 0.693147175014019)
    low = number(-0.00021219444 if is_32 else 5.5459262969660605e-09)
    # At these limits the result is inf or 0 already, and the two factors in `exp` are still finite.
    top, bottom = (number(89.5), number(-104.5)) if is_32 else (number(710.5), number(-746.0))
    bias, shift = (integer(127), integer(23)) if is_32 else (integer(1023), integer(52))
    halving = integer(1)
    tail = _polynomial(dtype, polynomials.EXPM1[dtype])

    @_inline
    def power_of_two(k: Any) -> Any:
        return of_bits(integer(integer(k + bias) << shift))

    @_inline
    def reduced(x: Any) -> Any:
        z = x * log2_e + rounder
        n = z - rounder
        r = (x - n * high) - n * low
        return integer(bits_of(z) - bits_of(rounder)), r + r * r * tail(r)

    @_inline
    def exp(x: Any) -> Any:
        y = select(x > top, top, x)
        k, p = reduced(select(y < bottom, bottom, y))
        half = integer(k >> halving)
        # A single factor 2^k would overflow, or would round a subnormal result twice.
        return (one + p) * power_of_two(half) * power_of_two(integer(k - half))

    @_inline
    def expm1_bounded(x: Any) -> Any:
        k, p = reduced(x)
        scale = power_of_two(k)
        return scale * p + (scale - one)

    return exp, expm1_bounded


def _from_exponentials(dtype: str, exp: Function, expm1_bounded: Function) -> dict[str, Function]:
    number = np.dtype(dtype).type
    one, two, zero = number(1), number(2), number(0)
    end = number(44)
    # From here on tanh rounds to 1.
    full = number(10 if dtype == "float32" else 22)

    @_inline
    def tanh(x: Any) -> Any:
        a = fabs(x)
        b = select(a > full, full, a)
        e = expm1_bounded(b + b)
        return copysign(e / (e + two), x)

    @_inline
    def sigmoid(x: Any) -> Any:
        # exp(-|x|) never overflows, and small results, for negative x, keep their digits.
        e = exp(-fabs(x))
        return select(x < zero, e, one) / (one + e)

    @_inline
    def expm1(x: Any) -> Any:
        # Above 44, 1 is negligible next to exp; below -44, exp is negligible next to 1.
        y = select(x > end, end, x)
        y = expm1_bounded(select(y < -end, -end, y))
        return select(x == zero, x, select(x > end, exp(x), y))

    return {"tanh": tanh, "sigmoid": sigmoid, "expm1": expm1}


def _logarithm(dtype: str) -> Function:
    is_32 = dtype == "float32"
    number, integer = (np.float32, np.int32) if is_32 else (np.float64, np.int64)
    bits_of = machine.bits_of_float32 if is_32 else machine.bits_of_float64
    of_bits = machine.float32_of_bits if is_32 else machine.float64_of_bits
    zero, one, two, half = number(0), number(1), number(2), number(0.5)
    infinity, nan = number(np.inf), number(np.nan)
    least_normal = np.finfo(number).tiny
    lift_bits = integer(25 if is_32 else 54)
    lift = number(2.0 ** int(lift_bits))
    high = number(0.693359375 if is_32 else 0.693147175014019)
    low = number(-0.00021219444 if is_32 else 5.5459262969660605e-09)
    shift = integer(23 if is_32 else 52)
    root_bits = integer(number(math.sqrt(0.5)).view(integer))
    none = integer(0)
    series = _polynomial(dtype, polynomials.LOG[dtype])

    @_inline
    def log(x: Any) -> Any:
        is_small = x < least_normal
        bits = bits_of(select(is_small, x * lift, x))
        # x = m * 2^k with m from sqrt(1/2) to sqrt(2).
        k = integer(integer(bits - root_bits) >> shift)
        m = of_bits(integer(bits - integer(k << shift)))
        n = number(integer(k - select(is_small, lift_bits, none)))
        f = m - one
        s = f / (two + f)
        z = s * s
        h = half * f * f
        y = n * high - ((h - (s * (h + z * series(z)) + n * low)) - f)
        y = select(x < infinity, y, x)
        return select(x > zero, y, select(x == zero, -infinity, nan))

    function: Function = log
    return function


def _log1p(dtype: str, log: Function) -> Function:
    number = np.dtype(dtype).type
    zero, one, infinity = number(0), number(1), number(np.inf)

    @_inline
    def log1p(x: Any) -> Any:
        u = one + x
        # The second term corrects for the rounding error of 1 + x, to first order.
        y = log(u) + (x - (u - one)) / u
        y = select(u == zero, -infinity, y)
        return select((x == zero) | (x == infinity), x, y)

    function: Function = log1p
    return function


def _error_function(dtype: str, exp: Function) -> Function:
    number = np.dtype(dtype).type
    one = number(1)
    near = _polynomial(dtype, polynomials.ERF[dtype])

    if dtype == "float32":
        full = number(4)
        tail = _polynomial(dtype, polynomials.ERF_TAIL_32)

        @_inline
        def far(t: Any) -> Any:
            # Instead of exp, divide by the eighth power: a division overlaps with other arithmetic,
            # and takes half the time of exp.
            root = tail(t)
            fourth = root * root * (root * root)
            return one - one / (fourth * fourth)
    else:
        full, centre, far_centre, middle = number(6), number(1.75), number(4.25), number(2.5)
        tail = _polynomial(dtype, polynomials.ERF_TAIL_64)
        far_tail = _polynomial(dtype, polynomials.ERF_FAR_TAIL_64)

        @_inline
        def far(t: Any) -> Any:
            return one - exp(-select(t < middle, tail(t - centre), far_tail(t - far_centre)))

    @_inline
    def erf(x: Any) -> Any:
        a = fabs(x)
        t = select(a > full, full, a)
        return select(a < one, x * near(x * x), copysign(far(t), x))

    function: Function = erf
    return function


def _complement_of_error_function(dtype: str) -> Function:
    """Return erfc, which is also accurate in its tail. For float32, erfc is computed in float64,
    because intermediate results need the range of float64.

    Source  Shepherd and Laframboise 1981, "Chebyshev approximation of (1 + 2x) exp(x**2) erfc x"
    """
    exp, number = _exponentials("float64")[0], np.dtype(dtype).type
    scaled = _polynomial("float64", polynomials.ERFC_64)
    near = _polynomial("float64", polynomials.ERF["float64"])
    # From `full` on the result is 0.
    zero, half, one, two, three, full = 0.0, 0.5, 1.0, 2.0, 3.0, 27.5

    @_inline
    def erfc(x: Any) -> Any:
        wide = np.float64(x)
        a = fabs(wide)
        t = select(a > full, full, a)
        square = t * t
        # `lost` is the rounding error of the square. Multiplying by 1 - lost, which is close to
        # exp(-lost), corrects for this error.
        lost = fma(t, t, -square)
        found = scaled((t - three) / (t + three)) * exp(-square) / (one + two * t)
        found = found - found * lost
        found = select(wide < zero, two - found, found)
        return number(select(a < half, one - wide * near(wide * wide), found))

    function: Function = erfc
    return function


def _circular(dtype: str) -> dict[str, Function]:
    """Return sin, cos and tan. For float32, angles are reduced in float64, and the functions of the
    reduced angles are computed in float32.
    """
    number = np.dtype(dtype).type
    is_64 = dtype == "float64"
    # pi / 2 as a sum of three numbers; with fma the first subtraction is exact.
    first, second, third = 1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33
    rounder, two_over_pi = 1.5 * 2.0**52, 2 / math.pi
    one, half, zero = number(1), number(0.5), number(0)
    sine, cosine = (
        _polynomial(dtype, table[dtype]) for table in (polynomials.SIN, polynomials.COS)
    )
    bits_of = machine.bits_of_float64

    @_exact
    def reduced(x: Any) -> Any:
        wide = np.float64(x)
        z = fma(wide, two_over_pi, rounder)
        n = z - rounder
        r = fma(-n, second, fma(-n, first, wide))
        if is_64:
            r = fma(-n, third, r)
        return bits_of(z), number(r)

    @_inline
    def both(r: Any) -> Any:
        z = r * r
        return r + r * z * sine(z), one - (half * z - z * z * cosine(z))

    @_inline
    def sin(x: Any) -> Any:
        quadrant, r = reduced(x)
        s, c = both(r)
        y = select((quadrant & 1) != 0, c, s)
        return select(x == zero, x, select((quadrant & 2) != 0, -y, y))

    @_inline
    def cos(x: Any) -> Any:
        quadrant, r = reduced(x)
        s, c = both(r)
        y = select((quadrant & 1) != 0, s, c)
        return select(((quadrant + 1) & 2) != 0, -y, y)

    @_inline
    def tan(x: Any) -> Any:
        quadrant, r = reduced(x)
        s, c = both(r)
        odd = (quadrant & 1) != 0
        return select(x == zero, x, select(odd, -c, s) / select(odd, s, c))

    return {"sin": sin, "cos": cos, "tan": tan}


def _divisions(dtype: str) -> dict[str, Function]:
    """Return NumPy's floor_divide, and its remainder, which has the sign of the divisor."""
    number = np.dtype(dtype).type
    zero, half, one = number(0), number(0.5), number(1)

    @_exact
    def remainder(x: Any, y: Any) -> Any:
        m = machine.fmod(x, y)
        wrong = (m != zero) & ((y < zero) != (m < zero))
        return select(m == zero, copysign(m, y), select(wrong, m + y, m))

    @_exact
    def floor_divide(x: Any, y: Any) -> Any:
        quotient = x / y
        m = machine.fmod(x, y)
        d = (x - m) / y
        wrong = (m != zero) & ((y < zero) != (m < zero))
        d = select(wrong, d - one, d)
        whole = machine.floor(d)
        whole = select(d - whole > half, whole + one, whole)
        whole = select(d == zero, copysign(d, quotient), whole)
        return select(y == zero, quotient, whole)

    return {"remainder": remainder, "floor_divide": floor_divide}

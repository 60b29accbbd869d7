# The functions of fastdist.special. Written by fastdist/namespace/stubs.py.
import builtins
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, overload

from .core.device import Device
from .core.dtypes import DType
from .random_numbers.generator import Generator
from .core.memory_format import MemoryFormat, MemoryLayout
from .ops import return_types
from .tensor.methods import DeviceLike, DTypeLike, Indices, NDArray, Number
from .tensor.methods import Operand, Scalar, Sizes
from .tensor.layout import Size
from .tensor.tensor import Tensor

def airy_ai(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return Airy's function Ai. As in PyTorch, the function has no gradient."""
def bessel_j0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the Bessel function of the first kind of order 0."""
def bessel_j1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the Bessel function of the first kind of order 1."""
def bessel_y0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the Bessel function of the second kind of order 0: -inf at 0, NaN below 0."""
def bessel_y1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the Bessel function of the second kind of order 1: -inf at 0, NaN below 0."""
def chebyshev_polynomial_t(input: Operand, n: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return Chebyshev's polynomial of the first kind."""
def chebyshev_polynomial_u(input: Operand, n: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return Chebyshev's polynomial of the second kind."""
def chebyshev_polynomial_v(input: Operand, n: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return Chebyshev's polynomial of the third kind."""
def chebyshev_polynomial_w(input: Operand, n: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return Chebyshev's polynomial of the fourth kind."""
def digamma(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the derivative of lgamma."""
def entr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return -input * log(input); 0 at 0, and -inf for negative input."""
def erf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the error function of each element."""
def erfc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return 1 - erf(input), precise even where erf is nearly 1."""
def erfcx(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return exp(input**2) * erfc(input), which does not underflow."""
def erfinv(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the inverse error function of each element."""
def exp2(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return 2 to the power of each element."""
def expit(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return 1 / (1 + exp(-x)) for each element x.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: A tensor of any shape and dtype. The result is 1 for inf, and 0 for -inf.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the same shape; integers give the default dtype.

    Example:
        >>> torch.sigmoid(torch.tensor([0.0, 2.0]))
        tensor([0.5000, 0.8808])
    """
def expm1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return exp(input) - 1, precise near 0."""
def gammainc(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return the regularised lower incomplete gamma function P(a, x) for a = input, x = other."""
def gammaincc(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return the regularised upper incomplete gamma function Q(a, x) for a = input, x = other."""
def gammaln(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the logarithm of the absolute value of gamma(input)."""
def hermite_polynomial_h(input: Operand, n: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return the physicists' Hermite polynomial."""
def hermite_polynomial_he(input: Operand, n: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return the probabilists' Hermite polynomial."""
def i0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the modified Bessel function of the first kind of order 0."""
def i0e(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return exp(-|input|) * i0(input)."""
def i1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the modified Bessel function of the first kind of order 1."""
def i1e(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return exp(-|input|) * i1(input)."""
def laguerre_polynomial_l(input: Operand, n: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return Laguerre's polynomial."""
def legendre_polynomial_p(input: Operand, n: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return Legendre's polynomial."""
def log1p(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the natural logarithm of 1 plus each element, precise near 0.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: A tensor of any shape and dtype. The result is -inf at -1, and NaN below.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the same shape; integers give the default dtype.

    Example:
        >>> torch.log1p(torch.tensor([0.0, 1.0]))
        tensor([0.0000, 0.6931])
    """
def log_ndtr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the logarithm of ndtr(input), precise in the far tail as well."""
def log_softmax(input: Tensor, dim: builtins.int, dtype: DTypeLike | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return log(softmax(input)) along dim, without overflow.

    Shape   (..., n, ...) -> (..., n, ...)
    Raises  NotImplementedError if input is not floating-point, and dtype is None; IndexError if dim
            is out of range

    Args:
        input: A floating-point tensor; integers need dtype. A slice with NaN or inf, or of -inf
            alone, gives NaN.
        dim: The axis along which the exponentials of the result add up to 1.
        dtype: The dtype to compute in, and of the result; None means the dtype of input.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.log_softmax(torch.tensor([1.0, 2.0]), dim=0)
        tensor([-1.3133, -0.3133])
    """
def logit(input: Tensor, eps: builtins.float | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return log(input / (1 - input)). If eps is given, input is clamped to eps ... 1 - eps first.
    If eps is above 1/2, that range is empty: then input below eps becomes eps, and all other input
    becomes 1 - eps.
    """
def logsumexp(input: Tensor, dim: Sizes, keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
    """Return log(sum(exp(input))) over dim, without overflow.

    Raises  IndexError if dim is out of range

    Args:
        input: A tensor of any dtype; integers are converted to the default dtype. The result for no
            elements is -inf.
        dim: The axis, or several as a tuple.
        keepdim: Whether the reduced axes stay, with length 1.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.logsumexp(torch.tensor([1000.0, 1000.0]), dim=0)
        tensor(1000.6932)
    """
def modified_bessel_i0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the modified Bessel function of the first kind of order 0."""
def modified_bessel_i1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the modified Bessel function of the first kind of order 1."""
def modified_bessel_k0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the modified Bessel function of the second kind of order 0: inf at 0, NaN below 0."""
def modified_bessel_k1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the modified Bessel function of the second kind of order 1: inf at 0, NaN below 0."""
def multigammaln(input: Tensor, p: builtins.int, *, out: Tensor | None = None) -> Tensor:
    """Return the logarithm of the multivariate gamma function of dimension p."""
def ndtr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the probability that a standard normal random number is smaller than input."""
def ndtri(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the inverse of ndtr: the quantile of the standard normal distribution at `input`."""
def polygamma(n: builtins.int, input: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return the n-th derivative of digamma.

    Raises  RuntimeError for n < 0
    """
def psi(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the derivative of lgamma."""
def round(input: Tensor, *, decimals: builtins.int = 0, out: Tensor | None = None) -> Tensor:
    """Return each element rounded to a number of decimals; ties are rounded to the even neighbour.

    Raises  NotImplementedError if input is bool or complex

    Args:
        input: A real tensor of any dtype but bool; with decimals other than 0, a floating-point
            tensor.
        decimals: The number of decimals; -1 rounds to tens, -2 to hundreds, and so on.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.round(torch.tensor([0.5, 1.5, 2.345]), decimals=0)
        tensor([0., 2., 2.])
    """
def scaled_modified_bessel_k0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return exp(input) * modified_bessel_k0(input)."""
def scaled_modified_bessel_k1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return exp(input) * modified_bessel_k1(input)."""
def shifted_chebyshev_polynomial_t(input: Operand, n: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return Chebyshev's polynomial of the first kind at 2 * input - 1."""
def shifted_chebyshev_polynomial_u(input: Operand, n: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return Chebyshev's polynomial of the second kind at 2 * input - 1."""
def shifted_chebyshev_polynomial_v(input: Operand, n: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return Chebyshev's polynomial of the third kind at 2 * input - 1."""
def shifted_chebyshev_polynomial_w(input: Operand, n: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return Chebyshev's polynomial of the fourth kind at 2 * input - 1."""
def sinc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return sin(pi * input) / (pi * input), and 1 at 0."""
def softmax(input: Tensor, dim: builtins.int, dtype: DTypeLike | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return exp(input) divided by its sum along dim, without overflow.

    Shape   (..., n, ...) -> (..., n, ...)
    Raises  IndexError if dim is out of range; NotImplementedError if input is not floating-point,
            and dtype is None

    Args:
        input: A floating-point tensor; integers need dtype. A slice with NaN or inf, or of -inf
            alone, gives NaN.
        dim: The axis along which the result adds up to 1.
        dtype: The dtype to compute in, and of the result; None means the dtype of input.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.softmax(torch.tensor([1.0, 2.0, 3.0]), dim=0)
        tensor([0.0900, 0.2447, 0.6652])
    """
def spherical_bessel_j0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the spherical Bessel function of order 0: sin(input) / input, and 1 at 0."""
def xlog1py(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return input * log1p(other); 0 where input is 0 and other is not NaN."""
def xlogy(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return input * log(other), or 0 where input is 0 and other is not NaN."""
def zeta(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return Hurwitz's zeta function: the sum over k >= 0 of 1 / (other + k)**input."""

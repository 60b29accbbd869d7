"""Every primitive of the scalar language in CUDA C++, against its CPU twin."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from fastdist.kernels.cpu.pointwise.numpy_pointwise import FUNCTIONS
from fastdist.kernels.cuda.launch import C_TYPES, text_of
from fastdist.language.scalar import PRIMITIVES
from tests.fibre_shim.driver import run_text
from tests.properties import in_one_test

ONLY_INTEGERS = {name for name in PRIMITIVES if name.startswith("bitwise")} | {"gcd"}
# On a GPU an integer divided by zero gives 0, since a kernel cannot raise an error. The CPU raises.
DIVISIONS = {"floor_divide", "remainder", "fmod"}
WHOLE = {"floor", "ceil", "trunc", "round", "abs", "sign", "neg", "square", "pow"} | {
    name for name in PRIMITIVES if PRIMITIVES[name].result == "bool"
}
OF_INTEGERS = (
    WHOLE | ONLY_INTEGERS | DIVISIONS | {"add", "sub", "mul", "minimum", "maximum", "where"}
)
OF_BOOL = {name for name in PRIMITIVES if name.startswith(("logical", "bitwise"))}
OF_BOOL = {name for name in OF_BOOL if "shift" not in name} | {"eq", "ne", "where", "maximum"}
LOGICAL = {"logical_and", "logical_or", "logical_xor", "logical_not"}

EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 7.0, -3.0, 1e-30, 1e30, -1e30, 40.0]
# Close to the poles of digamma.
EDGES += [-1e-30, -1e-10, -1 - 1e-6, -1 + 1e-6]
REALS = [*EDGES, np.inf, -np.inf, np.nan, *np.linspace(-3.3, 3.4, 23)]
TOLERANCE = {"float32": 2e-6, "float64": 1e-13, "complex64": 2e-6, "complex128": 1e-13}
OF_COMPLEX = LOGICAL | set(
    """
    acos acosh add asin asinh atan atanh conj cos cosh div eq exp exp2 expm1 ge isfinite isinf isnan
    log log10 log1p log2 lt mul ne neg pow reciprocal rsqrt sigmoid sin sinh sqrt square sub tan
    tanh where
    """.split()  # noqa: SIM905
)
# Real and imaginary parts of complex numbers; 1e10 needs an exact reduction of angles.
PARTS = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e-30, 1e10, 40.0, -40.0, 0.1, -0.7]
PARTS = [*PARTS, np.inf, -np.inf, np.nan]
# In these functions, sums of thousands of terms or a difference quotient amplify rounding errors.
ROUGH = {"gamma_slope": 1e-10, "igamma": 1e-12, "igammac": 1e-12}
# On the CPU these functions take one step per degree, up to the limit for 1e30, so test only each
# fourth number.
BY_STEPS = {"laguerre_polynomial_l", "legendre_polynomial_p"}


def primitives_of(dtype: np.dtype) -> list[str]:
    if dtype.kind == "f":
        return [name for name in PRIMITIVES if name not in ONLY_INTEGERS]
    if dtype.kind == "c":
        return sorted(OF_COMPLEX)
    return sorted(OF_BOOL if dtype.kind == "b" else OF_INTEGERS)


def samples(dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Return all pairs of interesting numbers, as two arrays."""
    if dtype.kind == "f":
        values = np.array(REALS).astype(dtype)
    elif dtype.kind == "b":
        values = np.array([False, True])
    elif dtype.kind == "c":
        # Pair all values with only a few second values. Each real and each imaginary part occurs in
        # these.
        values = np.array([complex(re, im) for re in PARTS for im in PARTS], dtype)
        a, b = np.meshgrid(values, values[::11])
        return a.ravel().copy(), b.ravel().copy()
    else:
        info = np.iinfo(dtype)
        inside = [n for n in (-7, -2, -1, 0, 1, 2, 3, 5, 9, 31, 64) if n >= info.min]
        values = np.array([*inside, info.min, info.max], dtype)
    a, b = np.meshgrid(values, values)
    return a.ravel().copy(), b.ravel().copy()


@functools.cache
def results(dtype: np.dtype) -> dict[str, np.ndarray]:
    """Return one kernel's results for every primitive; bool results as 0 and 1."""
    names, (a, b) = primitives_of(dtype), samples(dtype)
    lines = []
    for i, name in enumerate(names):
        kind = "bool" if name in LOGICAL else "T"
        operands = [f"{kind}(a)", f"{kind}(b)"]
        if name == "where":
            operands = ["bool(a)" if dtype.kind == "c" else "a > b", "a", "b"]
        arguments = ", ".join(operands[: PRIMITIVES[name].arity])
        lines.append(f"out[{i} * n + i] = T(scalar::{name}({arguments}));")
    files = [
        "headers/primitives.cuh",
        "headers/special.cuh",
        "headers/bessel.cuh",
        "headers/orthogonal.cuh",
    ]
    if dtype.kind == "c":
        files = [
            "headers/complex.cuh",
            "headers/primitives.cuh",
            "headers/complex_primitives.cuh",
            "headers/complex_functions.cuh",
        ]
    source = f"""{text_of(*files)}
    typedef {C_TYPES[dtype]} T;
    extern "C" __global__ void each(const T* as, const T* bs, T* out, int n) {{
        for (int i = threadIdx.x; i < n; i += blockDim.x) {{
            const T a = as[i], b = bs[i];
            {" ".join(lines)}
        }}
    }}"""
    out = np.empty((len(names), a.size), dtype)
    run_text(source, "each", (1,), (32,), [a, b, out, np.int32(a.size)])
    return dict(zip(names, out, strict=True))


def expected(name: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    condition = a.astype(bool) if a.dtype.kind == "c" else a > b
    operands = (condition, a, b) if name == "where" else (a, b)
    return np.asarray(FUNCTIONS[name](*operands[: PRIMITIVES[name].arity]))


@pytest.mark.one_in(5)
@in_one_test("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", primitives_of(np.dtype("float64")))
def test_primitive_of_reals_is_its_cpu_twin(name: str, dtype: str) -> None:
    a, b = samples(np.dtype(dtype))
    if name == "polygamma":
        inside = (a >= 0) & (a == np.floor(a)) & (a < 10) & (abs(b) < 100)
    elif name in BY_STEPS:
        inside = ~(np.isfinite(b) & (b > 1e6)) | (np.arange(len(a)) % 4 == 0)
    else:
        inside = np.ones(a.shape, bool)
    with np.errstate(all="ignore"):
        twin = expected(name, a[inside], b[inside]).astype(dtype)
    made, tolerance = results(np.dtype(dtype))[name][inside], TOLERANCE[dtype]
    tolerance = max(tolerance, ROUGH.get(name, 0.0))
    np.testing.assert_allclose(made, twin, rtol=tolerance, atol=tolerance * 1e-3, equal_nan=True)


@pytest.mark.one_in(5)
@in_one_test("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", sorted(OF_COMPLEX))
def test_primitive_of_complex_numbers_is_its_cpu_twin(name: str, dtype: str) -> None:
    """Where C99 specifies it, the parts that are inf, NaN or signed zeros are the same."""
    a, b = samples(np.dtype(dtype))
    inside = np.ones(a.shape, bool)
    if name == "pow":
        # For bases or exponents that are not small and finite, NumPy's result depends on how C's
        # cpow multiplies.
        inside = np.isfinite(a) & np.isfinite(b) & (abs(a) < 1e3) & (abs(b) < 10)
    elif name == "exp2":
        inside = ~(abs(a.imag) == np.float32(1e10))  # NumPy rounds the angle before the reduction
    with np.errstate(all="ignore"):
        twin = expected(name, a[inside], b[inside]).astype(dtype)
    made, tolerance = results(np.dtype(dtype))[name][inside], TOLERANCE[dtype]
    # In complex64, NumPy's own logarithm is inexact in its last digit.
    tolerance *= 1e3 if name == "pow" else 1
    size = np.maximum(*[np.where(np.isfinite(p), abs(p), 0) for p in (twin.real, twin.imag)])
    least = 1e-16 if name == "log1p" else 1e-20  # NumPy adds 1 before the logarithm
    for ours, theirs in ((made.real, twin.real), (made.imag, twin.imag)):
        with np.errstate(all="ignore"):
            near = abs(ours - theirs) <= tolerance * np.maximum(size, least)
        # If the other part is NaN, the sign of an infinity is unspecified.
        near |= np.isinf(ours) & np.isinf(theirs) & np.isnan(twin)
        same = (ours == theirs) | near | (np.isnan(ours) & np.isnan(theirs))
        assert same.all(), (a[inside][~same][:4], b[inside][~same][:4], made[~same], twin[~same])


@pytest.mark.parametrize("name", ["log", "log10", "sqrt", "asin", "acos", "acosh", "atanh", "conj"])
def test_the_sign_of_a_zero_says_on_which_side_of_a_cut_a_number_lies(name: str) -> None:
    a, b = samples(np.dtype("complex128"))
    inside = np.isfinite(a) & (a.imag == 0) & (a != 0)
    with np.errstate(all="ignore"):
        twin = expected(name, a[inside], b[inside])
    made = results(np.dtype("complex128"))[name][inside]
    assert np.array_equal(np.signbit(made.imag), np.signbit(twin.imag))


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64"])
def test_primitives_of_integers_are_their_cpu_twins(dtype: str) -> None:
    a, b = samples(np.dtype(dtype))
    for name, made in results(np.dtype(dtype)).items():
        inside = b != 0 if name in DIVISIONS else np.ones(a.shape, bool)
        with np.errstate(all="ignore"):
            twin = expected(name, a[inside], b[inside])
        assert np.array_equal(made[inside], twin.astype(dtype)), name
        assert name not in DIVISIONS or not made[~inside].any(), name


def test_primitives_of_bool_are_their_cpu_twins() -> None:
    a, b = samples(np.dtype(bool))
    for name, made in results(np.dtype(bool)).items():
        assert np.array_equal(made, expected(name, a, b)), name

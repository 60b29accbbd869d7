"""Every primitive of the scalar language in CUDA C++, against its CPU twin."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from fastdist.core.scalar import PRIMITIVES
from fastdist.kernels.cpu.numpy_pointwise import FUNCTIONS
from fastdist.kernels.cuda.launch import C_TYPES, text_of
from tests.fibre_shim.driver import run_text

ONLY_INTEGERS = {name for name in PRIMITIVES if name.startswith("bitwise")} | {"gcd"}
# On a GPU an integer divided by zero is 0: a kernel cannot raise. The CPU raises.
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
REALS = [*EDGES, np.inf, -np.inf, np.nan, *np.linspace(-3.3, 3.4, 23)]
TOLERANCE = {"float32": 2e-6, "float64": 1e-13}
# Where sums of thousands of terms, or a difference quotient, make more of a last bit.
ROUGH = {"gamma_slope": 1e-10, "igamma": 1e-12, "igammac": 1e-12}


def primitives_of(dtype: np.dtype) -> list[str]:
    if dtype.kind == "f":
        return [name for name in PRIMITIVES if name not in ONLY_INTEGERS]
    return sorted(OF_BOOL if dtype.kind == "b" else OF_INTEGERS)


def samples(dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Return all pairs of interesting numbers, as two arrays."""
    if dtype.kind == "f":
        values = np.array(REALS).astype(dtype)
    elif dtype.kind == "b":
        values = np.array([False, True])
    else:
        info = np.iinfo(dtype)
        inside = [n for n in (-7, -2, -1, 0, 1, 2, 3, 5, 9, 31, 64) if n >= info.min]
        values = np.array([*inside, info.min, info.max], dtype)
    a, b = np.meshgrid(values, values)
    return a.ravel().copy(), b.ravel().copy()


@functools.cache
def results(dtype: np.dtype) -> dict[str, np.ndarray]:
    """Return what one kernel makes of every primitive; bool results as 0 and 1."""
    names, (a, b) = primitives_of(dtype), samples(dtype)
    lines = []
    for i, name in enumerate(names):
        kind = "bool" if name in LOGICAL else "T"
        operands = ["a > b", "a", "b"] if name == "where" else [f"{kind}(a)", f"{kind}(b)"]
        arguments = ", ".join(operands[: PRIMITIVES[name].arity])
        lines.append(f"out[{i} * n + i] = T(scalar::{name}({arguments}));")
    source = f"""{text_of("primitives.cuh", "special.cuh")}
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
    operands = (a > b, a, b) if name == "where" else (a, b)
    return np.asarray(FUNCTIONS[name](*operands[: PRIMITIVES[name].arity]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", primitives_of(np.dtype("float64")))
def test_primitive_of_reals_is_its_cpu_twin(name: str, dtype: str) -> None:
    a, b = samples(np.dtype(dtype))
    if name == "polygamma":
        inside = (a >= 0) & (a == np.floor(a)) & (a < 10) & (abs(b) < 100)
    else:
        inside = np.ones(a.shape, bool)
    with np.errstate(all="ignore"):
        twin = expected(name, a[inside], b[inside]).astype(dtype)
    made, tolerance = results(np.dtype(dtype))[name][inside], TOLERANCE[dtype]
    tolerance = max(tolerance, ROUGH.get(name, 0.0))
    np.testing.assert_allclose(made, twin, rtol=tolerance, atol=tolerance * 1e-3, equal_nan=True)


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

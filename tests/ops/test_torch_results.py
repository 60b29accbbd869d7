"""Pointwise ops compared with PyTorch: at special numbers, in all dtypes, and for integers."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from tests.ops.make_torch_results import INTEGER_VALUES, NOT_IN_PYTORCH, NUMBERS, count_of
from tests.ops.pointwise.pointwise_rows import INTEGER_ROWS, POLYNOMIALS, ROWS
from tests.ops.pointwise.test_pointwise import DTYPES, function_of

# The samples broadcast on purpose, and losses warn about broadcasting.
pytestmark = pytest.mark.filterwarnings("ignore:Using a target size:UserWarning")
TORCH = json.loads((Path(__file__).parent / "torch_results.json").read_text())
# The right numbers, by op, quantity and point, where PyTorch's own numbers are wrong by accident.
# All other expected numbers are PyTorch's.
POLES = (-1.0, -3.0, -25.0, -120.0)
BESIDE_NAN = ((math.nan, math.inf), (math.nan, 0.0), (math.inf, math.nan))
RIGHT: dict[str, dict[str, dict[Any, float]]] = {
    # At a pole the derivative is inf. PyTorch computes 1 / sin(pi x)**2 with a rounded pi.
    "digamma": {"gradient 0": dict.fromkeys(POLES, math.inf)},
    "polygamma": {
        "value": dict.fromkeys(POLES, math.inf),
        "gradient 0": {math.inf: -0.0, -math.inf: math.nan},
        "int8": dict.fromkeys((-128, -7, -1), math.inf),
        "int64": dict.fromkeys((-9, -7, -1), math.inf),
    },
    # Where the function is undefined, its derivative is NaN.
    "acosh": {"gradient 0": dict.fromkeys((-math.inf, *POLES, -2.5), math.nan)},
    # The gradient at infinity is 0, not inf / inf. Integers are converted to float before adding 1.
    "softsign": {
        "gradient 0": {math.inf: 0.0, -math.inf: 0.0},
        "int8": {-128: -128 / 129, 127: 127 / 128},
    },
    # 1/6 is computed in float64, not rounded to float32.
    "hardsigmoid": {
        "gradient 0": dict.fromkeys((0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5), 1 / 6),
    },
    # The divisor is never negative.
    "gcd": {"int8": {(-128, 127): 1.0, (127, -128): 1.0}},
    # The divisor is at least 1e-12, not the float32 number next to 1e-12.
    "binary_entropy": {
        "gradient 0": {
            (x, y): (x - y) * 1e12 for x in (0.0, 1.0) for y in (0.0, 0.25, 0.5, 1.0) if x != y
        }
    },
    # The derivative is 0 where the function is 0. PyTorch computes inf * 0.
    "erfcx": {"gradient 0": {math.inf: -0.0}},
    # The result at NaN is NaN, whatever the other operands are.
    "i1": {"gradient 0": {math.nan: math.nan}},
    "i1e": {"gradient 0": {math.nan: math.nan}},
    "igamma": {"value": dict.fromkeys(BESIDE_NAN, math.nan)},
    "igammac": {"value": dict.fromkeys(BESIDE_NAN, math.nan)},
    # These oscillating functions tend to 0 at infinity. Other values are exact beyond float32.
    "bessel_j0": {
        "value": {math.inf: 0.0, -math.inf: 0.0, 6.0: 0.150645257250997},
        "int8": {-128: 0.001472222328185153},
    },
    "bessel_j1": {"value": {math.inf: 0.0, -math.inf: -0.0, 6.0: -0.2766838581275656}},
    "bessel_y0": {"value": {math.inf: 0.0, 6.0: -0.28819468398157916}},
    "bessel_y1": {
        "value": {math.inf: 0.0, 6.0: -0.17501034430039827},
        "uint8": {200: 0.015301824580389993},
    },
    # The value is as exact as SciPy's, also between the zeros of the function.
    "airy_ai": {
        "value": {math.inf: 0.0, -math.inf: 0.0, -2.5: -0.112325067692966, -3.0: -0.378814293677658}
    },
    # The result is NaN where the function has no limit, not 0 or inf; at inf it has a limit.
    "zeta": {
        "value": {
            **dict.fromkeys([(math.nan, x) for x in (-math.inf, 0.0, -2.0)], math.nan),
            **dict.fromkeys([(math.inf, -math.inf), (math.inf, -2.0)], math.nan),
            (2.5, -math.inf): math.nan,
            **dict.fromkeys([(math.inf, math.inf), (math.inf, 2.5), (2.5, math.inf)], 0.0),
        }
    },
    # At -inf, the quotient of density and probability is infinite.
    "log_ndtr": {"gradient 0": {-math.inf: math.inf}},
    # Far in the tail, the probability is not 0.
    "ndtr": {
        "int8": {-7: 1.2798125438858352e-12},
        "int64": {-7: 1.2798125438858352e-12, -9: 1.1285884059538408e-19},
    },
}


def right_of_degree(name: str) -> dict[str, dict[Any, float]]:
    """Return the right values of an orthogonal polynomial where PyTorch's are wrong.

    PyTorch gives 0 for an invalid degree, and 0 or uninitialized memory for a NaN. It gives NaN for
    a degree that is too large. In float32 its values lose digits.
    """
    usual = [float(x) for x in TORCH["binary_at"]]
    of_none = {(x, n): math.nan for x in usual for n in (math.nan, math.inf)}
    right = {"value": {**of_none, (math.nan, 2.5): math.nan}}
    for dtype in ("uint8", "int8", "int64"):
        values = INTEGER_VALUES[dtype]
        at = [(x, n) for x in values for n in values if n > 0]
        exact = POLYNOMIALS[name](*np.array(at, np.float64).T)
        exact[np.isnan(exact)] = math.inf  # SciPy gives NaN for values that overflow
        with np.errstate(over="ignore"):
            right[dtype] = dict(zip(at, exact.astype(np.float32).tolist(), strict=True))
    return right


RIGHT |= {name: right_of_degree(name) for name in POLYNOMIALS}
# By op, fastdist's error for a number that PyTorch silently truncates.
REFUSED_INTEGERS = {"addcmul": "argument value must not be a floating point number"}
# PyTorch computes in the target's dtype. By op and operand dtypes, the right result dtypes are:
RIGHT_DTYPES = {
    "logit_entropy": {
        "float32 float16": "float32",
        "float64 float16": "float64",
        "float64 float32": "float64",
    }
}


def expected_at(name: str, what: str, points: list[Any], theirs: np.ndarray) -> np.ndarray:
    """Return PyTorch's values, replaced by the right values where PyTorch's are wrong."""
    right = {str(point): value for point, value in RIGHT.get(name, {}).get(what, {}).items()}
    # Numbers are compared as text, so that NaN equals NaN and -0.0 equals 0.0.
    words = [str(point).replace("-0.0", "0.0") for point in points]
    values = [right.get(word, value) for word, value in zip(words, theirs)]
    assert len(values) == len(theirs)
    return np.array(values, np.float64)


def numbers(values: list[Any]) -> np.ndarray:
    return np.array([float(value) for value in values])


def test_pytorch_s_results_are_there_for_every_row() -> None:
    """`python -m tests.ops.make_torch_results torch` writes the file, if PyTorch is installed."""
    assert ROWS.keys() - {*NOT_IN_PYTORCH} == TORCH["special"].keys()
    assert TORCH["integers"].keys() == TORCH["special"].keys() | INTEGER_ROWS


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", TORCH["special"])
def test_special_values_and_gradients_are_pytorch_s(name: str) -> None:
    row, expected = ROWS[name], TORCH["special"][name]
    count = len(row.domains)
    usual = TORCH[("unary_at", "binary_at", "ternary_at")[count - 1]]
    at = numbers(TORCH["bounded_at"].get(name, usual))
    arrays = [a.ravel() for a in np.meshgrid(*[at] * count, indexing="ij")]
    leaves = [fd.tensor(a, dtype=fd.float64, requires_grad=True) for a in arrays]
    found = function_of(row)(*leaves)
    points = points_of(arrays)
    wanted = expected_at(name, "value", points, numbers(expected["value"]))
    compare(found.detach().numpy(), wanted, points, "value")
    if "gradients" not in expected or not row.differentiable:
        return
    found.backward(fd.ones_like(found))
    for i, (one, theirs) in enumerate(zip(leaves, expected["gradients"])):
        if theirs is not None:
            wanted = expected_at(name, f"gradient {i}", points, numbers(theirs))
            compare(one.grad.numpy(), wanted, points, f"gradient {i}")


def points_of(arrays: list[Any]) -> list[Any]:
    """Return, for each element, the number or the tuple of numbers that the op gets."""
    pairs = [tuple(column) for column in zip(*[np.asarray(a).tolist() for a in arrays])]
    return [pair[0] if len(pair) == 1 else pair for pair in pairs]


def compare(found: np.ndarray, expected: np.ndarray, at: list[Any], what: str) -> None:
    found = found.astype(np.float64)
    same = np.isclose(found, expected, rtol=1e-9, atol=1e-14, equal_nan=True)
    wrong = [
        f"{what} at {point}: {ours}, not {theirs}"
        for point, ours, theirs, fine in zip(at, found, expected, same)
        if not fine
    ]
    assert wrong == []


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", TORCH["dtypes"])
def test_result_dtypes_are_pytorch_s(name: str) -> None:
    table = TORCH["dtype_tables"][TORCH["dtypes"][name]] | RIGHT_DTYPES.get(name, {})
    function = function_of(ROWS[name]) if name in ROWS else getattr(fd, name)
    wrong = []
    for key, expected in table.items():
        first, *others = key.split()
        operands: list[Any] = [fd.ones(3, dtype=DTYPES[first])]
        if others == ["()"]:
            operands = [fd.ones((), dtype=DTYPES[first])]
        elif others and others[0] in NUMBERS:
            operands.append(NUMBERS[others[0]])
        elif others:
            operands.append(fd.ones(() if others[1:] else 3, dtype=DTYPES[others[0]]))
        if expected is None:
            continue  # fastdist may accept what PyTorch rejects
        found = function(*operands).dtype.name
        if found != expected:
            wrong.append(f"{key}: {found}, not {expected}")
    assert wrong == []


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", [n for n, found in TORCH["integers"].items() if found])
def test_integer_values_are_pytorch_s(name: str) -> None:
    function = function_of(ROWS[name]) if name in ROWS else getattr(fd, name)
    for dtype, (result_dtype, expected) in TORCH["integers"][name].items():
        values = TORCH["integer_values"][dtype]
        count = count_of(name)
        seconds = values if dtype == "bool" else [v for v in values if v]
        if "shift" in name:
            seconds = [0, 1, 3]
        axes = [values, seconds, seconds][:count]
        grid = [a.ravel() for a in np.meshgrid(*axes, indexing="ij")]
        given = [fd.tensor(np.asarray(a), dtype=DTYPES[dtype]) for a in grid]
        if name in REFUSED_INTEGERS:
            with pytest.raises(RuntimeError, match=REFUSED_INTEGERS[name]):
                function(*given)
            continue
        found = function(*given)
        assert found.dtype.name == result_dtype
        wanted = expected_at(name, dtype, points_of(grid), numbers(expected))
        np.testing.assert_allclose(
            found.numpy().astype(np.float64), wanted, rtol=1e-5, err_msg=dtype
        )

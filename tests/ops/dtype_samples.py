"""Inputs for each sample call and each pointwise op, in all dtypes except float32 and float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tests.ops.cases import Case, case_modules, is_number_array
from tests.ops.differences import generator
from tests.ops.pointwise.pointwise_rows import ROWS

WHOLE = ("uint8", "int8", "int16", "int32", "int64")
WIDE_UNSIGNED = ("uint16", "uint32", "uint64")
HALVES = ("float16", "bfloat16")
COMPLEX = ("complex64", "complex128")
DTYPES = ("bool", *WHOLE, *WIDE_UNSIGNED, *HALVES, *COMPLEX)
# Files with random results, which differ between libraries.
RANDOM = ("draws_cases", "dropout_cases")
# Errors for a rejected dtype. A loss that gets a Python number fails when it reads the sizes.
REFUSALS = (RuntimeError, TypeError, ValueError, IndexError, AttributeError)


class Sample(NamedTuple):
    """One call and its inputs in float64; integer and bool inputs keep their dtype."""

    ours: Callable[..., Any]
    inputs: list[np.ndarray]
    imaginary: list[np.ndarray]
    is_differentiable: bool

    def arrays(self, dtype: str) -> list[np.ndarray]:
        """Return the inputs in the dtype; inputs of a half type are float64, and are cast later."""
        return [
            np.asarray(_cast(real, imaginary, dtype)) if is_number_array(real) else real.copy()
            for real, imaginary in zip(self.inputs, self.imaginary, strict=True)
        ]


def _cast(real: np.ndarray, imaginary: np.ndarray, dtype: str) -> np.ndarray:
    if dtype in COMPLEX:
        return (real + 1j * imaginary).astype(dtype)
    if dtype in HALVES:
        return real
    if dtype == "bool":
        return real > real.mean() if real.size else real.astype(bool)
    finite = np.nan_to_num(real, nan=3.0, posinf=5.0, neginf=-5.0)
    whole = np.rint(2 * finite)
    return (np.abs(whole) if dtype.startswith("u") else whole).astype(dtype)


def samples() -> dict[str, Sample]:
    """Return, by id, a sample of each pointwise row and of each case whose inputs have elements.

    PyTorch does not check the dtype of inputs without elements.
    """
    found = {}
    for module in case_modules():
        if module.__name__.rpartition(".")[2] in RANDOM:
            continue
        for name, cases in module.CASES.items():
            for i, one in enumerate(cases):
                sample = _of_case(f"{name}-{i}", one)
                if all(a.size for a in sample.inputs):
                    found[f"{name}-{i}"] = sample
    for name, row in ROWS.items():
        random = generator(f"{name} in dtypes")
        pairs = [[random.uniform(*domain, (2, 3)) for domain in row.domains] for _ in range(2)]
        found[f"{name} pointwise"] = Sample(lambda: None, *pairs, row.differentiable)
    return found


def _of_case(name: str, one: Case) -> Sample:
    inputs = [
        np.asarray(np.round(a, 2)) if is_number_array(a) else a for a in one.arrays(f"{name} real")
    ]
    imaginary = [
        np.asarray(np.round(generator(f"{name} imaginary {i}").uniform(-1, 1, a.shape), 2))
        for i, a in enumerate(inputs)
    ]
    return Sample(one.ours, inputs, imaginary, one.differentiable)

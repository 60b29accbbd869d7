"""Sample calls of ops: the call, NumPy's result, and the inputs."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

import fastdist as fd
from fastdist.namespace.load import FUNCTIONAL_NAMES
from tests.ops.differences import generator


class Functional:
    """Looks up functions such as `F.relu` by name."""

    def __getattr__(self, name: str) -> Any:
        return FUNCTIONAL_NAMES[name]


F = Functional()


class Case(NamedTuple):
    """One call. An input given as a shape becomes random numbers; an array is used as it is."""

    ours: Callable[..., Any]
    numpys: Callable[..., Any]
    inputs: tuple[Any, ...]
    differentiable: bool
    low: float
    high: float
    # Tolerance of values in float32, relative to the largest value.
    tolerance: float

    def arrays(self, seed: str) -> list[np.ndarray]:
        random = generator(seed)
        # Return copies, since a test may write to its inputs, and other tests run after it.
        return [
            random.uniform(self.low, self.high, given) if isinstance(given, tuple) else given.copy()
            for given in self.inputs
        ]


def case(
    ours: Callable[..., Any],
    numpys: Callable[..., Any],
    *inputs: Any,
    differentiable: bool = True,
    low: float = -2.0,
    high: float = 2.0,
    tolerance: float = 1e-5,
) -> Case:
    return Case(ours, numpys, inputs, differentiable, low, high, tolerance)


def plain(ours: Callable[..., Any], numpys: Callable[..., Any], *inputs: Any, **more: Any) -> Case:
    """Return a case without derivatives."""
    return case(ours, numpys, *inputs, differentiable=False, **more)


def is_number_array(array: np.ndarray) -> bool:
    return array.dtype.kind == "f"


def as_tensors(arrays: list[np.ndarray], dtype: Any) -> list[fd.Tensor]:
    return [
        fd.tensor(array, dtype=dtype) if is_number_array(array) else fd.tensor(array)
        for array in arrays
    ]


def ints(*values: Any) -> np.ndarray:
    return np.array(values if len(values) > 1 else values[0], np.int64)


def bools(*rows: str) -> np.ndarray:
    """Return a bool array; each row is given as a string such as "101"."""
    mask = np.array([[letter == "1" for letter in row] for row in rows])
    return mask[0] if len(rows) == 1 else mask


def case_modules() -> list[ModuleType]:
    """Return the modules of sample calls: all files `*_cases.py` of this folder that have CASES."""
    folder = Path(__file__).parent
    paths = sorted(folder.rglob("*_cases.py"))
    names = [".".join(path.relative_to(folder).with_suffix("").parts) for path in paths]
    modules = [importlib.import_module(f"tests.ops.{name}") for name in names]
    return [module for module in modules if hasattr(module, "CASES")]

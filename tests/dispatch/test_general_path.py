"""Calls without a short path: their operands, and ops that override the general path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pytest

import fastdist as fd
from fastdist.dispatch.call import GeneralPath, as_operand_of
from fastdist.dispatch.op import OPS


@pytest.mark.parametrize("array", [np.array([1.0, 2.0]), np.zeros(0), np.array(0.0)])
def test_an_array_is_an_operand_over_the_same_memory(array: np.ndarray) -> None:
    found = as_operand_of(array)
    assert isinstance(found, fd.Tensor) and found.dtype == fd.float64
    assert found.shape == array.shape and np.shares_memory(found.numpy(), array) == (array.size > 0)


@pytest.mark.parametrize("value", ["text", [1.0], object()])
def test_no_op_takes_other_things(value: object) -> None:
    assert as_operand_of(value) is NotImplemented
    with pytest.raises(TypeError, match=r"unsupported operand|add\(\)"):
        fd.ones(2) + value  # type: ignore[operator]


def test_numbers_of_numpy_are_numbers() -> None:
    assert as_operand_of(np.float32(2.5)) == 2.5
    assert type(as_operand_of(np.int64(3))) is int


def kinds_below(kind: type) -> Iterator[type]:
    """Yield all direct and indirect subclasses of a class."""
    for below in kind.__subclasses__():
        yield below
        yield from kinds_below(below)


def without_computes(kinds: Iterable[type]) -> set[str]:
    """Return the names of classes that define `general`, but not `computes`."""
    return {k.__name__ for k in kinds if "general" in vars(k) and "computes" not in vars(k)}


def test_an_op_with_a_general_path_of_its_own_says_when_it_computes_the_result_itself() -> None:
    # Forward mode calls `computes` to find whether the op has its own kernel. If not, other ops
    # compute the result and its tangent; forward mode must not compute the tangent again.
    kinds = {type(op) for op in OPS.values()} | {*kinds_below(GeneralPath)}
    ours = {kind for kind in kinds if kind.__module__.startswith("fastdist.")}
    assert len(ours) > 5 and {"ShapeOrDType"} <= {kind.__name__ for kind in ours}
    assert without_computes(ours) == set()


def test_an_op_that_does_not_say_so_is_found() -> None:
    class Silent:
        general = GeneralPath.general

    class Says(Silent):
        general = GeneralPath.general
        computes = GeneralPath.computes

    assert without_computes([Silent, Says, GeneralPath]) == {"Silent"}

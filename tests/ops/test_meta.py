"""Ops on tensors of the meta device: the shape, dtype and strides of the CPU's results, no data."""

from __future__ import annotations

from typing import Any

import pytest

import fastdist as fd
from tests.ops.cases import as_tensors
from tests.ops.test_table import CASES

# The table broadcasts on purpose, and the losses warn of it.
pytestmark = pytest.mark.filterwarnings("ignore:Using a target size:UserWarning")
# Ops whose results' shapes, or whose checks, depend on values: they refuse, and name themselves.
NEED_VALUES: frozenset[str] = frozenset()


def geometry(result: Any) -> Any:
    """Return the shape, dtype and strides of each tensor in a result."""
    if isinstance(result, fd.Tensor):
        return tuple(result.shape), result.dtype, result.stride()
    return [geometry(one) for one in result] if isinstance(result, tuple | list) else type(result)


def on_meta(tensors: list[Any]) -> list[Any]:
    """Return tensors of the same layouts on the meta device."""
    return [one.to("meta") if isinstance(one, fd.Tensor) else one for one in tensors]


@pytest.mark.parametrize("name", sorted(CASES.keys() - NEED_VALUES))
def test_results_have_the_layout_of_the_cpus(name: str) -> None:
    for one in CASES[name]:
        tensors = as_tensors(one.arrays(f"{name} value"), fd.float32)
        found = one.ours(*on_meta(tensors))
        assert geometry(found) == geometry(one.ours(*tensors))
        assert found.is_meta

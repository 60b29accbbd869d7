"""The op table on the meta device: shapes, dtypes and strides as on the CPU, without data."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import fastdist as fd
from fastdist.core.errors import NoDataError
from tests.ops.cases import as_tensors
from tests.ops.pointwise.pointwise_rows import ROWS
from tests.ops.pointwise.test_pointwise import function_of
from tests.ops.test_table import CASES

# The samples broadcast on purpose, and losses warn about broadcasting.
pytestmark = pytest.mark.filterwarnings("ignore:Using a target size:UserWarning")
# Ops that read values, or whose result shapes depend on values.
NEED_VALUES: Final = frozenset(
    {
        "argwhere",
        "bincount",
        "cpu",
        "embedding_bag",
        "grouped_mm",
        "histogramdd",
        "linalg.lstsq",
        "linalg.matrix_exp",
        "masked_select",
        "matrix_exp",
        "nonzero",
        "one_hot",
        "put_places",
        "repeat_interleave",
        "take_places",
        "unique",
        "unique_consecutive",
        "where",
    }
)


def geometry(result: Any) -> Any:
    """Return the shape, dtype and strides of each tensor in a result."""
    if isinstance(result, fd.Tensor):
        return tuple(result.shape), result.dtype, result.stride()
    return [geometry(one) for one in result] if isinstance(result, tuple | list) else type(result)


def on_meta(tensors: list[Any]) -> list[Any]:
    """Return tensors with the same layouts on the meta device; keep other values."""
    return [one.to("meta") if isinstance(one, fd.Tensor) else one for one in tensors]


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", sorted(CASES.keys() - NEED_VALUES))
def test_results_have_the_layouts_of_the_cpus(name: str) -> None:
    for one in CASES[name]:
        tensors = as_tensors(one.arrays(f"{name} value"), fd.float32)
        found = one.ours(*on_meta(tensors))
        assert geometry(found) == geometry(one.ours(*tensors))
        assert found.is_meta


@pytest.mark.parametrize("name", sorted(NEED_VALUES))
def test_what_follows_from_values_is_refused_by_name(name: str) -> None:
    refused = []
    for one in CASES[name]:
        tensors = as_tensors(one.arrays(f"{name} value"), fd.float32)
        try:
            found = one.ours(*on_meta(tensors))
        except NoDataError as error:
            refused.append(error)
        else:
            assert geometry(found) == geometry(one.ours(*tensors))
    assert refused
    assert all("meta tensor" in str(error) for error in refused)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", sorted(ROWS))
def test_pointwise_results_have_the_layouts_of_the_cpus(name: str) -> None:
    row = ROWS[name]
    op = function_of(row)
    count = len(row.domains)
    mixed = [(4, 3)] if row.public.startswith("binary") else [(3,)]  # these ops do not broadcast
    for shapes in ([(2, 3)] * count, [*mixed, *[(4, 3)] * (count - 1)], [(3, 0)] * count):
        tensors = [fd.from_numpy(np.full(shape, 0.5, np.float32)) for shape in shapes]
        found = op(*on_meta(tensors))
        assert geometry(found) == geometry(op(*tensors))
        assert found.is_meta

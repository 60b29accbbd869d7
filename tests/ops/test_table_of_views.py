"""Every case for complex numbers gives the same results on conjugated and negated views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from tests.ops.dtype_samples import REFUSALS, samples
from tests.ops.test_complex_on_fibres import TAKEN
from tests.ops.test_table_dtypes import COTANGENT, by_op, call_of
from tests.properties import in_one_test_each

pytestmark = pytest.mark.filterwarnings("ignore")
SAMPLES = samples()
View = Callable[[fd.Tensor], fd.Tensor]


def conjugated(tensor: fd.Tensor) -> fd.Tensor:
    """Return a conjugated view with the values of the tensor if it is complex, else the tensor."""
    return tensor.conj_physical().conj() if tensor.is_complex() else tensor


def negated(tensor: fd.Tensor) -> fd.Tensor:
    """Return a negated view with the tensor's values if its dtype allows it, else the tensor."""
    if tensor.dtype not in (fd.float32, fd.float64):
        return tensor
    return fd.complex(fd.zeros_like(tensor), -tensor).conj().imag


def found_of(name: str, dtype: str, view: View | None) -> list[Any]:
    """Return the result of a sample called on views, and the gradients of the views' leaves."""
    sample = SAMPLES[name]
    leaves, given = [], []
    for real, array in zip(sample.inputs, sample.arrays(dtype), strict=True):
        if real.dtype.kind != "f":
            given.append(fd.tensor(array))
            continue
        leaf = fd.tensor(array, dtype=getattr(fd, dtype))
        leaf.requires_grad_(sample.is_differentiable)
        leaves.append(leaf)
        given.append(leaf if view is None else view(leaf))
    fd.manual_seed(7)
    result = call_of(name)(*given)
    found = [result.detach()]
    if result.requires_grad:
        cotangent = fd.full_like(found[0], COTANGENT if result.dtype.is_complex else 1.0)
        wanted = [one for one in leaves if one.requires_grad]
        found += fd.autograd.grad(result, wanted, cotangent, allow_unused=True)
    return [None if one is None else one.resolve_conj().resolve_neg().numpy() for one in found]


def compare(name: str, dtype: str, view: View) -> None:
    try:
        expected = found_of(name, dtype, None)
    except REFUSALS as error:
        with pytest.raises(type(error)):
            found_of(name, dtype, view)
        return
    for ours, plain in zip(found_of(name, dtype, view), expected, strict=True):
        assert (ours is None) == (plain is None)
        if plain is not None:
            assert ours.dtype == plain.dtype
            np.testing.assert_allclose(ours, plain, rtol=1e-9, atol=1e-9)


@pytest.mark.one_in(5)
@in_one_test_each("op", "name", by_op(TAKEN))
def test_a_conjugated_view_is_the_numbers_that_it_shows(name: str) -> None:
    compare(name, "complex128", conjugated)


@pytest.mark.one_in(5)
@in_one_test_each("op", "name", by_op([*SAMPLES][::4]))
def test_a_negated_view_is_the_numbers_that_it_shows(name: str) -> None:
    compare(name, "float64", negated)


@pytest.mark.slow
@in_one_test_each("op", "name", by_op([n for i, n in enumerate(SAMPLES) if i % 4]))
def test_each_negated_view_is_the_numbers_that_it_shows(name: str) -> None:
    compare(name, "float64", negated)

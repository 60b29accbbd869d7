"""Every structured op and composite on empty and tiny tensors, and on NaN and infinities."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import fastdist as fd
from fastdist.kernels.cpu.pointwise.pointwise import PointwiseKernel
from tests.ops.cases import Case, as_tensors, is_number_array
from tests.ops.differences import check_first_order, generator
from tests.ops.edge_cases import (
    EMPTY,
    NAMES_AN_AXIS,
    NAMES_THE_SIZE,
    NUMPY_KNOWS_NO_SUCH,
    REFUSED_SCALAR,
    SCALAR,
    Refused,
)
from tests.ops.fft.fourier_edges import WITHOUT_EMPTY as NO_SIGNAL
from tests.ops.nn.image_edges import IMAGES, INNER, REFUSED_OTHERWISE, WITHOUT_EMPTY
from tests.ops.test_table import ALL, CASES, by_op, differentiated, every_differentiable_case
from tests.properties import Properties, in_one_test_each

# The samples broadcast on purpose, and losses warn about broadcasting.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Using a target size:UserWarning", "ignore:cov.*degrees of freedom is <= 0:UserWarning"
)


def resized(one: Case, sizes: dict[int, int] | None) -> Case:
    """Return the case with other sizes of its inputs, or with inputs without axes."""
    inputs = [
        given if not isinstance(given, tuple)
        else () if sizes is None
        else tuple([sizes.get(n, n) for n in given])
        for given in one.inputs
    ]  # fmt: skip
    return one._replace(inputs=tuple(inputs))


def numpys(one: Case, arrays: list[np.ndarray]) -> np.ndarray:
    """Return NumPy's value without warnings, such as that for the mean of an empty slice."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.asarray(one.numpys(*arrays))


def numpy_can(one: Case) -> bool:
    """Return whether NumPy gives a result for a case; it fails if the new sizes do not match."""
    try:
        numpys(one, one.arrays("sizes"))
    except (ValueError, IndexError, TypeError, ZeroDivisionError, DeprecationWarning):
        return False  # older NumPy warns of an index into an empty array
    return True


def shapes_of(one: Case) -> list[tuple[int, ...]]:
    return [given for given in one.inputs if isinstance(given, tuple)]


def is_empty(one: Case) -> bool:
    sizes = (np.prod(g) if isinstance(g, tuple) else np.size(g) for g in one.inputs)
    return any(size == 0 for size in sizes)


def is_scalar(one: Case) -> bool:
    return any((g if isinstance(g, tuple) else np.shape(g)) == () for g in one.inputs)


def emptied() -> dict[str, list[Case]]:
    """Return samples without elements: each sample of the table, once for each size set to 0."""
    found: dict[str, list[Case]] = {name: [*EMPTY.get(name, ())] for name in CASES}
    for name, cases in CASES.items():
        for i, one in enumerate(cases):
            sizes = {n for shape in shapes_of(one) for n in shape if n}
            tried = [resized(one, {n: 0}) for n in sorted(sizes)]
            if (name, i) not in NAMES_THE_SIZE and name not in IMAGES:
                found[name] += [other for other in tried if numpy_can(other)]
            if is_empty(one):
                found[name].append(one)
    return found


def without_axes() -> dict[str, list[Case]]:
    """Return samples without axes: each sample of the table whose inputs can lose all axes."""
    found: dict[str, list[Case]] = {name: [*SCALAR.get(name, ())] for name in CASES}
    for name, cases in CASES.items():
        for i, one in enumerate(cases):
            other = resized(one, None)
            named = (name, i) in NAMES_AN_AXIS or name in IMAGES
            if other != one and not named and numpy_can(other):
                found[name].append(other)
            if is_scalar(one):
                found[name].append(one)
    return found


EMPTIED, WITHOUT_AXES = emptied(), without_axes()


def test_every_op_is_tried_without_elements() -> None:
    assert {name for name, cases in EMPTIED.items() if not cases} == WITHOUT_EMPTY | NO_SIGNAL


def test_every_op_is_tried_without_axes_or_known_to_refuse_that() -> None:
    tried = {name for name, cases in WITHOUT_AXES.items() if cases}
    assert CASES.keys() - tried - INNER - REFUSED_OTHERWISE == REFUSED_SCALAR.keys() - tried
    assert REFUSED_SCALAR.keys() <= CASES.keys()


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", CASES)
def test_value_and_derivatives_at_the_edge_are_numpy_s(name: str, properties: Properties) -> None:
    for about, found in (("without elements", EMPTIED), ("without axes", WITHOUT_AXES)):
        for i, one in enumerate(found[name]):
            with properties(f"{about} {i}"):
                check_edge(name, one)


def check_edge(name: str, one: Case) -> None:
    arrays = one.arrays(f"{name} edge")
    found = one.ours(*as_tensors(arrays, fd.float64)).numpy()
    expected = numpys(one, arrays)
    assert found.shape == expected.shape
    # For integers, a 0-d tensor gives a result of the default dtype, float32.
    is_wide = found.dtype != np.float32
    tolerance = 1e-10 if is_wide else 1e-6
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
    if one.differentiable and is_wide and np.isfinite(expected).all():
        check_first_order(*differentiated(one, arrays), generator(f"{name} direction"))


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", REFUSED_SCALAR)
def test_an_op_that_needs_axes_says_so(name: str) -> None:
    refused: Refused = REFUSED_SCALAR[name]
    with pytest.raises(RuntimeError) as caught:
        refused(fd.tensor(1.5))
    assert "index out of range" not in str(caught.value) and len(str(caught.value)) > 10


# ---- NaN and infinities -------------------------------------------------------------------------

SPECIAL = {"nan": [np.nan], "inf": [np.inf], "-inf": [-np.inf], "all": [np.inf, np.nan, -np.inf]}


@pytest.mark.one_in(5)
@in_one_test_each(
    "op",
    "name, one",
    by_op([p for p in ALL if shapes_of(p.values[1]) and p.id not in NUMPY_KNOWS_NO_SUCH]),
)
def test_nan_and_infinities_come_through_as_numpy_s(
    name: str, one: Case, properties: Properties
) -> None:
    for what, special in SPECIAL.items():
        with properties(what):
            arrays = one.arrays(f"{name} special")
            for array in arrays:
                if is_number_array(array):
                    values = special[: array.size]
                    array.reshape(-1)[: len(values)] = values
            found = one.ours(*as_tensors(arrays, fd.float64)).numpy()
            expected = numpys(one, arrays)
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


# ---- Pointwise ops by NumPy and by Numba ---------------------------------------------------------


@pytest.mark.one_in(5)
@every_differentiable_case
def test_values_and_gradients_are_the_same_on_numba_s_side(
    name: str, one: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A structured kernel has one implementation; pointwise ops around it use NumPy or Numba."""
    arrays = one.arrays(f"{name} side")

    def run() -> list[np.ndarray]:
        leaves = []
        for array in arrays:
            moves = is_number_array(array)
            dtype = fd.float32 if moves else None
            leaves.append(fd.tensor(array, dtype=dtype, device="sim:0", requires_grad=moves))
        found = one.ours(*leaves)
        found.sum().backward()
        return [
            found.detach().cpu().numpy(),
            *[t.grad.cpu().numpy() for t in leaves if t.grad is not None],
        ]

    expected = run()
    # On a device, a pointwise kernel always calls `run`, whatever the size.
    with monkeypatch.context() as patch:
        patch.setattr(PointwiseKernel, "run", PointwiseKernel.run_large)
        found = run()
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)

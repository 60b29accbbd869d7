"""Every structured op and every composite of the table: each case is checked for each property."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.dispatch.composite import COMPOSITES
from fastdist.dispatch.op import OPS
from fastdist.dispatch.pointwise import PointwiseOp
from tests.ops.cases import Case, as_tensors, case_modules, is_number_array
from tests.ops.differences import check_first_order, check_second_order, generator
from tests.properties import Properties, in_one_test_each

# The samples broadcast on purpose, and losses warn about broadcasting.
pytestmark = pytest.mark.filterwarnings("ignore:Using a target size:UserWarning")
MODULES = case_modules()
CASES: dict[str, list[Case]] = {
    name: cases for module in MODULES for name, cases in module.CASES.items()
}
COVERED_BY = {name: by for module in MODULES for name, by in module.COVERED_BY.items()}
# Functions without a NumPy reference, such as random functions; other files test them.
ELSEWHERE = frozenset().union(*[getattr(module, "ELSEWHERE", frozenset()) for module in MODULES])
ALL = [
    pytest.param(name, one, id=f"{name}-{i}")
    for name, cases in CASES.items()
    for i, one in enumerate(cases)
]
DIFFERENTIABLE = [param for param in ALL if param.values[1].differentiable]
# Ids of cases that have no float16 kernel here or in PyTorch.
NO_HALF = frozenset().union(*[getattr(module, "NO_HALF", frozenset()) for module in MODULES])
WITHOUT_HALVES = [param.values[1] for param in ALL if param.id in NO_HALF]


def by_op(params: list[Any]) -> dict[str, dict[str, tuple[Any, ...]]]:
    """Return the values of all cases by op and id, for in_one_test_each."""
    found: dict[str, dict[str, tuple[Any, ...]]] = {}
    for param in params:
        found.setdefault(param.values[0], {})[param.id] = param.values
    return found


every_case: Any = in_one_test_each("op", "name, one", by_op(ALL))
every_differentiable_case: Any = in_one_test_each("op", "name, one", by_op(DIFFERENTIABLE))


def differentiated(one: Case, arrays: list[np.ndarray]) -> tuple[Any, list[np.ndarray]]:
    """Return a function of the case's floating inputs only, and these inputs."""
    fixed = [None if is_number_array(a) else fd.tensor(a) for a in arrays]

    def f(*moving: fd.Tensor) -> fd.Tensor:
        rest = iter(moving)
        result: fd.Tensor = one.ours(*[next(rest) if x is None else x for x in fixed])
        return result

    return f, [a for a in arrays if is_number_array(a)]


def test_every_op_and_composite_has_a_case() -> None:
    # Collectives need a group: tests/distributed/nn/test_collective.py tests them.
    ops = {
        name
        for name, op in OPS.items()
        if not isinstance(op, PointwiseOp) and "distributed" not in op.declared.__module__
    }
    known = CASES.keys() | COVERED_BY.keys()
    told = "give each a row in CASES, or in COVERED_BY the row that calls it, of a *_cases.py"
    assert ops - known - ELSEWHERE == set(), told
    assert COMPOSITES.keys() - known - ELSEWHERE == set(), told
    assert set(COVERED_BY.values()) <= CASES.keys()


def test_a_case_gives_each_test_arrays_of_its_own() -> None:
    (one, _) = CASES["clamp"]
    for array in one.arrays("written to"):
        array[...] = np.inf
    assert [array.item() for array in one.arrays("as before")[1:]] == [-1.1, 0.9]


# With strided memory, a view may be impossible and raise: test_views.py tests these ops.
VIEWS = ("view", "view_as")


# Half types, by their names in error messages: (dtype, tolerance of results).
HALVES = {"Half": (fd.float16, 4e-2), "BFloat16": (fd.bfloat16, 0.3)}


@pytest.mark.one_in(5)
@every_case
def test_every_property(name: str, one: Case, properties: Properties) -> None:
    arrays = one.arrays(f"{name} value")
    with np.errstate(all="ignore"):
        expected = np.asarray(one.numpys(*arrays))
    for dtype, tolerance in ((fd.float32, one.tolerance), (fd.float64, 1e-10)):
        with properties(f"value in {dtype.name}"):
            found = one.ours(*as_tensors(arrays, dtype)).numpy()
            assert found.shape == expected.shape
            np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
    for layout, strided in {} if name in VIEWS else STRIDED.items():
        with properties(f"value of {layout}"):
            found = one.ours(*[fd.from_numpy(np.asarray(strided(a))) for a in arrays]).numpy()
            whole = one.ours(*as_tensors(arrays, fd.float64)).numpy()
            np.testing.assert_allclose(found, whole, rtol=1e-12, atol=1e-12)
    with properties("value on a device"):
        check_device(name, one, "sim:0", arrays)
    if one.differentiable:
        has_halves = not any(one is other for other in WITHOUT_HALVES)
        _check_differentiable(name, one, properties, has_halves=has_halves)


def _check_differentiable(
    name: str, one: Case, properties: Properties, *, has_halves: bool
) -> None:
    with properties("first derivatives"):
        f, arrays = differentiated(one, one.arrays(f"{name} first"))
        check_first_order(f, arrays, generator(f"{name} direction"))
    with properties("second derivatives"):
        f, arrays = differentiated(one, one.arrays(f"{name} second"))
        check_second_order(f, arrays, generator(f"{name} second direction"))
    arrays = one.arrays(f"{name} half")
    for word, (dtype, tolerance) in HALVES.items():
        if has_halves:
            with properties(f"dtype and value in {dtype.name}"):
                check_half_type(name, one, arrays, dtype, tolerance)
        else:
            with properties(f"refusal of {dtype.name}"), pytest.raises(RuntimeError, match=word):
                one.ours(*as_tensors(arrays, dtype))


def _fortran(array: np.ndarray) -> np.ndarray:
    return array.T.copy().T


def _every_second(array: np.ndarray) -> np.ndarray:
    for axis in range(array.ndim):
        array = np.repeat(array, 2, axis)
    return array[(slice(None, None, 2),) * array.ndim]


STRIDED = {"columns in order": _fortran, "every second element": _every_second}


def check_device(name: str, one: Case, device: str, arrays: list[np.ndarray]) -> None:
    """Compare a result on a device with the result on the CPU."""
    inputs = as_tensors(arrays, fd.float64)
    expected = one.ours(*inputs)
    found = one.ours(*[tensor.to(device) for tensor in inputs])
    assert str(found.device) == ("cpu" if name == "cpu" else device)
    # GPU libraries round differently: if large terms have a small sum, it has fewer exact digits.
    least = 0.0
    if device == "cuda:0" and expected.numel():
        least = 1e-14 * float(np.abs(np.nan_to_num(expected.numpy(), posinf=0, neginf=0)).max())
    np.testing.assert_allclose(found.cpu().numpy(), expected.numpy(), rtol=1e-12, atol=least)


@pytest.mark.gpu
@every_case
def test_a_gpu_computes_what_the_cpu_does(name: str, one: Case) -> None:
    check_device(name, one, "cuda:0", one.arrays(f"{name} device"))


def check_half_type(
    name: str, one: Case, arrays: list[np.ndarray], dtype: fd.dtype, tolerance: float
) -> None:
    halves = as_tensors(arrays, dtype)
    found = one.ours(*halves)
    wide = one.ours(*as_tensors([h.double().numpy() if is_number_array(a) else a
                                 for h, a in zip(halves, arrays)], fd.float64))  # fmt: skip
    # These ops do not return the half type: they return float64, 2.0**int or the default dtype.
    if name not in ("to", "cast", "float_power", "ldexp", "cat"):
        assert found.dtype is dtype
    np.testing.assert_allclose(
        found.double().numpy(), wide.double().numpy(), rtol=tolerance, atol=tolerance
    )

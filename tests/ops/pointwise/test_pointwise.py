"""Every pointwise op of the table, checked for every property."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.core import dtypes
from fastdist.dispatch.op import OPS
from fastdist.dispatch.pointwise import PointwiseOp
from fastdist.kernels.cpu.pointwise.pointwise import SMALL_LIMIT, kernel_for
from fastdist.namespace.load import FUNCTIONAL_NAMES
from tests.ops.differences import check_first_order, check_second_order, generator
from tests.ops.pointwise.pointwise_rows import CONDITION_ROWS, INTEGER_ROWS, ROWS, Row
from tests.properties import Properties, in_one_test

# The samples broadcast on purpose, and losses warn about broadcasting.
pytestmark = pytest.mark.filterwarnings("ignore:Using a target size:UserWarning")
DTYPES = {dtype.name: dtype for dtype in dtypes.ALL}
SHAPES: list[list[tuple[int, ...]]] = [
    [(3, 4), (3, 4), (3, 4)],
    [(3, 1), (4,), (2, 1, 1)],
    [(), (2, 2), ()],
    [(), (), ()],
    [(1,), (1,), (1,)],
]
every_row = pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
differentiable = pytest.mark.parametrize(
    "row", [row for row in ROWS.values() if row.differentiable], ids=lambda row: row.name
)


def function_of(row: Row) -> Callable[..., Any]:
    if row.name in ("polygamma",):
        return lambda x: fd.polygamma(row.numbers["n"], x)
    if not row.functional and not hasattr(fd, row.public):  # private, or in fastdist.special
        return OPS[row.name].public
    call = FUNCTIONAL_NAMES[row.public] if row.functional else getattr(fd, row.public)
    return lambda *tensors, **more: call(*tensors, **row.numbers, **more)


def shapes_for(row: Row) -> list[list[tuple[int, ...]]]:
    """Return the shapes to sample; binary cross entropies do not broadcast."""
    return SHAPES[::3] if row.public.startswith("binary") else SHAPES


def sample(row: Row, shapes: list[tuple[int, ...]], seed: str = "") -> list[np.ndarray]:
    random = generator(row.name + seed)
    return [random.uniform(*domain, shape) for domain, shape in zip(row.domains, shapes)]


def expected_of(row: Row, arrays: list[Any]) -> Any:
    with np.errstate(all="ignore"):
        return row.reference(*arrays, **row.numbers)


def tensors_of(arrays: list[np.ndarray], dtype: Any) -> list[fd.Tensor]:
    return [fd.tensor(array, dtype=dtype) for array in arrays]


def test_every_pointwise_op_has_a_row() -> None:
    ops = {name for name, op in OPS.items() if isinstance(op, PointwiseOp)}
    assert ops == ROWS.keys() | INTEGER_ROWS | CONDITION_ROWS


@pytest.mark.one_in(5)
@every_row
def test_every_property(row: Row, properties: Properties) -> None:
    for dtype in ("float32", "float64"):
        with properties(f"value in {dtype}"):
            check_value(row, dtype)
    for half, step in ((fd.float16, 2e-3), (fd.bfloat16, 1.6e-2)):
        with properties(f"value in {half.name}, computed in float32 and rounded once"):
            check_half_type(row, half, step)
    with properties("value on both sides of NumPy's limit"):
        check_value_beyond_the_limit(row)
    with properties("value of strided tensors"):
        check_strides(row)
    with properties("empty tensors"):
        check_empty(row)
    with properties("out="):
        check_out(row)
    with properties("value and gradients on a device"):
        check_device(row, "sim:0")
    if hasattr(fd.Tensor, f"{row.public}_") and row.name != "prelu_kernel":
        with properties("in-place twin"):
            check_inplace_twin(row)


@pytest.mark.one_in(5)
@differentiable
def test_every_derivative(row: Row, properties: Properties) -> None:
    with properties("gradients on both sides of NumPy's limit"):
        check_gradients_beyond_the_limit(row)
    with properties("first derivatives"):
        check_derivatives(row)
    with properties("second derivatives"):
        check_second_derivatives(row)


def check_value(row: Row, dtype: str) -> None:
    for shapes in shapes_for(row):
        arrays = [a.astype(dtype).astype(np.float64) for a in sample(row, shapes)]
        found = function_of(row)(*tensors_of(arrays, DTYPES[dtype]))
        expected = np.asarray(expected_of(row, arrays))
        assert found.shape == expected.shape
        rtol = row.tolerance if dtype == "float32" else 1e-9
        if row.name == "nextafter":
            rtol = 1e-6  # the reference's next float64 number is closer
        np.testing.assert_allclose(found.numpy(), expected, rtol=rtol, atol=rtol / 100)


def beyond_numpy(name: str) -> int:
    """Return a number of elements for which Numba, not NumPy, computes values and gradients."""
    op = OPS.get(name)
    bodies = [op.form.run_body, *op.form.gradient_bodies] if isinstance(op, PointwiseOp) else []
    limits = [kernel_for(body.in_used_order()).limit for body in bodies if body is not None]
    return max(SMALL_LIMIT, *limits, 0) + 3


def numpy_parts(n: int) -> list[slice]:
    """Return slices of n elements that are small enough for NumPy to compute."""
    return [slice(start, start + SMALL_LIMIT - 5) for start in range(0, n, SMALL_LIMIT - 5)]


def check_value_beyond_the_limit(row: Row) -> None:
    """Compare Numba's results for many elements with NumPy's results for slices of them."""
    n = beyond_numpy(row.name)
    arrays = [a.astype(np.float32) for a in sample(row, [(n,)] * 3, "large")]
    function = function_of(row)
    large = function(*tensors_of(arrays, fd.float32)).numpy()
    parts = [
        function(*tensors_of([a[part] for a in arrays], fd.float32)).numpy()
        for part in numpy_parts(n)
    ]
    small = np.concatenate(parts)
    np.testing.assert_allclose(large, small, rtol=row.tolerance, atol=row.tolerance / 10)


def check_gradients_beyond_the_limit(row: Row) -> None:
    n = beyond_numpy(row.name)
    arrays = [a.astype(np.float32) for a in sample(row, [(n,)] * 3, "large gradient")]
    g = generator(f"{row.name} large g").standard_normal(n).astype(np.float32)

    def gradients(part: slice) -> list[np.ndarray]:
        leaves = [fd.tensor(a[part], requires_grad=True) for a in arrays]
        found = function_of(row)(*leaves)
        scale = n / len(g[part]) if not found.shape else 1.0  # the loss is a mean
        found.backward(fd.tensor(g[part]) if found.shape else None)
        return [one.grad.numpy() / scale for one in leaves]

    large = gradients(slice(None))
    found_in_parts = zip(*[gradients(part) for part in numpy_parts(n)], strict=True)
    for ours, parts in zip(large, found_in_parts, strict=True):
        small = np.concatenate(parts)
        np.testing.assert_allclose(ours, small, rtol=1e-4, atol=1e-5 * np.abs(small).max())


def check_derivatives(row: Row) -> None:
    for i, shapes in enumerate(shapes_for(row)[:4]):
        arrays = sample(row, shapes, "gradient")
        check_first_order(function_of(row), arrays, generator(f"{row.name} direction {i}"))


def check_second_derivatives(row: Row) -> None:
    for i, shapes in enumerate(shapes_for(row)[:2]):
        arrays = sample(row, shapes, "second")
        check_second_order(function_of(row), arrays, generator(f"{row.name} second {i}"))


def check_strides(row: Row) -> None:
    arrays = [a.astype(np.float32) for a in sample(row, [(4, 6)] * 3, "strided")]
    function = function_of(row)
    expected = function(*tensors_of(arrays, fd.float32)).numpy()
    ways: list[Callable[[np.ndarray], fd.Tensor]] = [
        lambda a: fd.from_numpy(a.T.copy()).t(),
        lambda a: fd.from_numpy(np.repeat(np.repeat(a, 2, 0), 3, 1)[::2, ::3]),
        lambda a: fd.from_numpy(a[:, ::-1].copy()[:, ::-1]),
    ]
    for way in ways:
        np.testing.assert_array_equal(function(*[way(a) for a in arrays]).numpy(), expected)
    column = [a[:, :1] for a in arrays]
    expanded = [fd.from_numpy(a.copy()).expand(4, 6) for a in column]
    whole = function(*tensors_of([np.tile(a, (1, 6)) for a in column], fd.float32))
    np.testing.assert_array_equal(function(*expanded).numpy(), whole.numpy())


def check_empty(row: Row) -> None:
    shapes: list[tuple[int, ...]] = [(0, 3), (1, 3), (3,)]
    if row.public.startswith("binary"):
        shapes = [(0, 3)] * 2
    tensors = [
        fd.tensor(a, dtype=fd.float32, requires_grad=row.differentiable)
        for a in sample(row, shapes)
    ]
    found = function_of(row)(*tensors)
    assert found.shape == (0, 3)
    if row.differentiable:
        found.sum().backward()
        assert [t.grad.shape for t in tensors] == [t.shape for t in tensors]
        assert all(float(t.grad.abs().sum()) == 0 for t in tensors)


def check_out(row: Row) -> None:
    if row.functional or row.name in (
        "conj",
        "prelu_kernel",
        "polygamma",
        "threshold",
        "celu",
        "selu",
    ):
        return  # these have no out= in PyTorch
    tensors = tensors_of(sample(row, SHAPES[0]), fd.float32)
    function = function_of(row)
    expected = function(*tensors)
    out = fd.empty(3, 4, dtype=expected.dtype)
    assert function(*tensors, out=out) is out
    np.testing.assert_array_equal(out.numpy(), expected.numpy())
    assert math.prod(out.shape) == 12


@pytest.mark.gpu
@every_row
def test_a_gpu_computes_what_the_cpu_does(row: Row) -> None:
    check_device(row, "cuda:0")


def check_device(row: Row, device: str) -> None:
    arrays = sample(row, SHAPES[0], "device")
    results = []
    for where in ("cpu", device):
        leaves = [
            fd.tensor(a, dtype=fd.float64, device=where, requires_grad=row.differentiable)
            for a in arrays
        ]
        found = function_of(row)(*leaves)
        results.append([found.detach().cpu().numpy()])
        if row.differentiable:
            found.backward(fd.ones_like(found))
            results[-1] += [one.grad.cpu().numpy() for one in leaves]
    for ours, cpus in zip(results[1], results[0]):
        np.testing.assert_allclose(ours, cpus, rtol=1e-12, atol=1e-14)


def check_inplace_twin(row: Row) -> None:
    arrays = sample(row, SHAPES[0], "in place")
    results = []
    for name in (row.public, f"{row.public}_"):
        leaves = [fd.tensor(a, dtype=fd.float64, requires_grad=True) for a in arrays]
        first = leaves[0] * 1
        found = getattr(first, name)(*leaves[1:], **row.numbers)
        assert (found is first) is name.endswith("_")
        results.append([found.detach().numpy().astype(np.float64)])
        if row.differentiable:
            found.sum().backward()
            results[-1] += [one.grad.numpy() for one in leaves]
    for ours, expected in zip(results[1], results[0]):
        np.testing.assert_allclose(ours, expected, rtol=1e-12)


def check_half_type(row: Row, dtype: fd.dtype, step: float) -> None:
    halves = [fd.tensor(a, dtype=dtype) for a in sample(row, SHAPES[0], "half")]
    arrays = [half.double().numpy() for half in halves]
    found = function_of(row)(*halves)
    expected = np.asarray(expected_of(row, arrays))
    assert found.dtype is (fd.bool if expected.dtype == bool else dtype)
    rtol = max(step, 100 * row.tolerance)
    np.testing.assert_allclose(found.double().numpy(), expected, rtol=rtol, atol=step)


@pytest.mark.slow
@in_one_test("dtype", ["float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"])
@pytest.mark.parametrize("name", [*ROWS, *sorted(INTEGER_ROWS)])
def test_other_dtypes_are_the_same_on_both_sides_of_the_limit(name: str, dtype: str) -> None:
    """This test compiles a kernel for each dtype, which takes minutes."""
    row = ROWS.get(name)
    function = function_of(row) if row else getattr(fd, name)
    count = len(row.domains) if row else 2 - (name == "bitwise_not")
    n = beyond_numpy(name)
    random = generator(f"{name} {dtype}")
    arrays = [random.integers(1, 4, n) for _ in range(count)]
    tensors = [fd.tensor(array, dtype=DTYPES[dtype]) for array in arrays]
    try:
        large = function(*tensors)
    except RuntimeError:
        return  # test_result_dtypes tests which dtypes an op rejects
    parts = [function(*[t[part] for t in tensors]) for part in numpy_parts(n)]
    small = np.concatenate([numbers_of(part) for part in parts])
    rtol = {fd.float16: 2e-3, fd.bfloat16: 1.6e-2}.get(large.dtype, 1e-5)
    np.testing.assert_allclose(numbers_of(large), small, rtol=rtol, atol=rtol)


def numbers_of(tensor: fd.Tensor) -> np.ndarray:
    """Return the elements as a NumPy array; bfloat16 becomes float32, as NumPy does not have it."""
    numbers: np.ndarray = (tensor.float() if tensor.dtype is fd.bfloat16 else tensor).numpy()
    return numbers


def test_two_numbers_make_a_tensor_where_they_do_in_pytorch() -> None:
    assert fd.equal(fd.add(2, 2), fd.tensor(4))
    assert fd.equal(fd.add(2, 2, alpha=3), fd.tensor(8))
    assert fd.equal(fd.sub(2, 2.5), fd.tensor(-0.5))
    assert fd.equal(fd.div(1, 2), fd.tensor(0.5))
    assert fd.equal(fd.floor_divide(5, 3), fd.tensor(1))
    assert fd.add(True, True).dtype is fd.bool
    out = fd.empty(())
    assert fd.mul(2, 3, out=out) is out and out.item() == 6.0
    with pytest.raises(TypeError, match="expected one Tensor at least"):
        fd.pow(2, 3)


@pytest.mark.parametrize("size", [1, 11, SMALL_LIMIT + 1])
@pytest.mark.parametrize("dtype", [fd.float16, fd.float32, fd.float64], ids=str)
def test_logarithms_of_powers_are_whole_numbers(dtype: fd.dtype, size: int) -> None:
    # NumPy's float32 loop for AVX-512 gives 2.0000002 for the decimal logarithm of 100.
    exponents = np.arange(size) % 5
    for base, log in ((10.0, fd.log10), (2.0, fd.log2)):
        powers = fd.tensor(base**exponents, dtype=dtype)
        assert log(powers).tolist() == exponents.tolist()
        assert log(powers, out=fd.empty_like(powers)).tolist() == exponents.tolist()

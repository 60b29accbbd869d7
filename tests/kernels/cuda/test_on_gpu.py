"""CUDA kernels on a real GPU, against CPU kernels, where the CPU shim is not enough."""

from __future__ import annotations

import numpy as np
import pytest

from fastdist.devices import Backend, backend_of
from fastdist.language.scalar import PRIMITIVES, parse
from tests.kernels.cuda.test_pointwise import BODIES, TOLERANCE, sample

pytestmark = pytest.mark.gpu
# The CUDA manual allows its float functions an error of a few units in the last place.
SLACK = 8
# CUDA's lgamma has an error of at most 4 units in the last place, except between -11 and -2.26.
# According to the manual, only the absolute error is bounded near its zeros in this interval.
ROUGH = {"lgamma": 1e-11}
SHAPES = [((1000, 700), (0,)), ((1000, 700), (1,)), ((3, 100, 5, 60), (1, 3)), ((5_000_000,), (0,))]


@pytest.fixture
def cuda() -> Backend:
    return backend_of("cuda")


@pytest.mark.parametrize("shape", [(), (1025,), (64, 33), (3, 1, 70)])
@pytest.mark.parametrize(("text", "names", "dtypes", "out"), BODIES)
def test_body_is_what_the_cpu_makes_of_it(
    cuda: Backend, text: str, names: str, dtypes: list[str], out: str, shape: tuple[int, ...]
) -> None:
    body = parse(text, tuple(names.split()))
    arrays = [sample(shape, dtype, seed) for seed, dtype in enumerate(dtypes)]
    if np.dtype(out).kind == "i" and arrays[0].dtype.kind == "f":
        arrays = [np.nan_to_num(array, nan=0, posinf=9, neginf=-9) for array in arrays]
    expected = np.empty(shape, out)
    backend_of("cpu").pointwise(body, arrays, expected)
    made = cuda.empty(shape, expected.dtype, 0)
    cuda.pointwise(body, [cuda.from_numpy(array, 0) for array in arrays], made)
    tolerance = SLACK * TOLERANCE.get(expected.dtype, 0)
    np.testing.assert_allclose(cuda.to_numpy(made), expected, rtol=tolerance, atol=tolerance * 1e-2)


@pytest.mark.parametrize("name", [n for n, p in PRIMITIVES.items() if p.arity == 1])
def test_primitive_of_float64_is_its_cpu_twin(cuda: Backend, name: str) -> None:
    if name == "bitwise_not":
        x = np.arange(-50, 50)
    else:
        x = np.concatenate([np.linspace(-6, 6, 301), [np.nan, np.inf, -np.inf, -0.0, 1e300]])
    body = parse(f"{name}(x)", ("x",))
    expected = np.empty(x.shape, bool if PRIMITIVES[name].result == "bool" else x.dtype)
    backend_of("cpu").pointwise(body, [x], expected)
    made = cuda.empty(x.shape, expected.dtype, 0)
    cuda.pointwise(body, [cuda.from_numpy(x, 0)], made)
    most = ROUGH.get(name, 1e-13)
    np.testing.assert_allclose(cuda.to_numpy(made), expected, rtol=most, atol=most / 100)


@pytest.mark.parametrize(("shape", "axes"), SHAPES)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32"])
def test_sums_are_right_and_the_same_each_time(
    cuda: Backend, dtype: str, shape: tuple[int, ...], axes: tuple[int, ...]
) -> None:
    x = np.random.default_rng(0).integers(-9, 10, shape).astype(dtype)
    kept = [length for axis, length in enumerate(shape) if axis not in axes]
    results = []
    for _ in range(3):
        out = cuda.empty(kept, np.dtype("float64"), 0)
        cuda.kernel("reduce.reductions.sum")(cuda.from_numpy(x, 0), out, axes)
        results.append(cuda.to_numpy(out))
    assert np.array_equal(results[0], x.sum(axes, dtype=np.float64))
    assert all(np.array_equal(result, results[0]) for result in results)


def test_more_elements_than_32_bits_count_are_written_and_summed(cuda: Backend) -> None:
    size = 2**32 + 3
    x = cuda.empty((size,), np.dtype("int8"), 0)
    cuda.pointwise(parse("T(1)", ()), [], x)
    total = cuda.empty((), np.dtype("int64"), 0)
    cuda.kernel("reduce.reductions.sum")(x[::-1], total, (0,))
    assert cuda.to_numpy(total) == size


def test_float16_products_add_in_float32(cuda: Backend) -> None:
    x = cuda.from_numpy(np.full((1, 5000), 2, np.float16), 0)
    out = cuda.empty((1, 1), np.dtype("float16"), 0)
    cuda.kernel("linalg.product.matmul")(x, x.transpose((1, 0)), out)
    assert cuda.to_numpy(out).item() == 20000
    # The squares overflow float16. CuPy does not use cuBLAS for the product of one row and one
    # column.
    for rows in (1, 2):
        x, y = (np.full((rows, 2), 300, np.float16) for _ in range(2))
        y[:, 1] = -300
        out = cuda.empty((rows, rows), np.dtype("float16"), 0)
        cuda.kernel("linalg.product.matmul")(cuda.from_numpy(x, 0), cuda.from_numpy(y.T, 0), out)
        assert not cuda.to_numpy(out).any()

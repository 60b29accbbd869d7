"""CPU kernels compute half types in float32, and their results are rounded once."""

from __future__ import annotations

import threading
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import fastdist as fd
from fastdist.devices.cpu import CpuBackend
from fastdist.dispatch.op import OPS
from fastdist.kernels.cpu.half_tables import TABLE_FROM
from fastdist.kernels.cpu.halves import convert, in_float32, most_by_numpy
from fastdist.kernels.cpu.pointwise import numba_pointwise, pointwise
from fastdist.kernels.cpu.pointwise.pointwise import PointwiseKernel, kernel_for, run_wide
from fastdist.kernels.cpu.silence import silent
from fastdist.language.scalar import parse
from tests.properties import in_one_test

NUMBERS = np.random.default_rng(0).standard_normal((9, 70)).astype(np.float16)


def test_a_kernel_is_given_float32_and_its_result_is_rounded_once() -> None:
    seen = []

    def kernel(x: Any, index: Any, out: Any, factor: float) -> None:
        seen.extend([x.dtype, index.dtype, out.dtype])
        np.multiply(x, factor, out=out)

    out = np.empty_like(NUMBERS)
    in_float32("some.kernel", kernel, 2)(NUMBERS, np.arange(3), out, 0.1)
    assert seen == [np.float32, np.int64, np.float32]
    np.testing.assert_array_equal(
        out, (NUMBERS.astype(np.float32) * np.float32(0.1)).astype(np.float16)
    )


def test_what_is_written_over_float16_is_inf_without_a_warning() -> None:
    out = np.empty((), np.float16)
    x = np.full(9, 60000, np.float16)
    CpuBackend().kernel("reduce.reductions.sum", 1)(x, out, (0,))
    assert out == np.inf


def test_a_kernel_may_add_to_what_it_writes() -> None:
    out = np.full(3, 2, np.float16)
    index = (np.array([0, 0, 2]),)
    CpuBackend().kernel("index.indexing.put", 1)(np.ones(3, np.float16), out, index, True)
    assert out.tolist() == [4, 2, 3]


@pytest.mark.parametrize("name", ["index.indexing.gather", "shape.copying.flip"])
def test_a_kernel_that_moves_elements_is_given_them_as_they_are(name: str) -> None:
    given: list[Any] = []
    arrays = NUMBERS.astype(np.float16), np.zeros(2, np.int64)
    in_float32(name, lambda *arguments: given.extend(arguments), 2)(*arrays)
    assert given[0] is arrays[0] and given[1] is arrays[1]


def test_the_largest_of_windows_is_that_of_float32() -> None:
    windows = ((3, 2, 1, 1), (3, 2, 1, 1))
    found = []
    for dtype, reads in ((np.float16, 1), (np.float32, None)):
        out, places = np.empty((5, 35), dtype), np.empty((5, 35), np.int64)
        kernel = CpuBackend().kernel("nn.windows.largest", reads)
        kernel(NUMBERS.astype(dtype), out, places, windows)
        found.append((out, places))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


FLOAT16, BFLOAT16, FLOAT32 = fd.float16.numpy, np.dtype(ml_dtypes.bfloat16), fd.float32.numpy
HALVES = {"float16": FLOAT16, "bfloat16": BFLOAT16}


def patterns_of(half: str) -> Any:
    """Return every value of a half type, once each."""
    fd.ones(1, dtype=fd.bfloat16)  # registers bfloat16 with NumPy
    return np.arange(1 << 16, dtype=np.uint16).view(HALVES[half])


def same_bits(x: Any, y: Any) -> None:
    """Require equal numbers, zeros with equal signs, and NaNs with equal signs."""
    word = np.dtype(f"u{x.dtype.itemsize}")
    same = (x.view(word) == y.view(word)) | (np.isnan(x) & np.isnan(y))
    assert x.dtype == y.dtype and same.all() and (np.signbit(x) == np.signbit(y)).all()


@pytest.mark.parametrize("half", HALVES)
def test_every_half_is_widened_exactly(half: str) -> None:
    x = patterns_of(half)
    found = np.empty(x.shape, np.float32)
    convert(x, found)
    same_bits(found, x.astype(np.float32))


@pytest.mark.parametrize("half", HALVES)
def test_float32_is_rounded_to_the_nearest_half_and_to_even(half: str) -> None:
    """Round each upper half of a float32, with lower halves around each boundary of rounding.

    Boundaries of subnormal results and of overflow, and evenly spread numbers, are included too.
    """
    upper = np.arange(1 << 16, dtype=np.uint32)[:, None] << 16
    lower = [0, 1, 0xFFF, 0x1000, 0x1001, 0x2FFF, 0x3000, 0x3001, 0x7FFF, 0x8000, 0x8001, 0xFFFF]
    spread = np.arange(0, 1 << 32, 4099, dtype=np.uint64).astype(np.uint32)
    words = np.concatenate([(upper | np.array(lower, np.uint32)).ravel(), spread])
    x, found = words.view(np.float32), np.empty(words.shape, patterns_of(half).dtype)
    convert(x, found)
    with np.errstate(all="ignore"):
        same_bits(found, x.astype(found.dtype))


@pytest.mark.parametrize(("x", "y"), [("float16", "bfloat16"), ("bfloat16", "float16")])
def test_one_half_is_rounded_to_the_other(x: str, y: str) -> None:
    found, given = np.empty(1 << 16, patterns_of(y).dtype), patterns_of(x)
    convert(given, found)
    with np.errstate(all="ignore"):
        same_bits(found, given.astype(np.float32).astype(found.dtype))


@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_other_dtypes_are_rounded_to_a_half_once(dtype: str) -> None:
    # Each number is above the midpoint of two half-precision numbers by less than float32 can
    # represent.
    x = np.arange(9000).astype(dtype) * 2 + (2048 if dtype == "int64" else 2049 + 2.0**-30)
    found = np.empty(x.shape, np.float16)
    convert(x, found)
    np.testing.assert_array_equal(found, x.astype(np.float16))


@pytest.mark.parametrize("dtype", [fd.float16, fd.bfloat16], ids=str)
def test_every_way_to_cast_a_large_tensor_gives_the_same(dtype: fd.dtype) -> None:
    x = fd.tensor(np.random.default_rng(1).standard_normal((80, 90), np.float32) * 1e5)
    with np.errstate(over="ignore"):
        expected = x.numpy().astype(dtype.numpy)
    room, part = fd.empty(80, 90, dtype=dtype), fd.empty(90, 160, dtype=dtype).t()[::2]
    cast = x.half() if dtype is fd.float16 else x.bfloat16()
    found = [cast, x.to(dtype), room.copy_(x), part.copy_(x), x.t().to(dtype).t()]
    found.append(fd.cat([cast, x]).to(dtype)[80:])
    for one in found:
        np.testing.assert_array_equal(one.contiguous()._array, expected)
    assert room.copy_(x[0]).float().equal(cast[0].expand(80, 90).float())
    back = cast.float()
    assert back.numpy().tobytes() == expected.astype(np.float32).tobytes()
    assert back.to(dtype).equal(cast)


BODIES = ["x * y - x", "exp(x) / (T(1) + abs(y))", "x ** T(2)", "where(x > y, x, y)", "erf(x)"]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("text", BODIES)
def test_a_loop_that_reads_halves_rounds_what_float32_gives(half: str, text: str) -> None:
    rng = np.random.default_rng(2)
    body, dtype = parse(text, ("x", "y")), patterns_of(half).dtype
    kernel = PointwiseKernel(body)
    x, y = (rng.standard_normal((70, 80), np.float32).astype(dtype) for _ in range(2))
    arrays = [{"x": x, "y": y[:, ::-1]}[name] for name in body.names]
    found, expected = np.empty((80, 70), dtype).T, np.empty((70, 80), dtype)
    kernel.run(arrays, found)
    run_wide(kernel.run_large, arrays, expected)
    assert kernel._loops.keys() & {dtype} and found.tobytes() == expected.tobytes()


@pytest.mark.one_in(3)
def test_halves_beside_other_dtypes_are_float32_among_them() -> None:
    kernel = PointwiseKernel(parse("x * y + z", ("x", "y", "z")))
    rng = np.random.default_rng(3)
    x, y = patterns_of("bfloat16")[:9000].copy(), rng.standard_normal(9000, np.float32)
    for z in (np.arange(9000), np.float64(0.1) * np.arange(9000), y.astype(np.float16)):
        for dtype in (np.float16, np.float32, np.float64):
            found, expected = np.empty(9000, dtype), np.empty(9000, dtype)
            kernel.run([x, y, z], found)
            run_wide(kernel.compute, [x, y, z], expected)
            np.testing.assert_array_equal(found, expected)


def test_in_place_halves_that_overlap_are_read_before_they_are_written() -> None:
    kernel = PointwiseKernel(parse("x * y", ("x", "y")))
    x = np.linspace(-2, 2, 9001, dtype=np.float16)
    expected = (x[:-1].astype(np.float32) * x[1:].astype(np.float32)).astype(np.float16)
    kernel.run([x[:-1], x[1:]], x[1:])
    np.testing.assert_array_equal(x[1:], expected)


def test_where_compiled_code_may_not_hold_float16_its_loop_is_that_of_float32(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(numba_pointwise, "can_round_float16", lambda: False)
    kernel = PointwiseKernel(parse("exp(x) - erf(x)", ("x",)))
    x = np.linspace(-2, 2, 9000, dtype=np.float16)
    found, expected = np.empty_like(x), np.empty_like(x)
    kernel.run([x], found)
    run_wide(PointwiseKernel(parse("exp(x) - erf(x)", ("x",))).compute, [x], expected)
    np.testing.assert_array_equal(found, expected)
    assert np.dtype(np.float32) in kernel._loops


def test_what_numpy_alone_computes_is_computed_in_float32_for_halves() -> None:
    kernel = pointwise.kernel_for(parse("x * y", ("x", "y")))
    x, y = np.linspace(-2, 2, 9000, dtype=np.float16), np.arange(9000, dtype=np.uint16)
    found = np.empty_like(x)
    kernel.run([x, y], found)
    np.testing.assert_array_equal(found, (x.astype(np.float32) * y).astype(np.float16))


ROWS: dict[str, Any] = {
    "softmax": lambda x: x.softmax(-1),
    "log_softmax of columns": lambda x: x.log_softmax(0),
    "sum": lambda x: x.sum(-1),
    "sum of all": lambda x: x.sum(),
    "sum in float32": lambda x: x.sum(0, dtype=fd.float32),
    "mean kept": lambda x: x.mean(-1, keepdim=True),
    "var": lambda x: x.var(-1),
    "logsumexp": lambda x: x.logsumexp(-1),
    "norm": lambda x: x.norm(dim=-1),
    "amax": lambda x: x.amax(-1),
    "max": lambda x: x.max(-1),
    "layer_norm": lambda x: fd.nn.functional.layer_norm(x, x.shape[-1:]),
    "gather": lambda x: x.gather(0, fd.arange(x.shape[1])[None] % x.shape[0]),
    "cumsum": lambda x: x.cumsum(1),
}


@pytest.mark.one_in(5)
@pytest.mark.parametrize("shape", [(3, 5), (70, 90)], ids=str)
@pytest.mark.parametrize("dtype", [fd.float16, fd.bfloat16], ids=str)
@pytest.mark.parametrize("name", ROWS)
def test_kernels_of_halves_round_once_what_those_of_float32_give(
    name: str, dtype: fd.dtype, shape: tuple[int, int]
) -> None:
    x = fd.tensor(np.random.default_rng(4).standard_normal(shape, np.float32)).to(dtype)
    for given in (x, fd.cat([x, x], 1)[:, : shape[1]], x.t().contiguous().t()):
        found, expected = ROWS[name](given), ROWS[name](given.float())
        is_pair = isinstance(found, tuple)
        pairs = zip(found, expected, strict=True) if is_pair else [(found, expected)]
        for one, other in pairs:
            rounded = other.dtype.is_floating_point and name != "sum in float32"
            assert one.dtype == (dtype if rounded else other.dtype)
            # The sum in another order may be rounded to a neighbouring value.
            close = 2.0 ** (-7 if dtype is fd.bfloat16 else -10)
            fd.testing.assert_close(one.double(), other.double(), rtol=close, atol=close)


@pytest.mark.parametrize("dtype", [fd.float16, fd.bfloat16], ids=str)
def test_gradients_through_rows_of_halves_are_those_of_float32(dtype: fd.dtype) -> None:
    given = np.random.default_rng(5).standard_normal((70, 90), np.float32)
    gradients = []
    for kind in (dtype, fd.float32):
        x = fd.tensor(given).to(dtype).to(kind).requires_grad_()
        normal = fd.nn.functional.layer_norm(x, (90,))
        (normal.softmax(-1) * normal).sum().backward()
        assert x.grad is not None and x.grad.dtype == kind
        gradients.append(x.grad.double())
    fd.testing.assert_close(*gradients, rtol=0.05, atol=0.01)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("count", [3, 5000])
def test_gradients_of_half_types_are_added_as_numpy_adds_them(dtype: Any, count: int) -> None:
    one, other = np.random.default_rng(0).standard_normal((2, count)) * 100
    total, added = one.astype(dtype), other.astype(dtype)
    total[:3] = added[:3] = [6e4, 0.3, np.nan]
    wanted = silent_sum(total, added)
    CpuBackend.add_into(total, added)
    np.testing.assert_array_equal(total.astype(np.float32), wanted.astype(np.float32))
    repeated = np.broadcast_to(added[1:2], count)
    CpuBackend.add_into(total, repeated)
    wanted = silent_sum(wanted, repeated)
    np.testing.assert_array_equal(total.astype(np.float32), wanted.astype(np.float32))


@silent
def silent_sum(x: Any, y: Any) -> Any:
    return np.add(x, y)


LOOKED_UP = ("gelu_exact", "sin", "log", "sigmoid", "silu", "erf", "lgamma")


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", [fd.float16, fd.bfloat16])
@pytest.mark.parametrize("name", LOOKED_UP)
def test_what_is_looked_up_is_what_the_loop_computes_of_few(name: str, dtype: Any) -> None:
    kernel = kernel_for(OPS[name].form.run_body)  # type: ignore[attr-defined]
    x = np.arange(TABLE_FROM, dtype=np.uint16).view(dtype.numpy)
    many, few = np.empty_like(x), np.empty_like(x)
    kernel.run_large((x,), many)
    for start in range(0, TABLE_FROM, 8192):
        part = slice(start, start + 8192)
        kernel.run_large((x[part],), few[part])
    np.testing.assert_array_equal(many.view(np.uint16), few.view(np.uint16))
    strided, room = np.repeat(x, 3)[::3], np.empty_like(x)
    kernel.run_large((strided[::-1],), room)
    np.testing.assert_array_equal(room[::-1].view(np.uint16), few.view(np.uint16))
    in_place = x.copy()
    kernel.run_large((in_place,), in_place)
    np.testing.assert_array_equal(in_place.view(np.uint16), few.view(np.uint16))


@pytest.mark.one_in(3)
def test_several_threads_may_look_up_what_none_has_computed() -> None:
    kernel = PointwiseKernel(parse("sin(x) * T(3)", ["x"]))
    x = np.tile(np.arange(2**16, dtype=np.uint16).view(np.float16), 3)
    found = [np.empty_like(x) for _ in range(4)]
    threads = [threading.Thread(target=kernel.run_large, args=((x,), out)) for out in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.array_equal(one.view(np.uint16), found[0].view(np.uint16)) for one in found)


@in_one_test("half", HALVES)
@in_one_test("columns", [4, 40, 256, 257])  # up to 2048 numbers of bfloat16 are cast by NumPy
def test_rows_of_halves_have_the_rounded_results_of_float32(half: str, columns: int) -> None:
    dtype = getattr(fd, half)
    x = fd.tensor(np.resize(NUMBERS, (8, columns)).astype(np.float32)).to(dtype)
    x[1, 2], x[2, 1] = float("inf"), float("nan")
    calls = (
        lambda x: [x.softmax(-1), x.log_softmax(0), x.sum(-1), x.t().softmax(-1), x.max(1)[0]],
        lambda x: fd.native_layer_norm(x, (columns,), None, None, 1e-5)[:1],
        lambda x: [x.sort(1)[0], x.sort(1)[1], x.max(1)[1]],
    )
    for call in calls:
        for ours, wide in zip(call(x), call(x.float()), strict=True):
            rounded = wide.to(ours.dtype)
            assert np.array_equal(ours.float(), rounded.float(), equal_nan=True)


def test_numpy_casts_more_bfloat16_numbers_than_float16_numbers() -> None:
    assert most_by_numpy(BFLOAT16, None, BFLOAT16) == 2048
    for mixed in ((FLOAT16,), (FLOAT16, BFLOAT16), (FLOAT32,)):
        assert most_by_numpy(*mixed) == pointwise.HALF_LIMIT

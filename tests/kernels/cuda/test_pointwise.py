"""CUDA pointwise kernels, run on the CPU shim, against the CPU kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from fastdist.kernels.cpu.pointwise.pointwise import kernel_for
from fastdist.kernels.cuda.launch import int64_fields
from fastdist.kernels.cuda.pointwise import pointwise as module
from fastdist.kernels.cuda.pointwise.pointwise import plan
from fastdist.kernels.cuda.pointwise.pointwise_source import Operand, source_of
from fastdist.language.scalar import parse
from tests.fibre_shim.driver import SEEDS, run, run_text

F16, F32, F64 = (np.dtype(name) for name in ("float16", "float32", "float64"))
TOLERANCE = {F16: 1e-3, F32: 1e-6, F64: 1e-14}


def aligned(shape: tuple[int, ...], dtype: Any, offset: int = 0) -> np.ndarray:
    """Return memory that begins `offset` elements after an address that is aligned for packs."""
    size, itemsize = int(np.prod(shape)), np.dtype(dtype).itemsize
    memory = np.zeros((size + offset) * itemsize + 16, np.uint8)
    start = -memory.__array_interface__["data"][0] % 16 + offset * itemsize
    return memory[start : start + size * itemsize].view(dtype).reshape(shape)


def sample(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    x = aligned(shape, dtype)
    numbers = np.random.default_rng(seed).standard_normal(shape) * 4
    x[...] = numbers > 0 if x.dtype.kind == "b" else numbers
    if x.dtype.kind == "f" and x.size > 9:
        x.reshape(-1)[[1, 4, 7, 9]] = np.nan, np.inf, -np.inf, -0.0
    return x


def check(text: str, names: str, arrays: Sequence[np.ndarray], out: np.ndarray, kind: str) -> None:
    """Compare the CUDA and CPU kernels for three seeds; the launch must be of the given `kind`."""
    body = parse(text, tuple(names.split()))
    expected = np.empty(out.shape, out.dtype)
    with np.errstate(all="ignore"):
        kernel_for(body).run([np.asarray(array) for array in arrays], expected)
    for seed in SEEDS:
        out[...] = 99
        launches = plan(body, arrays, out)
        assert [launch.name for launch in launches] == ([kind] if out.size else [])
        run(launches, seed)
        tolerance = TOLERANCE.get(out.dtype, 0)
        np.testing.assert_allclose(out, expected, rtol=tolerance, atol=tolerance * 1e-2)


BODIES = [
    ("x + y", "x y", ["float32", "float32"], "float32"),
    ("x + y", "x y", ["int64", "int64"], "int64"),
    ("x * y - x", "x y", ["int8", "int8"], "int8"),
    ("x / (T(1) + abs(x))", "x", ["float32"], "float32"),
    ("x / (T(1) + abs(x))", "x", ["float16"], "float16"),
    ("pow(T(1) + abs(x), T(-2)) * g", "g x", ["float64", "float64"], "float64"),
    ("where(x > T(0), x, T(0))", "x", ["float32"], "float32"),
    ("where(x > T(0), g, T(0))", "g x", ["float16", "float16"], "float16"),
    ("sigmoid(x)", "x", ["float32"], "float32"),
    ("g * (T(1) - y * y)", "g y", ["float32", "float32"], "float32"),
    ("minimum(x, y)", "x y", ["float32", "float32"], "float32"),
    ("t = exp(x - y); t / (T(1) + t)", "x y", ["float64", "float64"], "float64"),
    ("x <= y", "x y", ["float32", "float32"], "bool"),
    ("where(c, x, y)", "c x y", ["bool", "float32", "float32"], "float32"),
    ("logical_and(x > y, c) + x", "c x y", ["bool", "int32", "int32"], "int32"),
    ("x", "x", ["float64"], "float16"),
    ("x", "x", ["float16"], "int32"),
    ("x", "x", ["uint8"], "float32"),
    ("digamma(x)", "x", ["float32"], "float32"),
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("text", "names", "dtypes", "out"), BODIES)
def test_body_is_what_the_cpu_makes_of_it(
    text: str, names: str, dtypes: list[str], out: str
) -> None:
    arrays = [sample((517,), dtype, seed) for seed, dtype in enumerate(dtypes)]
    if np.dtype(out).kind == "i" and arrays[0].dtype.kind == "f":
        # C does not define the conversion of NaN to an integer.
        arrays[0][...] = np.nan_to_num(arrays[0], nan=0, posinf=9, neginf=-9)
    check(text, names, arrays, aligned((517,), out), "contiguous")


@pytest.mark.parametrize("size", [0, 1, 3, 4, 5, 1023, 1024, 1025, 2051])
def test_packs_and_the_rest_are_written_and_nothing_else(size: int) -> None:
    memory = aligned((size + 4,), F32)
    memory[size:] = 7
    x, y = sample((size,), F32), sample((size,), F32, 1)
    check("x * T(2) + y", "x y", [x, y], memory[:size], "contiguous")
    assert (memory[size:] == 7).all()


X, WIDE = sample((6, 10, 7), F32), sample((40, 24), F32)
LAYOUTS = {
    "transposed input": ([X.transpose(2, 0, 1), sample((7, 6, 10), F32)], (7, 6, 10), "rows"),
    "reversed and stepped": ([X[::-1, 1::3, ::-2], sample((6, 3, 4), F32)], (6, 3, 4), "rows"),
    "row broadcast": ([X, sample((7,), F32)], (6, 10, 7), "rows"),
    "column broadcast": ([X, sample((6, 1, 1), F32)], (6, 10, 7), "rows"),
    "both broadcast": ([sample((6, 1), F32), sample((1, 5), F32)], (6, 5), "rows"),
    "one element": ([sample((1,), F32), sample((1, 1), F32)], (5, 3), "contiguous"),
    "empty": ([sample((0, 3), F32), sample((3,), F32)], (0, 3), "none"),
    "not aligned": ([aligned((33,), F32, offset=1), sample((33,), F32)], (33,), "strided"),
    "expanded": ([np.broadcast_to(sample((9,), F32), (4, 9)), sample((4, 9), F32)], (4, 9), "rows"),
    "bias": ([WIDE, sample((24,), F32)], (40, 24), "rows"),
    "column": ([WIDE, sample((40, 1), F32)], (40, 24), "rows"),
    "a part of each row": ([WIDE[:, 4:20], sample((16,), F32)], (40, 16), "rows"),
    "between axes": ([X.reshape(5, 12, 7)[..., :4], sample((5, 1, 4), F32)], (5, 12, 4), "rows"),
    "a number in memory": ([WIDE, sample((1,), F32)], (40, 24), "contiguous"),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_any_layout_is_read(name: str) -> None:
    arrays, shape, kind = LAYOUTS[name]
    check("x * T(2) + y", "x y", arrays, aligned(shape, F32), kind)


@pytest.mark.parametrize(
    ("arrays", "pack"),
    [
        ([WIDE, WIDE[0]], 4),
        ([WIDE, WIDE[:, :1]], 4),
        ([WIDE[:, 4:20], WIDE[0, :16]], 4),
        ([WIDE, np.ones((40, 24), bool)[:, 0:1]], 4),
        ([WIDE.astype(np.float16), WIDE[0].astype(np.float16)], 8),
        ([WIDE[:, :18], WIDE[0, :18]], 1),
        ([WIDE[:, 1:5], WIDE[0, :4]], 1),
        ([WIDE[:, ::2], WIDE[0, :12]], 1),
    ],
)
def test_rows_go_by_packs_where_they_let_them(arrays: list[np.ndarray], pack: int) -> None:
    moved = []
    for one in arrays:
        moved.append(one if one.base is not None else aligned(one.shape, one.dtype))
        moved[-1][...] = one
    shape = np.broadcast_shapes(*[one.shape for one in arrays])
    out = aligned(shape, arrays[0].dtype)
    check("x * T(2) + y", "x y", moved, out, "rows")
    source = plan(parse("x * T(2) + y", ("x", "y")), moved, out)[0].source
    assert f"PACK = {pack}," in source
    # A thread makes one division, whatever the kernel computes.
    kernel = source[source.index("rows(") :]
    assert kernel.count(" / ") == 1 and " % " not in kernel


def test_a_thread_takes_several_rows_of_what_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MANY", 0)
    for rows in (2, 5, 39):
        x, out = sample((rows + 1, 24), F32)[1:, 4:20], aligned((rows, 16), F32)
        check("x * T(2) + y", "x y", [x, sample((16,), F32, 1)], out, "rows")
        check("x * T(2)", "x", [x], out, "rows")


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((33, 70), (1, 0)),
        ((3, 40, 65), (0, 2, 1)),
        ((40, 5, 33), (2, 1, 0)),
        ((2, 9, 3, 8), (0, 3, 2, 1)),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8", "float64"])
def test_what_lies_across_goes_through_tiles(
    shape: tuple[int, ...], axes: tuple[int, ...], dtype: str
) -> None:
    x = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    y = x.transpose(axes)
    check("x", "x", [y], aligned(y.shape, dtype), "tiled")
    if dtype == "float32":
        check("x * T(2) + T(1)", "x", [y[::-1]], aligned(y.shape, F32), "tiled")
        check("x", "x", [y], aligned(y.shape, F64), "tiled")


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((80, 144), (1, 0)),  # tiles of 64 by 64
        ((2, 64, 208), (0, 2, 1)),
        ((64, 3, 80), (2, 1, 0)),
        ((48, 32), (1, 0)),  # tiles of 32 by 32
        ((16, 3, 2, 32), (3, 1, 2, 0)),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8", "int64", "complex64"])
def test_what_lies_across_in_whole_packs_goes_through_tiles_by_packs(
    shape: tuple[int, ...], axes: tuple[int, ...], dtype: str
) -> None:
    x = aligned(shape, dtype)
    x[...] = np.random.default_rng(0).integers(0, 100, shape)
    y = x.transpose(axes)
    out = aligned(y.shape, dtype)
    check("x", "x", [y], out, "tiled")
    size = np.dtype(dtype).itemsize
    (launch,) = plan(parse("x", ("x",)), [y], out)
    lengths = y.shape[-1], x.shape[-1]
    pack = 1 if size > 4 else min(16 // size, 16 if min(lengths) >= 64 else 4)
    assert f"PACK = {pack};" in launch.source
    if dtype == "float32":
        # Slices with another start or stride, and reversed slices, are read element by element.
        check("x", "x", [y[..., 1:]], aligned(y[..., 1:].shape, dtype), "tiled")
        check("x * T(2)", "x", [y[::-1]], aligned(y.shape, F32), "tiled")
        check("x", "x", [y], aligned(y.shape, dtype, 1), "tiled")
        check("x", "x", [y], aligned(y.shape, np.float16), "tiled")


def test_more_tiles_than_a_grid_has_room_for_are_done_in_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_MOST_OF_Y", 2)
    x = sample((7, 8, 9), F32).transpose(0, 2, 1)
    check("x", "x", [x], aligned(x.shape, F32), "tiled")


@pytest.mark.parametrize(
    ("view", "shape", "kind"),
    [
        (np.s_[::2, ::-1], (4, 6), "rows"),
        (np.s_[:, 2], (8,), "strided"),
        (np.s_[3:4, 1:2], (1, 1), "strided"),
        (np.s_[1:], (7, 6), "strided"),
    ],
)
def test_any_layout_is_written(view: Any, shape: tuple[int, ...], kind: str) -> None:
    memory = aligned((8, 6), F32)
    untouched = np.ones((8, 6), bool)
    untouched[view] = False
    check("x * T(2) + y", "x y", [sample(shape, F32), sample(shape, F32)], memory[view], kind)
    assert not memory[untouched].any()


def test_permuted_memory_that_all_share_is_walked_as_one_run() -> None:
    x, y, out = (aligned((5, 8, 4), F32).transpose(2, 0, 1) for _ in range(3))
    x[...], y[...] = sample(x.shape, F32), sample(y.shape, F32, 1)
    check("x * T(2) + y", "x y", [x, y], out, "contiguous")


def test_a_0d_out_is_written() -> None:
    numbers = [np.array(3, F32), np.array(4, F32)]
    check("x * T(2) + y", "x y", numbers, aligned((), F32), "contiguous")


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64"])
def test_a_0d_numpy_array_is_a_number(dtype: str) -> None:
    low, high = np.array(-1, dtype), np.array(2, dtype)
    x = sample((40,), dtype)
    check(
        "min(max(x, low), high)", "x low high", [x, low, high], aligned((40,), dtype), "contiguous"
    )


def test_out_may_be_an_input() -> None:
    x = sample((300,), F32)
    expected = x * 2 + 1
    run(plan(parse("x * T(2) + T(1)", ("x",)), [x], x), 0)
    np.testing.assert_array_equal(x, expected)


def test_an_input_that_the_body_does_not_use_is_not_read() -> None:
    unreadable = np.lib.stride_tricks.as_strided(np.zeros(1), (50,), (1 << 40,))
    check("x + T(1)", "g x", [unreadable, sample((50,), F64)], aligned((50,), F64), "contiguous")


@pytest.mark.parametrize(
    ("text", "dtype", "value"),
    [
        ("T(7)", "float32", 7),
        ("T(-inf)", "float64", -np.inf),
        ("T(nan)", "float16", np.nan),
        ("T(-9223372036854775808)", "int64", -(2**63)),
        ("T(0.1)", "float32", np.float32(0.1)),
        ("T(0.1)", "float64", 0.1),
    ],
)
def test_literals_have_the_dtype_of_the_result_where_nothing_is_read(
    text: str, dtype: str, value: float
) -> None:
    out = aligned((5,), dtype)
    run(plan(parse(text, ()), [], out), 0)
    np.testing.assert_array_equal(out, np.full(5, value, dtype))


def test_more_elements_than_32_bits_count_are_counted_in_64() -> None:
    body = parse("x + y", ("x", "y"))
    many, few = (np.broadcast_to(np.zeros(1, F32), (size,)) for size in (2**32 + 5, 2**31))
    assert "unsigned long long Index" in plan(body, [many, many], many)[0].source
    assert "unsigned int Index" in plan(body, [few, few], few)[0].source


def test_texts_that_count_in_64_bits_run() -> None:
    x, out = sample((6, 5), F32), aligned((6, 5), F32)
    body = parse("x + x", ("x",))
    strided = source_of(body, (Operand(F32),), F32, dims=1, wide=True)
    run_text(strided, "strided", (2,), (16,), [x, out, int64_fields(30, 1, 1)])
    np.testing.assert_array_equal(out, x + x)
    out[...] = 0
    rows = source_of(body, (Operand(F32),), F32, dims=2, wide=True)
    run_text(rows, "rows", (1,), (256,), [x, out, int64_fields(6, 5, 2, 6, 5, 1, 5, 1)])
    np.testing.assert_array_equal(out, x + x)


@pytest.mark.parametrize("inputs", [1, 2])
def test_no_thread_of_contiguous_divides(inputs: int) -> None:
    names = ("x", "y")[:inputs]
    arrays = [sample((9_001,), F32, seed) for seed in range(inputs)]
    text = " + ".join(names)
    check(text, " ".join(names), arrays, aligned((9_001,), F32), "contiguous")
    (step,) = plan(parse(text, names), arrays, aligned((9_001,), F32))
    # The only division is by PACK, a power of two. Each block processes its own packs.
    kernel = step.source[step.source.index("contiguous(") :]
    assert kernel.count(" / ") == 1 and "size / PACK" in kernel
    assert "gridDim" not in kernel
    assert step.grid == (-(-9_001 // (4 * 256 * (4 if inputs == 1 else 2))), 1)

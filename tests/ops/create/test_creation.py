"""Creating tensors: strides of `*_like`, and numbers that a dtype cannot represent."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist as fd

TURNED = fd.ones(2, 3).t()


@pytest.mark.parametrize(
    "make",
    [
        fd.zeros_like, fd.ones_like, fd.empty_like, fd.rand_like, fd.randn_like,
        lambda x: fd.full_like(x, 2), lambda x: fd.randint_like(x, 3),
    ],
)  # fmt: skip
def test_what_is_like_a_tensor_lies_as_it_does(make: Callable[[Any], Any]) -> None:
    assert make(TURNED).stride() == (1, 3)
    assert make(fd.ones(3, 1).expand(3, 4)).stride() == (4, 1)


def test_like_takes_values_shape_and_dtype() -> None:
    found = fd.full_like(TURNED, 2, dtype=fd.int64)
    assert found.dtype is fd.int64 and found.tolist() == [[2, 2], [2, 2], [2, 2]]
    assert fd.ones_like(TURNED).tolist() == [[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]]


@pytest.mark.parametrize(
    "make",
    [
        lambda: fd.tensor([300], dtype=fd.uint8),
        lambda: fd.tensor([-256], dtype=fd.uint8),
        lambda: fd.tensor([-129], dtype=fd.int8),
        lambda: fd.tensor([2**40], dtype=fd.int32),
        lambda: fd.tensor([1e10], dtype=fd.int32),
        lambda: fd.tensor([float("nan")], dtype=fd.int32),
        lambda: fd.tensor([float("inf")], dtype=fd.int64),
        lambda: fd.full((2,), 300, dtype=fd.uint8),
        lambda: fd.full((2,), 1e300, dtype=fd.float32),
        lambda: fd.full_like(fd.ones(2, dtype=fd.uint8), 300),
        lambda: fd.ones(2, dtype=fd.int8).fill_(200),
    ],
)
def test_a_number_that_the_dtype_does_not_hold_is_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(RuntimeError, match="without overflow"):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: fd.tensor([1e40]),
        lambda: fd.tensor(1e40),
        lambda: fd.tensor([1e40], dtype=fd.float16),
        lambda: fd.as_tensor([1e40]),
        lambda: fd.ones(2).new_tensor([1e40]),
        lambda: fd.arange(1e40, 2e40, 1e40),
    ],
)
def test_a_number_too_large_for_a_floating_dtype_is_infinite(make: Callable[[], Any]) -> None:
    assert make().tolist() in ([math.inf], math.inf)


def test_numbers_wrap_and_round_where_pytorch_lets_them() -> None:
    assert fd.tensor([-255, -1], dtype=fd.uint8).tolist() == [1, 255]
    assert fd.tensor(np.array([300]), dtype=fd.uint8).tolist() == [44]
    assert fd.tensor([1e300], dtype=fd.float32).tolist() == [float("inf")]
    assert fd.full((1,), float("inf")).tolist() == [float("inf")]


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (fd.arange, TypeError, r"arange\(\) needs an end"),
        (lambda: fd.randint(0, 10), TypeError, r"randint\(\): argument 'size' must be a tuple"),
        (lambda: fd.randperm(-1), RuntimeError, "negative dimension -1"),
    ],
)
def test_wrong_sizes_are_refused(make: Callable[[], Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        make()


@pytest.mark.parametrize("data", [[None], {}, "a", [1, "a"]])
def test_what_is_no_number_makes_no_tensor(data: Any) -> None:
    for kind in (TypeError, RuntimeError):
        with pytest.raises(kind, match="takes numbers"):
            fd.tensor(data)


def test_a_word_is_no_index() -> None:
    with pytest.raises(TypeError, match="valid indices"):
        fd.ones(3)["a"]


def test_a_field_of_records_is_refused_for_it_lies_between_other_bytes() -> None:
    records = np.zeros(4, dtype=[("a", "f8"), ("b", "f4")])
    for use in (fd.from_numpy, fd.as_tensor, lambda a: fd.ones(4) + a, fd.zeros(4).copy_):
        with pytest.raises(ValueError, match="strides not a multiple of the element byte size"):
            use(records["a"])
    assert fd.from_numpy(records["a"].copy()).sum().item() == 0.0


def test_integers_of_numpy_and_tensors_make_an_integer_range() -> None:
    for found in (fd.arange(np.int64(3)), fd.arange(fd.tensor(3)), fd.arange(0, np.int32(3))):
        assert found.dtype is fd.int64 and found.tolist() == [0, 1, 2]
    assert fd.arange(np.float64(3.0)).dtype is fd.float32


def test_numbers_in_lists_keep_a_dtype_of_their_own() -> None:
    assert fd.tensor([np.float64(1.0)]).dtype is fd.float64
    assert fd.tensor([[fd.tensor(1.0, dtype=fd.float64)]]).dtype is fd.float64
    assert fd.tensor([np.float32(1.0), np.float32(2.0)]).dtype is fd.float32
    assert fd.tensor([np.int32(1), np.int32(2)]).dtype is fd.int32
    assert fd.tensor([1.0]).dtype is fd.float32


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        ([np.float32(1), 2.5], fd.float32),
        ([[2.5, np.float32(1)], [3, 4]], fd.float32),
        ([np.int8(1), 1.5], fd.float32),
        ([np.int64(1), np.float32(2)], fd.float32),
        ([1, np.float64(2)], fd.float64),
        ([fd.tensor(1.0), 2], fd.float32),
        ([fd.tensor(1), 2.0], fd.float32),
        ([True, np.uint8(3)], fd.uint8),
        ([np.ones(2, np.float32), np.ones(2, np.int64)], fd.float32),
        ([np.zeros(0, np.float32)], fd.float32),
        ([fd.tensor(1.0, dtype=fd.float16), fd.tensor(2)], fd.float16),
    ],
)
def test_numbers_in_one_list_meet_in_the_dtype_of_an_op(data: Any, dtype: fd.dtype) -> None:
    assert fd.tensor(data).dtype is dtype


def test_lists_of_unsigned_bytes_make_a_tensor_of_them() -> None:
    frames = [np.zeros(2, np.uint8), np.full(2, 255, np.uint8)]
    for made in (fd.tensor(frames), fd.tensor([fd.tensor(frame) for frame in frames])):
        assert made.dtype is fd.uint8 and made.tolist() == [[0, 0], [255, 255]]
    assert fd.tensor(bytearray(b"ab")).tolist() == [97, 98]


def test_a_number_whose_dtype_is_unknown_is_taken_where_one_is_given() -> None:
    with pytest.raises(TypeError, match=r"can't convert an array of type (float128|longdouble)"):
        fd.tensor([np.longdouble(7)])
    assert fd.tensor([np.longdouble(7)], dtype=fd.int64).tolist() == [7]


def test_a_range_may_be_bounded_by_tensors() -> None:
    assert fd.linspace(fd.tensor(0.0), fd.tensor(1.0), 3).tolist() == [0.0, 0.5, 1.0]


@pytest.mark.parametrize(
    "make",
    [
        lambda: fd.rand(2, dtype=float),
        lambda: fd.randn_like(fd.ones(2), dtype=float),
        lambda: fd.as_tensor(np.ones(2), dtype=float),
        lambda: fd.ones(2).sum(dtype=float),
        lambda: fd.ones(2).cumsum(0, dtype=float),
        lambda: fd.nn.functional.softmax(fd.ones(2), 0, dtype=float),
        lambda: fd.ones(2).norm(dtype=float),
    ],
)
def test_python_s_float_names_a_dtype_everywhere(make: Callable[[], Any]) -> None:
    assert make().dtype is fd.float64
    assert fd.randint(3, (2,), dtype=int).dtype is fd.int64


@pytest.mark.parametrize(
    "write",
    [
        lambda: fd.zeros(2, dtype=fd.uint8).masked_fill(fd.tensor([True, False]), 300),
        lambda: fd.zeros(2, dtype=fd.int64).masked_fill(fd.tensor([True, False]), float("nan")),
        lambda: fd.zeros(2).masked_fill_(fd.tensor([True, False]), 1e300),
        lambda: fd.zeros(2, dtype=fd.uint8).scatter(0, fd.tensor([0]), 300),
        lambda: fd.zeros(2, dtype=fd.uint8).index_fill_(0, fd.tensor([0]), 300),
        lambda: fd.zeros(2, dtype=fd.uint8).__setitem__(fd.tensor([0]), 300),
        lambda: fd.zeros(2).masked_fill(fd.tensor([True, False]), 3.4028235e38),
        lambda: fd.zeros(2, dtype=fd.int8).fill_(300),
        lambda: fd.scalar_tensor(300, dtype=fd.int8),
        lambda: fd.nn.functional.pad(fd.zeros(2, dtype=fd.uint8), (1, 1), value=-1),
        lambda: fd.nn.functional.pad(fd.zeros(2, dtype=fd.int8), (1, 1), value=300),
        lambda: fd.lerp(fd.zeros(2), fd.ones(2), 1e39),
        lambda: fd.addmm(*[fd.ones(1, 1, dtype=fd.int8)] * 3, beta=300),
    ],
)
def test_no_write_takes_a_number_that_the_dtype_does_not_hold(write: Callable[[], Any]) -> None:
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"cannot be converted to type .* without overflow"):
            write()


HALVES = pytest.mark.parametrize(
    ("dtype", "number"),
    [
        (fd.float16, 65504.001),
        (fd.float16, -1e9),
        (fd.float16, 2**40),
        (fd.bfloat16, 3.395e38),
        (fd.bfloat16, -1e39),
    ],
)


@HALVES
def test_a_half_type_refuses_a_number_that_it_does_not_hold(dtype: Any, number: float) -> None:
    mask, index = fd.tensor([True, False]), fd.tensor([0])
    ones: Any = fd.ones(2, dtype=dtype)
    F = fd.nn.functional
    for write in (
        lambda: ones.masked_fill(mask, number),
        lambda: ones.masked_fill(mask, fd.tensor(number, dtype=fd.float64)),
        lambda: ones.masked_fill_(mask, number),
        lambda: fd.full((2,), number, dtype=dtype),
        lambda: fd.full_like(ones, number),
        lambda: ones.new_full((2,), number),
        lambda: ones.fill_(number),
        lambda: fd.ones(2, 2, dtype=dtype).fill_diagonal_(number),
        lambda: ones.scatter(0, index, number),
        lambda: ones.index_fill(0, index, number),
        lambda: ones.index_add(0, index, ones[:1], alpha=number),
        lambda: ones.clamp(min=number),
        lambda: ones.clamp(max=number),
        lambda: F.threshold(ones, 0.0, number),
        lambda: F.hardtanh(ones, min(0.0, number), max(0.0, number)),
        lambda: F.pad(ones, (1, 1), value=number),
        lambda: fd.linspace(0, number, 3, dtype=dtype),
        lambda: fd.add(ones, ones, alpha=number),
        lambda: fd.sub(ones, ones, alpha=number),
        lambda: fd.rsub(ones, ones, alpha=number),
        lambda: ones.add_(ones, alpha=number),
        lambda: ones**number,
    ):
        for _ in range(2):
            with pytest.raises(RuntimeError, match=r"cannot be converted to type .* without over"):
                write()
    assert ones.tolist() == [1.0, 1.0]


@HALVES
def test_a_half_type_rounds_a_number_that_is_first_made_a_tensor(dtype: Any, number: float) -> None:
    rounded = fd.tensor(number, dtype=fd.float64).to(dtype).item()
    mask = fd.tensor([True, False])
    assert fd.where(mask, fd.zeros(2, dtype=dtype), number).tolist() == [0.0, rounded]
    assert fd.scalar_tensor(number, dtype=dtype).item() == rounded
    for index in (0, [0], mask):
        written = fd.zeros(2, dtype=dtype)
        written[index] = number
        assert written.tolist() == [rounded, 0.0]


@pytest.mark.parametrize("dtype", [fd.float16, fd.bfloat16, fd.float32, fd.float64])
def test_the_largest_and_infinite_numbers_are_held(dtype: Any) -> None:
    mask = fd.tensor([True, False])
    for number in (fd.finfo(dtype).max, fd.finfo(dtype).min, float("inf"), float("-inf")):
        assert fd.zeros(2, dtype=dtype).masked_fill(mask, number).tolist() == [number, 0.0]
        assert fd.zeros(2, dtype=dtype).fill_(number).tolist() == [number, number]


def test_float16_rounds_what_is_too_large_to_infinity() -> None:
    assert fd.tensor(1e6, dtype=fd.float16).item() == float("inf")
    assert fd.zeros(1, dtype=fd.float16).fill_(fd.tensor(-1e6)).item() == float("-inf")


def test_out_of_no_elements_grows_and_what_others_know_must_fit() -> None:
    out = fd.empty(0)
    assert fd.cat([fd.ones(2), fd.zeros(1)], out=out) is out
    assert out.tolist() == [1.0, 1.0, 0.0]
    assert fd.add(fd.ones(3), 1, out=out).tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(RuntimeError, match="give an out of that shape"):
        fd.add(fd.ones(2), 1, out=fd.ones(3)[:0])
    with fd.no_grad(), pytest.raises(RuntimeError, match="give an out of that shape"):
        fd.add(fd.ones(2), 1, out=fd.ones(0, requires_grad=True))
    with pytest.raises(RuntimeError, match="unsupported operation: more than one element"):
        fd.add(fd.ones(3), 1, out=fd.ones(1).expand(3))


@pytest.mark.parametrize("zero", [0.0, -0.0, np.float32(0), fd.tensor(0.0)])
def test_arange_from_a_zero_with_a_fraction_is_floating(zero: Any) -> None:
    found = fd.arange(zero, 3)
    assert found.dtype is fd.float32 and found.tolist() == [0.0, 1.0, 2.0]
    assert fd.arange(start=zero, end=3, step=1).dtype is fd.float32


def test_arange_of_an_integer_dtype_steps_by_integers() -> None:
    assert fd.arange(0, 2.5, 0.5, dtype=fd.int32).tolist() == [0, 0, 0, 0, 0]
    assert fd.arange(0.5, 3, dtype=fd.int64).tolist() == [0, 1, 2]
    assert fd.arange(0, 5, 1.5, dtype=fd.int64).tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match=r"^step must be nonzero"):
        fd.arange(0, 1, 0.1, dtype=fd.int64)


def test_arange_counts_integers_that_no_float_holds() -> None:
    assert fd.arange(0, 10**18 + 1, 10**18).tolist() == [0, 10**18]


def test_full_of_a_number_of_numpy_has_the_dtype_of_pythons() -> None:
    assert fd.full((2,), np.int32(3)).dtype is fd.int64
    assert fd.full((2,), np.float64(3)).dtype is fd.float32


class _Foreign:
    """A tensor of another library, which NumPy can only read through `__array__`."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.held = array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self.held, dtype=dtype)

    def __len__(self) -> int:
        return len(self.held)

    def __getitem__(self, index: int) -> _Foreign:
        return _Foreign(self.held[index])


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32, np.uint8, np.bool_])
def test_a_tensor_of_another_library_keeps_its_dtype_and_is_copied(dtype: Any) -> None:
    array = np.ones((2, 3), dtype)
    found = fd.tensor(_Foreign(array))
    array[0, 0] = 0
    assert found.shape == (2, 3) and bool((found == 1).all())
    assert found.dtype is fd.from_numpy(array).dtype is fd.as_tensor(_Foreign(array)).dtype
    assert fd.tensor(_Foreign(np.array(1, dtype))).shape == ()


# The results are those of PyTorch 2.13, which computes from both ends in the requested dtype.
@pytest.mark.parametrize(
    ("start", "end", "steps", "dtype", "expected"),
    [
        (0, 10, 4, "float32", [0.0, 3.3333332538604736, 6.6666669845581055, 10.0]),
        (-1, 1, 4, "float32", [-1.0, -0.3333333134651184, 0.3333333134651184, 1.0]),
        (0, 100, 7, "float16", [0.0, 16.671875, 33.34375, 50.0, 66.625, 83.3125, 100.0]),
        (-3, 3, 4, "uint8", [253, 169, 86, 3]),
        (-3, 3, 4, "int8", [-3, -1, 1, 3]),
        (0, 10, 1, "bool", [False]),
        # PyTorch gives NaN and infinity for these, because the difference overflows the dtype.
        (-3e38, 3e38, 2, "float32", [-3.0000000054977558e38, 3.0000000054977558e38]),
        (-65504, 65504, 5, "float16", [-65504.0, -32752.0, 0.0, 32752.0, 65504.0]),
        (1.5e308, -1.5e308, 3, "float64", [1.5e308, 0.0, -1.5e308]),
    ],
)
def test_linspace_is_pytorch_s_to_the_last_bit(
    start: int, end: int, steps: int, dtype: str, expected: list[float]
) -> None:
    assert fd.linspace(start, end, steps, dtype=getattr(fd, dtype)).tolist() == expected


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: fd.arange(5, dtype=fd.bool), "\"arange_cpu\" not implemented for 'Bool'"),
        (
            lambda: fd.linspace(0, 5, 3, dtype=fd.bool),
            "\"linspace_cpu\" not implemented for 'Bool'",
        ),
        (lambda: fd.linspace(0, 300, 4, dtype=fd.int8), "value cannot be converted to type int8"),
        (lambda: fd.logspace(0, 2, -1), "number of steps must be non-negative"),
    ],
)
def test_a_range_that_its_dtype_does_not_hold_is_refused(call: Any, text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        call()


@pytest.mark.parametrize(
    ("dtype", "held", "refused"),
    [
        (fd.uint8, [-255, 0.5, 254.9, 255.0], [-256, -0.5, -1.5, 255.5, 256]),
        (fd.int8, [-128, -127.9, 127.0], [-128.5, 127.5, -129]),
        (fd.int64, [-(2**63), -(2.0**63), 2**63 - 1], [2.0**63, float("nan")]),
    ],
)
def test_a_fraction_is_held_against_the_limits_before_it_is_cut_off(
    dtype: Any, held: list[Any], refused: list[Any]
) -> None:
    into = [lambda v: fd.full((2,), v, dtype=dtype), lambda v: fd.zeros(2, dtype=dtype).fill_(v)]
    into.append(lambda v: fd.tensor([v], dtype=dtype))
    for write in into:
        for value in held:
            wrapped = int(value) % 256 if dtype is fd.uint8 else int(value)
            assert write(value)[0].item() == wrapped
        for value in refused:
            with pytest.raises(RuntimeError, match="without overflow"):
                write(value)


@pytest.mark.parametrize("data", [-1, [-1], [[1, -1]], [-(1 << 63)]])
def test_uint64_refuses_negative_numbers_and_narrower_unsigned_ones_wrap_them(data: Any) -> None:
    with pytest.raises(OverflowError, match="can't convert negative int to unsigned"):
        fd.tensor(data, dtype=fd.uint64)
    assert fd.tensor([-1], dtype=fd.uint32).tolist() == [(1 << 32) - 1]
    assert fd.tensor([], dtype=fd.uint64).tolist() == []

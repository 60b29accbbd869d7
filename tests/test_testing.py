"""assert_close and make_tensor behave as documented."""

from __future__ import annotations

from typing import Any

import pytest

import fastdist as fd
from fastdist.testing import assert_close, make_tensor


def test_close_values_pass() -> None:
    assert_close(fd.tensor([1.0, 2.0]), fd.tensor([1.0, 2.0 + 1e-6]))
    assert_close({"a": [1.0, fd.ones(2)]}, {"a": [1.0 + 1e-8, fd.ones(2)]})
    assert_close(3, 3)
    assert_close(1 + 2j, 1 + 2.00000001j)


@pytest.mark.parametrize(
    ("dtype", "off"),
    [
        (fd.float16, 8e-4), (fd.bfloat16, 1e-2), (fd.float32, 1e-6), (fd.float64, 5e-8),
        (fd.complex64, 1e-6), (fd.complex128, 5e-8),
    ],
)  # fmt: skip
def test_each_dtype_has_the_tolerance_that_pytorch_gives_it(dtype: Any, off: float) -> None:
    x = fd.tensor([1.0, 2.0, 4.0], dtype=dtype)
    assert_close((x * (1 + off)).to(dtype), x)
    with pytest.raises(AssertionError, match="Tensor-likes are not close!"):
        assert_close((x * (1 + 40 * off)).to(dtype), x)


@pytest.mark.parametrize(
    ("actual", "expected", "options", "error"),
    [
        (fd.ones(3), fd.tensor([1.0, 2.0, 1.0]), {}, r"^Tensor-likes are not close!"),
        (fd.tensor([1, 2]), fd.tensor([1, 3]), {}, r"^Tensor-likes are not equal!"),
        (fd.ones(3), fd.ones(2), {}, r"'shape' do not match: \(3,\) != \(2,\)"),
        (fd.ones(2), fd.ones(2, dtype=fd.float64), {}, "'dtype' do not match"),
        (fd.ones(2), fd.ones(2, device="sim:0"), {}, "'device' do not match"),
        (fd.ones(2, 2), fd.ones(2, 2).t(), {"check_stride": True}, r"'stride\(\)' do not match"),
        (fd.tensor(1.0), fd.tensor(2.0), {}, r"Expected 2\.0 but got 1\.0"),
        (
            fd.tensor([1j, 3 + 4j]),
            fd.tensor([1j, 0j]),
            {},
            r"absolute difference: 5\.0 at .*\(1,\)",
        ),
        (fd.tensor(1j), fd.tensor(-1j), {}, r"Absolute difference: 2\.0 \(up to 1e-05 allowed\)"),
        (fd.tensor([float("nan")]), fd.tensor([float("nan")]), {}, "Mismatched elements: 1 / 1"),
        ([fd.ones(1)], [fd.zeros(1)], {}, r"The failure occurred for item \[0\]$"),
        ([1.0], [1.0, 2.0], {}, "length of the sequences mismatch"),
        ({"a": 1}, {"b": 1}, {}, "keys of the mappings do not match"),
        (1, 1.0, {}, r"^The \(d\)types do not match"),
        (fd.ones(1), 1.0, {}, "^No comparison for Tensor and float"),
    ],
)
def test_differences_are_told(
    actual: Any, expected: Any, options: dict[str, Any], error: str
) -> None:
    with pytest.raises(AssertionError, match=error):
        assert_close(actual, expected, **options)


def test_report_counts_and_shows_the_worst_element() -> None:
    with pytest.raises(AssertionError) as caught:
        assert_close(fd.tensor([1.0, 2.0, 4.0]), fd.tensor([1.0, 2.5, 8.0]))
    text = str(caught.value)
    assert "Mismatched elements: 2 / 3 (66.7%)" in text
    assert "Greatest absolute difference: 4.0 at index (2,) (up to 1e-05 allowed)" in text


def test_message_may_be_replaced_or_extended() -> None:
    with pytest.raises(AssertionError, match=r"^mine$"):
        assert_close(1.0, 2.0, msg="mine")
    with pytest.raises(AssertionError, match=r"^Here:\nScalars are not close"):
        assert_close(1.0, 2.0, msg=lambda text: f"Here:\n{text}")


def test_one_tolerance_alone_is_refused() -> None:
    with pytest.raises(ValueError, match="must both be specified"):
        assert_close(1.0, 1.0, rtol=1.0)


def test_made_tensors_repeat_and_are_what_was_asked_for() -> None:
    x = make_tensor(3, 4, dtype=fd.float64, low=1.0, high=2.0, requires_grad=True)
    assert_close(x, make_tensor((3, 4), dtype=fd.float64, low=1.0, high=2.0))
    assert x.requires_grad and x.min().item() >= 1.0 and x.max().item() < 2.0
    assert not make_tensor(3, 4, dtype=fd.float32, noncontiguous=True).is_contiguous()
    assert 0 not in make_tensor(100, dtype=fd.int8, exclude_zero=True).tolist()

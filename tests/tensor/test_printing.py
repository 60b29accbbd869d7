"""Tensors print as in PyTorch, with fastdist's name before dtypes."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import numpy as np
import pytest

import fastdist
from fastdist.tensor.printing import format_tensor, get_printoptions, set_printoptions

F4 = np.float32


@pytest.fixture
def options() -> Iterator[None]:
    before = get_printoptions()
    yield
    set_printoptions(**before)


def text(values: object, dtype: str = "float32") -> str:
    return format_tensor(np.array(values, dtype), dtype)


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        (1.0, "float32", "tensor(1.)"),
        (0.1, "float32", "tensor(0.1000)"),
        (3, "int64", "tensor(3)"),
        (True, "bool", "tensor(True)"),
        ([True, False], "bool", "tensor([ True, False])"),
        ([1, -20, 300], "int64", "tensor([  1, -20, 300])"),
        ([1, 2], "int32", "tensor([1, 2], dtype=fastdist.int32)"),
        ([1, 255], "uint8", "tensor([  1, 255], dtype=fastdist.uint8)"),
        ([1.0, 2.0], "float64", "tensor([1., 2.], dtype=fastdist.float64)"),
        ([0.5, 2.25], "float16", "tensor([0.5000, 2.2500], dtype=fastdist.float16)"),
        ([-0.0, 0.0], "float32", "tensor([-0., 0.])"),
        ([1.0, -2.0, 10.0], "float32", "tensor([ 1., -2., 10.])"),
        ([1.5, -2.0, 10.0], "float32", "tensor([ 1.5000, -2.0000, 10.0000])"),
        ([1.0, 1000.0], "float32", "tensor([   1., 1000.])"),
        ([1.0, 1001.0], "float32", "tensor([1.0000e+00, 1.0010e+03])"),
        ([2e8], "float32", "tensor([2.0000e+08])"),
        ([9e-5], "float32", "tensor([9.0000e-05])"),
        ([1e-4, 0.0], "float64", "tensor([0.0001, 0.0000], dtype=fastdist.float64)"),
    ],
)
def test_values_choose_their_form(values: object, dtype: str, expected: str) -> None:
    assert text(values, dtype) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([np.nan, 1.0, np.inf], "tensor([nan, 1., inf])"),
        ([np.nan, 1.5, -np.inf], "tensor([   nan, 1.5000,   -inf])"),
        ([np.nan, 1e-7, np.inf], "tensor([       nan, 1.0000e-07,        inf])"),
        ([np.nan, np.inf], "tensor([nan, inf])"),
        (np.nan, "tensor(nan)"),
    ],
)
def test_nan_and_inf_do_not_choose_the_form(values: object, expected: str) -> None:
    assert text(values) == expected


@pytest.mark.parametrize(
    ("shape", "dtype", "expected"),
    [
        ((0,), "float32", "tensor([])"),
        ((0, 3), "float32", "tensor([], size=(0, 3))"),
        ((0,), "int64", "tensor([], dtype=fastdist.int64)"),
        ((2, 0), "bool", "tensor([], size=(2, 0), dtype=fastdist.bool)"),
    ],
)
def test_empty_tensor_tells_its_shape_and_dtype(
    shape: tuple[int, ...], dtype: str, expected: str
) -> None:
    assert format_tensor(np.zeros(shape, dtype), dtype) == expected


def test_matrix_stands_in_columns() -> None:
    assert text([[1.0, -2.5], [30.0, 4.0]]) == (
        "tensor([[ 1.0000, -2.5000],\n        [30.0000,  4.0000]])"
    )


def test_blocks_are_set_apart_by_empty_lines() -> None:
    assert text(np.arange(8).reshape(2, 1, 2, 2), "int64") == (
        "tensor([[[[0, 1],\n          [2, 3]]],\n\n\n        [[[4, 5],\n          [6, 7]]]])"
    )


def test_long_rows_are_broken_at_the_line_width() -> None:
    assert text(np.arange(25), "int64") == (
        "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n"
        "        18, 19, 20, 21, 22, 23, 24])"
    )


def test_more_than_1000_elements_are_summarised() -> None:
    assert text(np.arange(1001), "int64") == "tensor([   0,    1,    2,  ...,  998,  999, 1000])"
    assert "..." not in text(np.arange(1000), "int64")


def test_summary_cuts_every_long_axis_and_no_short_one() -> None:
    assert text(np.arange(2 * 8 * 100).reshape(2, 8, 100)) == (
        "tensor([[[0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 9.7000e+01,\n"
        "          9.8000e+01, 9.9000e+01],\n"
        "         [1.0000e+02, 1.0100e+02, 1.0200e+02,  ..., 1.9700e+02,\n"
        "          1.9800e+02, 1.9900e+02],\n"
        "         [2.0000e+02, 2.0100e+02, 2.0200e+02,  ..., 2.9700e+02,\n"
        "          2.9800e+02, 2.9900e+02],\n"
        "         ...,\n"
        "         [5.0000e+02, 5.0100e+02, 5.0200e+02,  ..., 5.9700e+02,\n"
        "          5.9800e+02, 5.9900e+02],\n"
        "         [6.0000e+02, 6.0100e+02, 6.0200e+02,  ..., 6.9700e+02,\n"
        "          6.9800e+02, 6.9900e+02],\n"
        "         [7.0000e+02, 7.0100e+02, 7.0200e+02,  ..., 7.9700e+02,\n"
        "          7.9800e+02, 7.9900e+02]],\n"
        "\n"
        "        [[8.0000e+02, 8.0100e+02, 8.0200e+02,  ..., 8.9700e+02,\n"
        "          8.9800e+02, 8.9900e+02],\n"
        "         [9.0000e+02, 9.0100e+02, 9.0200e+02,  ..., 9.9700e+02,\n"
        "          9.9800e+02, 9.9900e+02],\n"
        "         [1.0000e+03, 1.0010e+03, 1.0020e+03,  ..., 1.0970e+03,\n"
        "          1.0980e+03, 1.0990e+03],\n"
        "         ...,\n"
        "         [1.3000e+03, 1.3010e+03, 1.3020e+03,  ..., 1.3970e+03,\n"
        "          1.3980e+03, 1.3990e+03],\n"
        "         [1.4000e+03, 1.4010e+03, 1.4020e+03,  ..., 1.4970e+03,\n"
        "          1.4980e+03, 1.4990e+03],\n"
        "         [1.5000e+03, 1.5010e+03, 1.5020e+03,  ..., 1.5970e+03,\n"
        "          1.5980e+03, 1.5990e+03]]])"
    )


def test_gradient_and_device_stand_behind_the_values() -> None:
    one = np.ones(1, F4)
    assert format_tensor(one, "float32", "cpu", True, None) == "tensor([1.], requires_grad=True)"
    assert format_tensor(one, "float32", "sim:0", True, "MulBackward0") == (
        "tensor([1.], device='sim:0', grad_fn=<MulBackward0>)"
    )
    assert format_tensor(one, "float32", tangent="tensor([2.])") == (
        "tensor([1.], tangent=tensor([2.]))"
    )


def test_notes_that_do_not_fit_begin_a_new_line() -> None:
    row = np.arange(14, dtype=np.int32)
    assert format_tensor(row, "int32", "sim:1") == (
        "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13],\n"
        "       device='sim:1', dtype=fastdist.int32)"
    )
    assert format_tensor(row[:10].astype(F4), "float32", "sim:1", True, "AddmmBackward0") == (
        "tensor([0., 1., 2., 3., 4., 5., 6., 7., 8., 9.], device='sim:1',\n"
        "       grad_fn=<AddmmBackward0>)"
    )


def test_class_name_and_default_dtype_are_the_callers() -> None:
    both = np.ones((2, 1))
    assert format_tensor(both, "float64", class_name="Mine", default_dtype_name="float64") == (
        "Mine([[1.],\n      [1.]])"
    )


@pytest.mark.usefixtures("options")
def test_set_printoptions_changes_what_is_given() -> None:
    set_printoptions(precision=2, linewidth=20)
    assert text([0.125, 1.5, 2.0]) == "tensor([0.12, 1.50,\n        2.00])"
    set_printoptions(profile="default", sci_mode=True)
    assert text([0.125]) == "tensor([1.2500e-01])"
    set_printoptions(threshold=4, edgeitems=1)
    assert text([1, 2, 3, 4, 5], "int64") == "tensor([1,  ..., 5])"


def test_set_printoptions_names_the_profiles_it_knows() -> None:
    with pytest.raises(ValueError, match="unknown profile 'tall'; known are default, short, full"):
        set_printoptions(profile="tall")


def test_what_max_sort_and_kin_return_prints_a_part_a_line() -> None:
    x = fastdist.tensor([[3.0, 1.0], [2.0, 4.0]])
    assert repr(x.max(1)) == (
        "fastdist.return_types.max(\nvalues=tensor([3., 4.]),\nindices=tensor([0, 1]))"
    )
    assert repr(x.aminmax()) == ("fastdist.return_types.aminmax(\nmin=tensor(1.),\nmax=tensor(4.))")
    for found in (x.min(0), x.sort(), x.topk(1)):
        again = pickle.loads(pickle.dumps(found))
        assert repr(again) == repr(found) and type(again) is type(found)


def test_a_dual_tensor_prints_its_tangent() -> None:
    with fastdist.autograd.forward_ad.dual_level():
        dual = fastdist.autograd.forward_ad.make_dual(
            fastdist.tensor([1.0, 2.0]), fastdist.tensor([1.0, 0.0])
        )
        assert repr(dual) == "tensor([1., 2.], tangent=tensor([1., 0.]))"
        assert repr(dual.sum()) == "tensor(3., tangent=1.0)"
    assert repr(dual) == "tensor([1., 2.])"


def test_the_default_dtype_is_not_printed() -> None:
    x = fastdist.tensor([1.0], dtype=fastdist.float32)
    fastdist.set_default_dtype(fastdist.float64)
    try:
        assert repr(fastdist.tensor([1.0])) == "tensor([1.])"
        assert repr(x) == "tensor([1.], dtype=fastdist.float32)"
    finally:
        fastdist.set_default_dtype(fastdist.float32)


class Measured(fastdist.Tensor):
    """A subclass that inherits Tensor's __torch_function__."""


def test_a_subclass_is_printed_by_its_name() -> None:
    x = fastdist.ones(2, 2).as_subclass(Measured)
    assert repr(x) == "Measured([[1., 1.],\n          [1., 1.]])"
    assert str(x.sum()) == "Measured(4.)"
    assert repr(fastdist.nn.Buffer(fastdist.ones(1))) == "tensor([1.])"
    assert repr(fastdist.nn.Parameter(fastdist.ones(1))) == (
        "Parameter containing:\ntensor([1.], requires_grad=True)"
    )

"""Convolution, padding and patch layers: initial values, sizes, names and errors."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist import nn
from fastdist.nn import functional as F


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (nn.Conv1d(4, 6, 3, groups=2), (6, 2, 3)),
        (nn.Conv2d(4, 6, (3, 2)), (6, 4, 3, 2)),
        (nn.Conv3d(2, 4, 2), (4, 2, 2, 2, 2)),
        (nn.ConvTranspose1d(4, 6, 3, groups=2), (4, 3, 3)),
        (nn.ConvTranspose2d(4, 6, (3, 2)), (4, 6, 3, 2)),
        (nn.ConvTranspose3d(2, 4, 2), (2, 4, 2, 2, 2)),
    ],
)
def test_weight_and_bias_are_called_and_shaped_as_in_pytorch(module: Any, shape: Any) -> None:
    state = module.state_dict()
    assert list(state) == ["weight", "bias"]
    assert tuple(state["weight"].shape) == shape
    assert tuple(state["bias"].shape) == (module.out_channels,)


def test_a_layer_without_bias_has_none_in_its_state() -> None:
    module = nn.Conv2d(1, 1, 1, bias=False)
    assert list(module.state_dict()) == ["weight"]
    assert module.bias is None


def test_weight_then_bias_are_drawn_within_one_over_the_root_of_the_inputs() -> None:
    fd.manual_seed(3)
    module = nn.Conv2d(8, 64, 5, groups=2)
    bound = 1 / math.sqrt(4 * 25)
    weight = module.weight.detach().numpy()
    assert np.abs(weight).max() <= bound
    assert weight.std() == pytest.approx(bound / math.sqrt(3), rel=0.03)
    fd.manual_seed(3)
    like = nn.Linear(100, 64)
    assert weight.reshape(64, 100).tolist() == like.weight.tolist()
    assert module.bias.tolist() == like.bias.tolist()


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (
            nn.Conv2d(
                4, 6, 3, padding=1, dilation=2, groups=2, bias=False, padding_mode="circular"
            ),
            (
                "Conv2d(4, 6, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), dilation=(2, 2), "
                "groups=2, bias=False, padding_mode=circular)"
            ),
        ),
        (
            nn.Conv1d(1, 2, 3, padding="same"),
            "Conv1d(1, 2, kernel_size=(3,), stride=(1,), padding=same)",
        ),
        (
            nn.ConvTranspose2d(4, 6, 3, stride=2, output_padding=1),
            "ConvTranspose2d(4, 6, kernel_size=(3, 3), stride=(2, 2), output_padding=(1, 1))",
        ),
        (
            nn.Fold((4, 5), 3),
            "Fold(output_size=(4, 5), kernel_size=3, dilation=1, padding=0, stride=1)",
        ),
        (nn.Unfold(3, dilation=2), "Unfold(kernel_size=3, dilation=2, padding=0, stride=1)"),
        (nn.ConstantPad1d(2, 3.5), "ConstantPad1d(padding=(2, 2), value=3.5)"),
        (nn.ConstantPad2d((1, 2, 3, 4), 3), "ConstantPad2d(padding=(1, 2, 3, 4), value=3)"),
        (nn.ZeroPad2d(1), "ZeroPad2d((1, 1, 1, 1))"),
        (nn.ReflectionPad1d(2), "ReflectionPad1d((2, 2))"),
        (nn.ReplicationPad2d((1, 2, 0, 0)), "ReplicationPad2d((1, 2, 0, 0))"),
        (nn.CircularPad3d(2), "CircularPad3d((2, 2, 2, 2, 2, 2))"),
    ],
)
def test_a_layer_is_shown_as_in_pytorch(module: nn.Module, words: str) -> None:
    assert repr(module) == words


@pytest.mark.parametrize("mode", ["zeros", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("padding", [(1, 2), "same"])
def test_padding_modes_pad_before_the_convolution(mode: str, padding: Any) -> None:
    module = nn.Conv2d(2, 3, (3, 4), padding=padding, padding_mode=mode)
    x = fd.randn(2, 2, 5, 6)
    ends = (2, 2, 1, 1) if padding == (1, 2) else (1, 2, 1, 1)
    padded = F.pad(x, ends, "constant" if mode == "zeros" else mode)
    expected = F.conv2d(padded, module.weight, module.bias)
    assert fd.allclose(module(x), expected, atol=1e-6)


def test_output_size_chooses_among_those_that_stride_leaves_open() -> None:
    module, x = nn.ConvTranspose2d(4, 3, 3, stride=2), fd.ones(1, 4, 5, 5)
    assert module(x).shape == (1, 3, 11, 11)
    assert module(x, output_size=(12, 11)).shape == (1, 3, 12, 11)
    assert module(x, output_size=(1, 3, 12, 12)).shape == (1, 3, 12, 12)
    assert module(x[0], output_size=fd.Size((3, 12, 12))).shape == (3, 12, 12)


def test_fold_adds_up_what_unfold_cuts() -> None:
    x = fd.arange(32.0).reshape(1, 2, 4, 4)
    assert nn.Fold(4, 2, stride=2)(nn.Unfold(2, stride=2)(x)).tolist() == x.tolist()


def test_padding_layers_are_the_modes_of_pad() -> None:
    x = fd.arange(12.0).reshape(1, 3, 4)
    for module, mode in (
        (nn.ReflectionPad1d((1, 2)), "reflect"),
        (nn.ReplicationPad1d((1, 2)), "replicate"),
        (nn.CircularPad1d((1, 2)), "circular"),
        (nn.ZeroPad1d((1, 2)), "constant"),
    ):
        assert module(x).tolist() == F.pad(x, (1, 2), mode).tolist()
    assert nn.ConstantPad1d((0, 1), 7.0)(x)[0, :, -1].tolist() == [7.0] * 3
    assert isinstance(nn.ZeroPad2d(1), nn.ConstantPad2d)


def test_a_layer_pickles() -> None:
    module, x = nn.Conv2d(1, 2, 3), fd.randn(1, 1, 4, 4)
    assert pickle.loads(pickle.dumps(module))(x).tolist() == module(x).tolist()


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda: nn.Conv2d(3, 4, 3, groups=2), ValueError, "in_channels must be divisible"),
        (lambda: nn.Conv2d(4, 3, 3, groups=2), ValueError, "out_channels must be divisible"),
        (lambda: nn.Conv2d(4, 3, 3, groups=0), ValueError, "groups must be a positive integer"),
        (lambda: nn.Conv2d(4, 3, 3, padding="foo"), ValueError, "Invalid padding string 'foo'"),
        (lambda: nn.Conv1d(4, 3, 3, 2, "same"), ValueError, "not supported for strided"),
        (lambda: nn.Conv2d(4, 3, 3, padding_mode="foo"), ValueError, "padding_mode must be one"),
        (
            lambda: nn.ConvTranspose2d(4, 3, 3, padding_mode="reflect"),
            ValueError,
            'Only "zeros" padding mode is supported for ConvTranspose2d',
        ),
        (
            lambda: nn.ConvTranspose2d(4, 3, 3)(fd.ones(1, 4, 5, 5), output_size=(4, 4)),
            ValueError,
            r"requested an output size of \(4, 4\), but valid sizes range from \[7, 7\]",
        ),
        (
            lambda: nn.ConvTranspose2d(4, 3, 3)(fd.ones(1, 4, 5, 5), output_size=(7,)),
            ValueError,
            "ConvTranspose2D: for 4D input, output_size must have 2 or 4 elements",
        ),
        (lambda: nn.CircularPad2d(1)(fd.ones(3, 3)), ValueError, "expected 3D or 4D input"),
    ],
)
def test_what_does_not_fit_is_refused(
    make: Callable[[], Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        make()


@pytest.mark.parametrize("kind", [nn.Conv2d, nn.ConvTranspose2d])
def test_a_kernel_of_more_axes_makes_a_layer_that_cannot_be_called(kind: Any) -> None:
    layer = kind(3, 3, (2, 3, 4))
    assert layer.weight.shape == (3, 3, 2, 3, 4)
    assert repr(layer) == f"{kind.__name__}(3, 3, kernel_size=(2, 3, 4), stride=(1, 1))"
    with pytest.raises(RuntimeError, match="expected stride to be"):
        layer(fd.ones(1, 3, 9, 9))


def test_a_padding_of_one_number_in_a_tuple_is_that_of_all_axes() -> None:
    assert nn.Conv2d(3, 4, 3, padding=(1,))(fd.ones(1, 3, 5, 5)).shape == (1, 4, 5, 5)

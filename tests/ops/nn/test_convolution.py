"""Convolutions and patches: rejected arguments and their errors, and small known values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fastdist as fd
from fastdist.nn import functional as F

one = fd.ones
IMAGES = one(2, 3, 5, 5)
WEIGHT = one(4, 3, 3, 3)

REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "channels": (
        lambda: F.conv2d(IMAGES, one(4, 2, 3, 3)),
        RuntimeError,
        (
            "Given groups=1, weight of size [4, 2, 3, 3], expected input[2, 3, 5, 5] to have 2 "
            "channels, but got 3 channels instead"
        ),
    ),
    "axes": (
        lambda: F.conv2d(one(3, 5), WEIGHT),
        RuntimeError,
        "Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of size: [3, 5]",
    ),
    "axes of weight": (
        lambda: F.conv1d(one(2, 3, 5), WEIGHT),
        RuntimeError,
        (
            "Expected 4-dimensional input for 4-dimensional weight [4, 3, 3, 3], but got "
            "3-dimensional input of size [2, 3, 5] instead"
        ),
    ),
    "stride of too many": (
        lambda: F.conv2d(IMAGES, WEIGHT, stride=(1, 2, 3)),
        RuntimeError,
        (
            "expected stride to be a single integer value or a list of 2 values to match the "
            "convolution dimensions, but got stride=[1, 2, 3]"
        ),
    ),
    "bias": (
        lambda: F.conv2d(IMAGES, WEIGHT, one(5)),
        RuntimeError,
        (
            "Given weight of size [4, 3, 3, 3], expected bias to be 1-dimensional with 4 elements, "
            "but got bias of size [5] instead"
        ),
    ),
    "room": (
        lambda: F.conv2d(one(2, 3, 2, 5), WEIGHT),
        RuntimeError,
        (
            "Calculated padded input size per channel: (2 x 5). Kernel size: (3 x 3). Kernel size "
            "can't be greater than actual input size"
        ),
    ),
    "stride": (
        lambda: F.conv2d(IMAGES, WEIGHT, stride=0),
        RuntimeError,
        "non-positive stride is not supported",
    ),
    "a stride with a fraction": (
        lambda: F.conv2d(IMAGES, WEIGHT, stride=1.5),
        TypeError,
        "conv2d(): argument 'stride' (position 4) must be",
    ),
    "padding": (
        lambda: F.conv2d(IMAGES, WEIGHT, padding=-1),
        RuntimeError,
        "negative padding is not supported",
    ),
    "dilation": (
        lambda: F.conv2d(IMAGES, WEIGHT, dilation=0),
        RuntimeError,
        "non-positive dilation is not supported",
    ),
    "no groups": (
        lambda: F.conv2d(IMAGES, WEIGHT, groups=0),
        RuntimeError,
        "non-positive groups is not supported",
    ),
    "groups": (
        lambda: F.conv2d(one(2, 4, 5, 5), one(3, 2, 3, 3), groups=2),
        RuntimeError,
        (
            "Given groups=2, expected weight to be divisible by 2 at dimension 0, but got weight "
            "of size [3, 2, 3, 3] instead"
        ),
    ),
    "few outputs": (
        lambda: F.conv2d(IMAGES, one(0, 3, 2, 2)),
        RuntimeError,
        "Given groups=1, expected weight to be at least 1 at dimension 0",
    ),
    "dtypes": (
        lambda: F.conv2d(IMAGES, WEIGHT.double()),
        RuntimeError,
        "Input type (torch.FloatTensor) and weight type (torch.DoubleTensor) should be the same",
    ),
    "dtype of bias": (
        lambda: F.conv2d(IMAGES, WEIGHT, one(4).double()),
        RuntimeError,
        "Input type (float) and bias type (double) should be the same",
    ),
    "same with stride": (
        lambda: F.conv2d(IMAGES, WEIGHT, padding="same", stride=2),
        RuntimeError,
        "padding='same' is not supported for strided convolutions",
    ),
    "a padding of no name": (
        lambda: F.conv2d(IMAGES, WEIGHT, padding="foo"),
        RuntimeError,
        "Invalid padding string: 'foo'",
    ),
    "transposed channels": (
        lambda: F.conv_transpose2d(IMAGES, WEIGHT),
        RuntimeError,
        (
            "Given transposed=1, weight of size [4, 3, 3, 3], expected input[2, 3, 5, 5] to have 4 "
            "channels, but got 3 channels instead"
        ),
    ),
    "transposed bias": (
        lambda: F.conv_transpose2d(IMAGES, one(3, 4, 3, 3), one(3)),
        RuntimeError,
        (
            "Given transposed=1, weight of size [3, 4, 3, 3], expected bias to be 1-dimensional "
            "with 4 elements, but got bias of size [3] instead"
        ),
    ),
    "output padding": (
        lambda: F.conv_transpose2d(IMAGES, one(3, 4, 3, 3), output_padding=1),
        RuntimeError,
        "output padding must be smaller than either stride or dilation, but got",
    ),
    "transposed into nothing": (
        lambda: F.conv_transpose2d(one(2, 3, 1, 1), one(3, 4, 3, 3), padding=2),
        RuntimeError,
        (
            "Given input size per channel: (1 x 1). Calculated output size per channel: (-1 x -1). "
            "Output size is too small"
        ),
    ),
    "patches beyond the image": (
        lambda: F.unfold(IMAGES, 7),
        RuntimeError,
        (
            "Given input with spatial size (5, 5), kernel_size=(7, 7), dilation=(1, 1), "
            "padding=(0, 0), calculated shape of the array of sliding blocks as (-1, -1), but its "
            "components must be at least one."
        ),
    ),
    "stride of patches": (
        lambda: F.unfold(IMAGES, 3, stride=0),
        RuntimeError,
        "stride should be greater than zero, but got stride_height: 0 stride_width: 0",
    ),
    "patches of three axes": (
        lambda: F.unfold(IMAGES, (3, 3, 3)),
        RuntimeError,
        "It is expected kernel_size equals to 2, but got size 3",
    ),
    "patches of no image": (
        lambda: F.fold(one(27), (5, 5), 3),
        RuntimeError,
        (
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and "
            "non-zero dimensions for input, but got: [27]"
        ),
    ),
    "patches of another kernel": (
        lambda: F.fold(one(2, 26, 9), (5, 5), 3),
        RuntimeError,
        (
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, "
            "but got input.size(1)=26 and kernel_size=(3, 3)."
        ),
    ),
    "patches of another size": (
        lambda: F.fold(one(2, 27, 8), (5, 5), 3),
        RuntimeError,
        (
            "Given output_size=(5, 5), kernel_size=(3, 3), dilation=(1, 1), padding=(0, 0), "
            "stride=(1, 1), expected size of input's dimension 2 to match the calculated number of "
            "sliding blocks 3 * 3 = 9, but got input.size(2)=8."
        ),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused_in_words(name: str) -> None:
    call, kind, text = REFUSED[name]
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value).startswith(text)


def test_one_number_in_a_list_is_one_for_each_axis() -> None:
    assert F.conv2d(IMAGES, WEIGHT, stride=[2], padding=(1,)).shape == (2, 4, 3, 3)


def test_padding_same_puts_the_odd_zero_behind() -> None:
    x = fd.tensor([[[1.0, 2.0, 3.0]]])
    assert F.conv1d(x, one(1, 1, 2), padding="same").tolist() == [[[3.0, 5.0, 3.0]]]


def test_output_padding_may_be_below_the_dilation() -> None:
    y = F.conv_transpose2d(IMAGES, one(3, 4, 3, 3), output_padding=1, dilation=2)
    assert y.shape == (2, 4, 10, 10)


def test_the_node_is_called_as_in_pytorch() -> None:
    x = IMAGES.clone().requires_grad_()
    assert F.conv2d(x, WEIGHT).grad_fn.name() == "ConvolutionBackward0"
    assert F.conv_transpose2d(x, one(3, 4, 3, 3)).grad_fn.name() == "ConvolutionBackward0"
    assert F.unfold(x, 3).grad_fn.name() == "Im2ColBackward0"


def test_the_gradient_of_a_sum_is_no_array_of_its_own() -> None:
    # The gradient of sum() is one number that is expanded, with strides 0.
    x, w = IMAGES.clone().requires_grad_(), WEIGHT.clone().requires_grad_()
    F.conv2d(x, w).sum().backward()
    assert x.grad[0, 0].tolist()[0] == [4.0, 8.0, 12.0, 8.0, 4.0]
    assert w.grad.tolist() == fd.full((4, 3, 3, 3), 18.0).tolist()


def test_bool_images_are_refused() -> None:
    with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
        F.conv2d(IMAGES > 0, WEIGHT > 0)

"""Memory formats in ops, copies and gradients: strides as in PyTorch."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist as fd
import fastdist.nn.functional as F


def images(channels: int = 4) -> Any:
    numbers = fd.arange(2 * channels * 3 * 5, dtype=fd.float32).reshape(2, channels, 3, 5)
    return numbers.contiguous(memory_format=fd.channels_last)


def channels_with_gaps() -> Any:
    return images(8)[:, ::2]


def columns_with_gaps() -> Any:
    return images()[..., 1:]


def is_channels_last(tensor: Any) -> bool:
    """Return whether the memory has no gaps, and the channels have the smallest stride."""
    packed = tensor.permute(0, 2, 3, 1)
    return bool(packed.is_contiguous() and not tensor.is_contiguous())


KEPT: dict[str, Callable[[Any], Any]] = {
    "conv2d": lambda x: F.conv2d(x, fd.ones(6, 4, 3, 3), padding=1),
    "depthwise": lambda x: F.conv2d(x, fd.ones(4, 1, 3, 3), padding=1, groups=4),
    "conv_transpose2d": lambda x: F.conv_transpose2d(x, fd.ones(4, 6, 2, 2)),
    "max_pool2d": lambda x: F.max_pool2d(x, 2, 1, 1),
    "indices": lambda x: F.max_pool2d(x, 2, 1, 1, return_indices=True)[1],
    "avg_pool2d": lambda x: F.avg_pool2d(x, 2, 1, 1),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x, 2),
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(x, 2),
    "lp_pool2d": lambda x: F.lp_pool2d(x, 2, 2, 1),
    "nearest": lambda x: F.interpolate(x, scale_factor=2),
    "bilinear": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "area": lambda x: F.interpolate(x, size=(2, 2), mode="area"),
    "pad": lambda x: F.pad(x, (1, 1, 1, 1)),
    "reflect": lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"),
    "batch_norm": lambda x: F.batch_norm(x, fd.zeros(4), fd.ones(4), training=True),
    "group_norm": lambda x: F.group_norm(x, 2),
    "channel_shuffle": lambda x: F.channel_shuffle(x, 2),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x[..., :2, :4], 2),
    "cat": lambda x: fd.cat([x, x], 1),
    "cat of rows": lambda x: fd.cat([x, x], 3),
    "flip": lambda x: fd.flip(x, (1,)),
    "relu": F.relu,
    "add": lambda x: x + fd.ones(4, 1, 1),
    "clone": lambda x: x.clone(),
    "double": lambda x: x.double(),
    "zeros_like": fd.zeros_like,
    "copy.deepcopy": copy.deepcopy,
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
}


@pytest.mark.one_in(5)
@pytest.mark.parametrize("make", [images, columns_with_gaps, channels_with_gaps])
@pytest.mark.parametrize("name", KEPT)
def test_channels_last_goes_through_with_the_same_values(
    name: str, make: Callable[[], Any]
) -> None:
    x = make()
    found = KEPT[name](x)
    wanted = KEPT[name](x.contiguous())
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), 1e-5, 1e-6)
    assert is_channels_last(found) or (name == "copy.deepcopy" and found.stride() == x.stride())


@pytest.mark.parametrize("name", KEPT)
def test_c_order_stays_c_order(name: str) -> None:
    assert KEPT[name](images().contiguous()).is_contiguous()


def test_a_weight_in_channels_last_gives_a_result_in_it() -> None:
    weight = fd.ones(6, 4, 3, 3).to(memory_format=fd.channels_last)
    assert is_channels_last(F.conv2d(images().contiguous(), weight))


def test_channels_last_3d_goes_through_a_convolution() -> None:
    x = fd.ones(2, 4, 3, 3, 3).contiguous(memory_format=fd.channels_last_3d)
    found = F.conv3d(x, fd.ones(5, 4, 1, 1, 1))
    assert found.is_contiguous(memory_format=fd.channels_last_3d)


def test_stack_of_channels_last_is_of_such_images() -> None:
    assert all(is_channels_last(one) for one in fd.stack([images(), images()]))


def test_stack_along_channels_has_pytorchs_strides() -> None:
    assert fd.stack([images(), images()], 1).stride() == (120, 4, 1, 40, 8)


def test_cat_of_formats_that_differ_is_in_c_order() -> None:
    assert fd.cat([images(), images().contiguous()], 1).is_contiguous()


def test_gradients_pass_through_a_result_in_channels_last() -> None:
    x = images().requires_grad_()
    F.conv2d(F.max_pool2d(x, 2, 1), fd.ones(1, 4, 2, 2)).sum().backward()
    y = images().contiguous().requires_grad_()
    F.conv2d(F.max_pool2d(y, 2, 1), fd.ones(1, 4, 2, 2)).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), y.grad.numpy())


@pytest.mark.parametrize("function", [F.relu, fd.sum, lambda x: x * x, lambda x: F.pad(x, (1, 1))])
def test_grad_lies_as_its_leaf(function: Callable[[Any], Any]) -> None:
    x = images().requires_grad_()
    function(x).sum().backward()
    assert x.grad.stride() == x.stride()


def test_grad_of_a_leaf_with_gaps_is_in_c_order() -> None:
    x = channels_with_gaps().detach().requires_grad_()
    x.sum().backward()
    assert x.grad.is_contiguous()


def test_pickle_of_a_view_with_gaps_holds_no_more_than_it_sees() -> None:
    view = images(64)[:, :1]
    assert len(pickle.dumps(view)) < 1000


def test_pickle_of_expanded_memory_is_in_c_order() -> None:
    assert pickle.loads(pickle.dumps(fd.ones(1, 3).expand(2, 3))).is_contiguous()

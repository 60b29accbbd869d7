"""Sample calls of convolutions, transposed convolutions and patches; loops are the references."""

from __future__ import annotations

import itertools

import numpy as np

import fastdist as fd
from fastdist.ops.nn.convolution_sums import convolve, convolve_back, correlate
from fastdist.ops.nn.unfold import add_patches, lay_out_patches
from tests.ops.cases import F, case


def many(value, axes):
    return value if isinstance(value, tuple) else (value,) * axes


def products(x_shape, w_shape, grid, stride, padding, dilation, groups):
    """Yield (index in y, index in weight, index in x) for each product that a convolution sums."""
    outputs, inputs = w_shape[0] // groups, w_shape[1]
    for n, o in itertools.product(range(x_shape[0]), range(w_shape[0])):
        for c, place in itertools.product(range(inputs), np.ndindex(*grid)):
            for tap in np.ndindex(*w_shape[2:]):
                at = tuple(
                    q * s + k * d - p
                    for q, s, k, d, p in zip(place, stride, tap, dilation, padding)
                )
                if all(0 <= i < size for i, size in zip(at, x_shape[2:])):
                    yield (n, o, *place), (o, c, *tap), (n, o // outputs * inputs + c, *at)


def sizes_of_grid(x_shape, w_shape, stride, padding, dilation):
    axes = zip(x_shape[2:], w_shape[2:], stride, padding, dilation)
    return tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in axes)


def conv(stride=1, padding=0, dilation=1, groups=1):
    def numpys(x, w, b=None):
        batch = x if x.ndim == w.ndim else x[None]
        axes = w.ndim - 2
        how = [many(one, axes) for one in (stride, padding, dilation)]
        out = np.zeros((len(batch), len(w), *sizes_of_grid(batch.shape, w.shape, *how)))
        for y_at, w_at, x_at in products(batch.shape, w.shape, out.shape[2:], *how, groups):
            out[y_at] += w[w_at] * batch[x_at]
        if b is not None:
            out += b.reshape(-1, *(1,) * axes)
        return out if x.ndim == w.ndim else out[0]

    return numpys


def conv_transpose(stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    def numpys(x, w, b=None):
        batch = x if x.ndim == w.ndim else x[None]
        axes = w.ndim - 2
        how = [many(one, axes) for one in (stride, padding, dilation)]
        more = many(output_padding, axes)
        ends = zip(batch.shape[2:], w.shape[2:], *how, more)
        sizes = tuple((n - 1) * s - 2 * p + d * (k - 1) + 1 + e for n, k, s, p, d, e in ends)
        out = np.zeros((len(batch), w.shape[1] * groups, *sizes))
        for y_at, w_at, x_at in products(out.shape, w.shape, batch.shape[2:], *how, groups):
            out[x_at] += w[w_at] * batch[y_at]
        if b is not None:
            out += b.reshape(-1, *(1,) * axes)
        return out if x.ndim == w.ndim else out[0]

    return numpys


def same(x, w):
    before = [(k - 1) // 2 for k in w.shape[2:]]
    widths = [(b, k - 1 - b) for b, k in zip(before, w.shape[2:])]
    return conv()(np.pad(x, [(0, 0), (0, 0), *widths]), w)


def weight_sums(y, x):
    out = np.zeros((4, 2, 2, 2))
    how = ((1, 2), (1, 0), (1, 1), 2)
    for y_at, w_at, x_at in products(x.shape, out.shape, y.shape[2:], *how):
        out[w_at] += y[y_at] * x[x_at]
    return out


def columns(x, kernel, stride, padding, dilation):
    n, c = x.shape[:2]
    grid = sizes_of_grid(x.shape, (1, 1, *kernel), stride, padding, dilation)
    out = np.zeros((n, c, *kernel, *grid))
    for image, channel, tap, place in itertools.product(
        range(n), range(c), np.ndindex(*kernel), np.ndindex(*grid)
    ):
        at = [q * s + k * d - p for q, s, k, d, p in zip(place, stride, tap, dilation, padding)]
        if all(0 <= i < size for i, size in zip(at, x.shape[2:])):
            out[(image, channel, *tap, *place)] = x[(image, channel, *at)]
    return out.reshape(n, c * np.prod(kernel, dtype=int), -1)


def added(x, size, kernel, stride, padding, dilation):
    """Return the adjoint of `columns`: `columns` of numbered elements says where to add x."""
    channels = x.shape[1] // np.prod(kernel, dtype=int)
    names = np.arange(1, channels * np.prod(size) + 1).reshape(1, channels, *size)
    where = columns(names, kernel, stride, padding, dilation)[0].astype(int)
    out = np.zeros((len(x), names.size + 1))
    for image, numbers in zip(out, x):
        np.add.at(image, where, numbers)
    return out[:, 1:].reshape(len(x), channels, *size)


PAIR = ((2, 2), (2, 1), (1, 0), (1, 2))
CASES = {
    "conv1d": [
        case(fd.conv1d, conv(), (2, 2, 5), (3, 2, 3), (3,)),
        case(lambda x, w: F.conv1d(x, w, None, 2, 1, 2, 2), conv(2, 1, 2, 2), (2, 4, 6), (2, 2, 2)),
        case(lambda x, w: F.conv1d(x, w, padding="valid"), conv(), (3, 4), (2, 3, 1)),
        case(fd.conv1d, conv(), (0, 2, 5), (3, 2, 3)),
    ],
    "conv2d": [
        case(
            lambda x, w, b: F.conv2d(x, w, b, padding=1),
            conv(1, 1),
            (2, 2, 4, 3),
            (2, 2, 3, 3),
            (2,),
        ),
        case(
            lambda x, w: F.conv2d(x, w, None, (2, 1), (0, 2)),
            conv((2, 1), (0, 2)),
            (1, 2, 6, 3),
            (2, 2, 2, 2),
        ),
        case(lambda x, w: F.conv2d(x, w, groups=3), conv(groups=3), (2, 3, 3, 3), (6, 1, 2, 2)),
        case(fd.conv2d, conv(), (2, 2, 3, 2), (3, 2, 1, 1), (3,)),
        case(lambda x, w: F.conv2d(x, w, padding="same"), same, (1, 1, 4, 3), (2, 1, 2, 3)),
    ],
    "conv3d": [
        case(
            lambda x, w, b: F.conv3d(x, w, b, (1, 2, 1), (1, 0, 0)),
            conv((1, 2, 1), (1, 0, 0)),
            (1, 2, 3, 4, 2),
            (2, 2, 2, 2, 2),
            (2,),
        ),
    ],
    "conv_transpose1d": [
        case(fd.conv_transpose1d, conv_transpose(), (2, 2, 3), (2, 3, 3), (3,)),
        case(
            lambda x, w: F.conv_transpose1d(x, w, None, 3, 1, 2, 2, 2),
            conv_transpose(3, 1, 2, 2, 2),
            (4, 4),
            (4, 1, 3),
        ),
    ],
    "conv_transpose2d": [
        case(
            lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 1, (1, 0)),
            conv_transpose(2, 1, (1, 0)),
            (2, 2, 3, 2),
            (2, 2, 3, 3),
            (2,),
        ),
        case(fd.conv_transpose2d, conv_transpose(), (2, 2, 3, 2), (2, 3, 1, 1)),
    ],
    "conv_transpose3d": [
        case(
            lambda x, w: F.conv_transpose3d(x, w, None, (2, 1, 1)),
            conv_transpose((2, 1, 1)),
            (1, 2, 2, 2, 3),
            (2, 1, 2, 1, 2),
        ),
    ],
    "convolution": [
        case(
            lambda x, w, b: fd.convolution(x, w, b, [2], [1], [1], False, [0], 1),
            conv(2, 1),
            (2, 2, 5),
            (2, 2, 3),
            (2,),
        ),
        case(
            lambda x, w: fd.convolution(x, w, None, [2], [1], [1], True, [1], 1),
            conv_transpose(2, 1, 1),
            (2, 2, 3),
            (2, 2, 3),
        ),
    ],
    "convolve": [
        case(
            lambda x, w: convolve.public(x, w, None, (2, 3), (2, 1), (1, 0), (1, 1), 1),
            lambda x, w: conv((2, 1))(np.pad(x, [(0, 0), (0, 0), (1, 0), (0, 1)]), w),
            (2, 2, 3, 3),
            (2, 2, 2, 2),
        ),
    ],
    "convolve_back": [
        case(
            lambda y, w, b: convolve_back.public(y, w, b, (4, 3), (2, 1), (1, 0), (1, 1), 1),
            conv_transpose((2, 1), (1, 0), (2, 0)),
            (2, 2, 2, 2),
            (2, 2, 2, 2),
            (2,),
        ),
    ],
    "correlate": [
        case(
            lambda y, x: correlate.public(y, x, (2, 2), (1, 2), (1, 0), (1, 1), 2),
            weight_sums,
            (2, 4, 3, 1),
            (2, 4, 3, 3),
        ),
    ],
    "unfold": [
        case(
            lambda x: F.unfold(x, 2, (1, 2), (1, 0), (2, 1)),
            lambda x: columns(x, *PAIR),
            (2, 2, 3, 4),
        ),
        case(
            lambda x: F.unfold(x, (1, 2)),
            lambda x: columns(x[None], (1, 2), (1, 1), (0, 0), (1, 1))[0],
            (2, 2, 3),
        ),
    ],
    "fold": [
        case(
            lambda x: F.fold(x, (3, 4), 2, (1, 2), (1, 0), (2, 1)),
            lambda x: added(x, (3, 4), *PAIR),
            (2, 8, 4),
        ),
    ],
    "lay_out_patches": [
        case(
            lambda x: lay_out_patches.public(x, (2,), (3,), (1,), (0,), (2,)),
            lambda x: columns(x, (2,), (1,), (0,), (2,)),
            (2, 2, 5),
        ),
    ],
    "add_patches": [
        case(
            lambda x: add_patches.public(x, (5,), (2,), (3,), (1,), (0,), (2,)),
            lambda x: added(x, (5,), (2,), (1,), (0,), (2,)),
            (2, 4, 3),
        ),
    ],
}
COVERED_BY: dict[str, str] = {}

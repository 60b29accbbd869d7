"""Calls that read windows: pooling, convolutions, patches, grids, resized images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fastdist as fd
from fastdist.nn import functional as F

from .draw import Call, Draw, kind, with_backward


def _image(draw: Draw, axes: int, longest: int = 12, **how: Any) -> fd.Tensor:
    shape = [draw.number(1, longest) for _ in range(axes)]
    return draw.tensor(draw.number(1, 3), draw.number(1, 3), *shape, **how)


def _window(draw: Draw, axes: int) -> tuple[list[int], Any, int]:
    """Return a window's size, its stride and the padding."""
    size = [draw.wrong_or(draw.pick([1, 2, 3, 5, 17]), 0.05) for _ in range(axes)]
    step = draw.wrong_or(draw.pick([1, 2, 3, 9]), 0.05) if draw.chance(0.8) else None
    return size, step, draw.wrong_or(draw.pick([0, 0, 1, 2]), 0.05)


@kind
def max_pool(draw: Draw) -> Call:
    axes = draw.pick([1, 2, 3])
    x, window = _image(draw, axes, grad=0.6), _window(draw, axes)
    dilation, ceil, places = (
        draw.wrong_or(draw.pick([1, 1, 2, 5]), 0.1),
        draw.chance(0.4),
        draw.chance(0.5),
    )
    pool = getattr(F, f"max_pool{axes}d")
    return Call(
        with_backward(lambda: pool(x, *window, dilation, ceil_mode=ceil, return_indices=places), x)
    )


@kind
def average_pool(draw: Draw) -> Call:
    axes = draw.pick([1, 2, 3])
    x, window = _image(draw, axes, grad=0.6), _window(draw, axes)
    ceil, padded = draw.chance(0.4), draw.chance(0.5)
    pool = getattr(F, f"avg_pool{axes}d")
    run = with_backward(lambda: pool(x, *window, ceil_mode=ceil, count_include_pad=padded), x)
    return Call(run)


@kind
def adaptive_pool(draw: Draw) -> Call:
    axes, which = draw.pick([1, 2, 3]), draw.pick(["max", "avg"])
    x = _image(draw, axes, grad=0.6)
    outputs = [draw.wrong_or(draw.pick([1, 2, 3, 5, 40]), 0.05) for _ in range(axes)]
    return Call(with_backward(lambda: getattr(F, f"adaptive_{which}_pool{axes}d")(x, outputs), x))


@kind
def norm_pool(draw: Draw) -> Call:
    axes = draw.pick([1, 2])
    x, (size, step, _) = _image(draw, axes, grad=0.6), _window(draw, axes)
    window = size[0] if axes == 1 else size
    power = draw.pick([1.0, 2.0, 3.0])
    return Call(with_backward(lambda: getattr(F, f"lp_pool{axes}d")(x, power, window, step), x))


@kind
def fractional_pool(draw: Draw) -> Call:
    shape = draw.number(2, 12), draw.number(2, 12)
    x = draw.tensor(2, 2, *shape, dtype="f4", grad=1.0)
    samples = [0, 0.3, 0.999999, 1.0, 1.5, -0.5, np.nan, 1e9]
    given = fd.from_numpy(draw.numpy.choice(samples, (2, 2, 2)).astype("f4"))
    size = draw.wrong_or(draw.pick([1, 2, 3]), 0.1)
    outputs = draw.number(1, shape[0]), draw.number(1, shape[1])
    return Call(
        with_backward(
            lambda: F.fractional_max_pool2d(
                x, size, output_size=outputs, _random_samples=given, return_indices=True
            ),
            x,
        )
    )


@kind
def convolution(draw: Draw) -> Call:
    axes, groups = draw.pick([1, 2, 2, 3]), draw.pick([1, 1, 2, 3])
    inputs, outputs = groups * draw.number(1, 4), groups * draw.number(1, 4)
    transposed = draw.chance(0.3)
    shape = [draw.number(1, 14) for _ in range(axes)]
    x = draw.tensor(draw.number(1, 3), inputs, *shape, dtype="f4", grad=0.6)
    sizes = [draw.number(1, 4) for _ in range(axes)]
    ends = (inputs, outputs // groups) if transposed else (outputs, inputs // groups)
    weight = draw.tensor(*ends, *sizes, dtype="f4", grad=0.8)
    bias = draw.tensor(outputs + draw.pick([0] * 9 + [1]), dtype="f4") if draw.chance(0.5) else None
    step, padding, dilation = (draw.wrong_or(draw.number(low, 3), 0.05) for low in (1, 0, 1))
    more, groups = draw.pick([0, 0, 1, 2]), draw.wrong_or(groups, 0.05)
    if transposed:
        call = getattr(F, f"conv_transpose{axes}d")
        given: tuple[Any, ...] = (step, padding, more, groups, dilation)
    else:
        call, given = getattr(F, f"conv{axes}d"), (step, padding, dilation, groups)
    return Call(with_backward(lambda: call(x, weight, bias, *given), x, weight))


@kind
def patches(draw: Draw) -> Call:
    x = _image(draw, 2, 9, dtype="f4", grad=0.6)
    size = [draw.wrong_or(draw.number(1, 4), 0.05) for _ in range(2)]
    dilation, padding, step = (draw.wrong_or(draw.number(low, 3), 0.05) for low in (1, 0, 1))

    def run() -> fd.Tensor:
        columns = F.unfold(x, size, dilation, padding, step)
        return F.fold(columns, x.shape[2:], size, dilation, padding, step)

    return Call(with_backward(run, x))


@kind
def fold(draw: Draw) -> Call:
    size = [draw.number(1, 3), draw.number(1, 3)]
    columns = size[0] * size[1] * draw.number(1, 2) + draw.pick([0, 0, 1])
    x = draw.tensor(1, columns, draw.number(1, 30), dtype="f4", grad=0.3)
    outputs = [draw.wrong_or(draw.number(1, 9), 0.1) for _ in range(2)]
    given = draw.number(1, 2), draw.number(0, 2), draw.number(1, 3)
    return Call(with_backward(lambda: F.fold(x, outputs, size, *given), x))


@kind
def windows_of_a_tensor(draw: Draw) -> Call:
    x, dim = draw.tensor(*draw.lengths(2), grad=0.5), draw.wrong_or(draw.number(0, 1), 0.1)
    size, step = draw.wrong_or(draw.number(0, 10)), draw.wrong_or(draw.number(1, 5))
    return Call(with_backward(lambda: x.unfold(dim, size, step) * 2, x))


@kind
def grid_sample(draw: Draw) -> Call:
    axes, batch = draw.pick([2, 2, 3]), draw.number(1, 3)
    shape = [draw.number(1, 9) for _ in range(axes)]
    outputs = [draw.number(1, 12) for _ in range(axes)]
    x = draw.tensor(batch, draw.number(1, 3), *shape, dtype="f4", grad=0.6)
    points = draw.numpy.standard_normal((batch, *outputs, axes)).astype("f4")
    points *= np.float32(draw.pick([0.5, 1, 1, 3, 1e3, 1e10, 1e38]))
    if draw.chance(0.3):
        far = [np.nan, np.inf, -np.inf, 3e38, -3e38, 1, -1, 2**31, 2.0**63, -(2.0**63)]
        points.reshape(-1)[draw.random.randrange(points.size)] = draw.pick(far)
    grid = fd.from_numpy(draw.laid_out(points))
    if draw.chance(0.4):
        grid.requires_grad_()
    mode = draw.pick(["bilinear", "nearest", *(["bicubic"] if axes == 2 else [])])
    how = mode, draw.pick(["zeros", "border", "reflection"]), draw.chance(0.5)
    return Call(with_backward(lambda: F.grid_sample(x, grid, *how), x, grid))


@kind
def affine_grid(draw: Draw) -> Call:
    theta = draw.tensor(2, 2, 3, dtype="f4", grad=0.5)
    size = [draw.wrong_or(n, 0.1) for n in (2, 1, draw.number(1, 9), draw.number(1, 9))]
    aligned = draw.chance(0.5)
    return Call(with_backward(lambda: F.affine_grid(theta, size, align_corners=aligned), theta))


_MODES = (
    ("nearest", 1), ("nearest", 2), ("nearest", 3), ("linear", 1), ("bilinear", 2), ("bicubic", 2),
    ("trilinear", 3), ("area", 2), ("nearest-exact", 2),
)  # fmt: skip


@kind
def interpolate(draw: Draw) -> Call:
    mode, axes = draw.pick(_MODES)
    x = _image(draw, axes, 9, grad=0.6)
    how: dict[str, Any] = {}
    if draw.chance(0.5):
        how["size"] = [draw.wrong_or(draw.pick([1, 2, 3, 7, 30]), 0.05) for _ in range(axes)]
    else:
        how["scale_factor"] = draw.pick([0.1, 0.5, 0.99, 1.01, 1.5, 2, 3.3, 7, 0.0, -1.0, 1e30])
        how["recompute_scale_factor"] = draw.pick([None, True, False])
    if mode.endswith("linear") or mode == "bicubic":
        how["align_corners"] = draw.chance(0.5)
    if mode in ("bilinear", "bicubic") and draw.chance(0.3):
        how["antialias"] = True
    return Call(with_backward(lambda: F.interpolate(x, mode=mode, **how), x))


@kind
def padding(draw: Draw) -> Call:
    axes = draw.number(1, 3)
    x = draw.tensor(2, 2, *[draw.number(1, 6) for _ in range(axes)], grad=0.5)
    sides = [draw.wrong_or(draw.number(-4, 9), 0.03) for _ in range(2 * axes)]
    mode = draw.pick(["constant", "reflect", "replicate", "circular"])
    return Call(with_backward(lambda: F.pad(x, sides, mode=mode), x))


@kind
def pixels(draw: Draw) -> Call:
    factor, groups = draw.wrong_or(draw.number(1, 3)), draw.wrong_or(draw.number(1, 3))
    x = draw.tensor(1, draw.pick([1, 4, 6, 9, 12]), 6, 6, grad=0.5)
    calls: list[Callable[[], fd.Tensor]] = [
        lambda: F.pixel_shuffle(x, factor),
        lambda: F.pixel_unshuffle(x, factor),
        lambda: F.channel_shuffle(x, groups),
        lambda: F.local_response_norm(x, groups),
    ]
    return Call(with_backward(draw.pick(calls), x))


@kind
def attention(draw: Draw) -> Call:
    batch, heads, width = draw.number(1, 2), draw.number(1, 3), draw.pick([1, 4, 16, 33])
    queries, keys = draw.lengths(2)
    q = draw.tensor(batch, heads, queries, width, dtype="f4", grad=0.6)
    k = draw.tensor(batch, heads, keys, width, dtype="f4")
    v = draw.tensor(batch, heads, keys, draw.pick([width, width, 7]), dtype="f4")
    masks = [
        lambda: None,
        lambda: draw.tensor(queries, keys, dtype="f4"),
        lambda: fd.from_numpy(draw.numpy.random((batch, 1, queries, keys)) < 0.5),
    ]
    mask = draw.pick(masks)()
    causal = mask is None and draw.chance(0.4)
    attend = F.scaled_dot_product_attention
    return Call(with_backward(lambda: attend(q, k, v, mask, is_causal=causal), q))


@kind
def normalizations(draw: Draw) -> Call:
    batch, channels = draw.number(1, 6), draw.pick([1, 2, 4, 6, 64])
    x = draw.tensor(batch, channels, draw.length(), dtype="f4", grad=0.6)
    is_wrong = draw.chance(0.3)
    length = x.shape[2] + is_wrong
    scales = [draw.tensor(channels + is_wrong, dtype="f4") for _ in range(2)]
    groups = draw.wrong_or(1)
    calls: list[tuple[Callable[[], fd.Tensor], bool | None]] = [
        (lambda: F.batch_norm(x, None, None, *scales, training=True), None),
        (lambda: F.batch_norm(x, *scales), is_wrong),
        (lambda: F.group_norm(x, groups, *scales), is_wrong or groups < 1 or None),
        (lambda: F.layer_norm(x, (x.shape[2],), draw.tensor(length, dtype="f4")), is_wrong),
        (lambda: F.layer_norm(x, (length,)), is_wrong),
        (lambda: F.instance_norm(x, weight=scales[0], bias=scales[1]), None),
        (lambda: F.rms_norm(x, (x.shape[2],), draw.tensor(length, dtype="f4")), is_wrong),
    ]
    run, must_raise = draw.pick(calls)
    return Call(with_backward(run, x), must_raise)


@kind
def recurrent(draw: Draw) -> Call:
    steps, batch, inputs = draw.number(1, 6), draw.number(1, 4), draw.number(1, 9)
    hidden, layers = draw.pick([1, 3, 8, 33]), draw.number(1, 2)
    layer = draw.pick([fd.nn.LSTM, fd.nn.GRU, fd.nn.RNN])
    module = layer(inputs, hidden, layers, bidirectional=draw.chance(0.3))
    if draw.chance(0.4):
        name = draw.pick([name for name, _ in module.named_parameters()])
        shape = list(getattr(module, name).shape)
        axis = draw.random.randrange(len(shape))
        shape[axis] = max(1, shape[axis] + draw.pick([1, -1, 5]))
        getattr(module, name).data = fd.ones(*shape)
    x = draw.tensor(steps, batch, inputs, dtype="f4", grad=1.0)
    return Call(with_backward(lambda: module(x)[0], x))


@kind
def packed_sequences(draw: Draw) -> Call:
    from fastdist.nn.utils.rnn import PackedSequence, pad_packed_sequence

    sizes = sorted((draw.number(1, 4) for _ in range(draw.number(1, 5))), reverse=True)
    place = draw.random.randrange(len(sizes))
    sizes[place] = draw.wrong_or(sizes[place])
    count = max(1, sum(max(0, min(size, 4)) for size in sizes))
    data, first = draw.tensor(count, 3, dtype="f4"), min(max(sizes[0], 1), 9)
    order = draw.indices([first], first) if draw.chance(0.4) else None
    module, padded = draw.pick([fd.nn.LSTM, fd.nn.GRU])(3, 4), draw.chance(0.5)

    def run() -> fd.Tensor:
        given = PackedSequence(data, fd.tensor(sizes), order, order)
        found = pad_packed_sequence(given)[0] if padded else module(given)[0].data
        return found.detach()

    return Call(run)

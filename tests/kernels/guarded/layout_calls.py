"""Calls that create views, sizes and strides from numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fastdist as fd

from .draw import EXTREMES, Call, Draw, kind, with_backward

# Larger results are not read, since that would take seconds.
_READABLE = 10**5


def _read(found: Any) -> Any:
    """Return copies of the views in a result, so that all their memory is read."""
    if isinstance(found, (tuple, list)):
        return [_read(one) for one in found]
    return found.clone() if found.numel() <= _READABLE else None


def _reading(call: Callable[[], Any]) -> Callable[[], Any]:
    return lambda: _read(call())


@kind
def as_strided(draw: Draw) -> Call:
    axes = draw.number(0, 3)
    x = draw.tensor(draw.length() * draw.length(), dtype="f4", grad=0.3)
    sizes, strides = (
        [draw.wrong_or(draw.number(0, 9), 0.15) for _ in range(axes)] for _ in range(2)
    )
    offset = draw.wrong_or(draw.number(0, 5))

    def run() -> Any:
        view = x.as_strided(sizes, strides, offset)
        return view * 2 if view.numel() <= _READABLE else None

    return Call(with_backward(run, x))


@kind
def strides_of_numpy(draw: Draw) -> Call:
    array = np.zeros(4 * draw.length() * draw.length() + 50, draw.pick(["f4", "f8"]))
    shape = draw.number(1, 20), draw.number(1, 20)
    steps = [draw.number(0, 5) * array.itemsize for _ in range(2)]
    needed = sum((n - 1) * step for n, step in zip(shape, steps, strict=True)) + array.itemsize
    if needed > array.nbytes:
        return Call(lambda: None)
    start = (array.nbytes - needed) // array.itemsize
    x = fd.from_numpy(np.lib.stride_tricks.as_strided(array[start:], shape, steps))
    functional = fd.nn.functional
    calls: list[Callable[[], fd.Tensor]] = [
        x.exp, x.relu_, lambda: x.add_(1), lambda: x.softmax(1), lambda: x.sum(0), x.cos_,
        lambda: functional.layer_norm(x, (shape[1],)), lambda: functional.gelu(x),
        lambda: x.mul_(x), lambda: x.t().contiguous(), lambda: x.cumsum(1), lambda: x.sort(1),
    ]  # fmt: skip
    return Call(draw.pick(calls))


@kind
def memory_of_others(draw: Draw) -> Call:
    data = bytearray(range(draw.number(1, 200)))
    count, offset = draw.wrong_or(draw.number(-1, 9)), draw.wrong_or(draw.number(0, 9))
    dtype = draw.pick([fd.uint8, fd.float32, fd.int64, fd.bool])
    return Call(_reading(lambda: fd.frombuffer(data, dtype=dtype, count=count, offset=offset)))


@kind
def set_and_resize(draw: Draw) -> Call:
    x = draw.tensor(draw.length() * draw.length(), dtype="f4")
    view = x[x.numel() // 2 :]
    size, offset, stride = (draw.wrong_or(n, 0.5) for n in (5, 0, 1))
    calls: list[Callable[[], Any]] = [
        lambda: x.resize_(draw.pick([0, 1, 3, 10**4])),
        lambda: view.set_(x.untyped_storage(), offset, (size,), (stride,)),
        lambda: x.untyped_storage().resize_(draw.pick([0, 4, 10**6])),
        lambda: x.set_(fd.ones(2)),
        lambda: setattr(x, "data", fd.ones(2)),
        lambda: view.resize_(size) if size < 10 else None,
    ]
    change, untouched = draw.pick(calls), draw.chance(0.5)

    def run() -> Any:
        change()
        return None if untouched or view.numel() > _READABLE else view.add(1).isnan()

    return Call(run)


@kind
def views_by_numbers(draw: Draw) -> Call:
    shape = draw.lengths(3)
    x, dim, other = draw.tensor(*shape, grad=0.3), draw.wrong_or(1, 0.1), draw.wrong_or(2, 0.1)
    a, b = draw.wrong_or(draw.number(-3, 5)), draw.wrong_or(draw.number(-3, 5))
    calls: list[Callable[[], Any]] = [
        lambda: x.narrow(dim, a, b),
        lambda: x.select(dim, a),
        lambda: x.diagonal(a, dim, other),
        lambda: x.transpose(dim, other),
        lambda: x.movedim(a, b),
        lambda: x.permute(dim, a, b),
        lambda: x.unsqueeze(a),
        lambda: x.squeeze(a),
        lambda: x.flatten(a, b),
        lambda: x.unflatten(dim, (a, b)),
        lambda: x.view(a, b),
        lambda: x.reshape(a, -1),
        lambda: x.expand(a, *shape),
        lambda: x.unbind(a),
        lambda: x.swapaxes(a, b),
        lambda: x.view(draw.pick([fd.int32, fd.float64, fd.uint8])),
    ]
    return Call(with_backward(_reading(draw.pick(calls)), x))


@kind
def parts(draw: Draw) -> Call:
    x, dim = draw.tensor(*draw.lengths(2), grad=0.3), draw.wrong_or(1, 0.1)
    a, b = draw.wrong_or(draw.number(0, 5)), draw.wrong_or(draw.number(0, 5))
    calls: list[Callable[[], Any]] = [
        lambda: x.chunk(a, dim),
        lambda: x.split(a, dim),
        lambda: x.split([a, b], dim),
        lambda: x.tensor_split(a, dim),
        lambda: x.tensor_split((a, b), dim),
        lambda: fd.hsplit(x, (a, b)),
        lambda: fd.vsplit(x, a),
    ]
    few = max(abs(a), abs(b)) < 10**5
    return Call(with_backward(_reading(draw.pick(calls)), x) if few else lambda: None)


@kind
def written_views(draw: Draw) -> Call:
    rows, columns = draw.lengths(2)
    x, source = draw.tensor(rows, columns, dtype="f4"), draw.tensor(rows, dtype="f4")
    a, b, step = (draw.wrong_or(n) for n in (0, draw.number(0, 9), draw.number(1, 3)))
    square = draw.tensor(rows, columns, dtype="f4")
    calls: list[Callable[[], Any]] = [
        lambda: x.select_scatter(source, 1, a),
        lambda: x.slice_scatter(square, 1, a, b, step),
        lambda: x.diagonal_scatter(source, a),
        lambda: x.fill_diagonal_(1.0, wrap=draw.chance(0.5)),
        lambda: fd.diag_embed(source, a) if abs(a) < 10**3 else None,
        lambda: fd.diag(source, a) if abs(a) < 10**3 else None,
        lambda: x.as_strided_scatter(source, (rows,), (step,), a),
        lambda: fd.diagflat(source[:5], b) if abs(b) < 10**3 else None,
    ]
    return Call(draw.pick(calls))


@kind
def turned(draw: Draw) -> Call:
    x, dim = draw.tensor(*draw.lengths(2), grad=0.3), draw.wrong_or(1, 0.1)
    shift, turns, diagonal = draw.wrong_or(3), draw.wrong_or(1), draw.wrong_or(1)
    calls: list[Callable[[], Any]] = [
        lambda: x.roll(shift, dim),
        lambda: x.roll(shift),
        lambda: x.flip(dim),
        lambda: x.rot90(turns, (0, dim)),
        lambda: x.tril(diagonal),
        lambda: x.triu(diagonal),
    ]
    return Call(with_backward(draw.pick(calls), x))


@kind
def repeated_views(draw: Draw) -> Call:
    x = draw.tensor(draw.number(1, 5), draw.number(1, 5), grad=0.3)
    a, b = draw.wrong_or(draw.number(0, 3)), draw.wrong_or(draw.number(0, 3))
    calls: list[Callable[[], Any]] = [
        lambda: x.repeat(a, b),
        lambda: x.tile((a, b)),
        lambda: x.broadcast_to((a, *x.shape)),
        lambda: x.repeat_interleave(a, 1),
    ]
    is_large = abs(a * b) > _READABLE and abs(a * b) < 2**31
    return Call(lambda: None) if is_large else Call(with_backward(_reading(draw.pick(calls)), x))


@kind
def sizes(draw: Draw) -> Call:
    a, b, c = (draw.wrong_or(draw.number(0, 5), 0.4) for _ in range(3))
    calls: list[Callable[[], Any]] = [
        lambda: fd.zeros(a, b, c),
        lambda: fd.full((a, b), 1.0),
        lambda: fd.eye(a, b),
        lambda: fd.arange(a),
        lambda: fd.arange(a, b, c),
        lambda: fd.linspace(0, 1, a),
        lambda: fd.logspace(0, 1, a),
        lambda: fd.tril_indices(a, b, c),
        lambda: fd.triu_indices(a, b, c),
        lambda: fd.randperm(a),
        lambda: fd.randint(a, b, (5,)),
        lambda: fd.rand(a, b),
        lambda: fd.empty_strided((a, 2), (b, c)).zero_(),
        lambda: fd.hann_window(a),
        lambda: fd.fft.fftfreq(a),
        lambda: fd.ones(3).new_zeros(a, b),
        lambda: fd.combinations(fd.ones(5), a if abs(a) < 9 else 9),
        lambda: fd.sparse_coo_tensor(size=(a, b, c)),
        lambda: fd.signal.windows.gaussian(a),
    ]
    # Other numbers between these limits are valid, but the calls would need much time and memory.
    is_slow = any(10**4 < abs(n) < 2**33 for n in (a, b, c)) or abs(a) in EXTREMES[5:9]
    return Call(lambda: None) if is_slow else Call(draw.pick(calls))


@kind
def no_elements(draw: Draw) -> Call:
    shape = [draw.pick([0, 0, 1, 2, 3, 2**31, 2**20]) for _ in range(draw.number(1, 4))]
    if 0 not in shape:
        shape[draw.random.randrange(len(shape))] = 0
    name = draw.pick(["sum", "mean", "max", "argmax", "cumsum", "sort", "softmax", "prod", "norm",
                      "var", "any", "median", "mode", "logcumsumexp"])  # fmt: skip
    dim = draw.random.randrange(len(shape))

    def run() -> Any:
        found = getattr(fd, name)(fd.empty(*shape), dim)
        first = found[0] if isinstance(found, tuple) else found
        return found if first.numel() <= _READABLE else None

    kept = np.prod([n for i, n in enumerate(shape) if i != dim], dtype=object)
    return Call(run) if kept <= _READABLE else Call(lambda: None)


@kind
def outputs(draw: Draw) -> Call:
    count = draw.length() * draw.length()
    base = draw.tensor(2 * count + 5, dtype="f4")
    x = base[draw.number(0, 3) :][:count]
    out = base[draw.number(0, count) :][: count + draw.pick([0] * 5 + [1, -1])]
    places = fd.arange(count)
    calls: list[Callable[[], Any]] = [
        lambda: fd.add(x, 2.0, out=out),
        lambda: fd.mul(x, 2.0, out=out),
        lambda: fd.exp(x, out=out),
        lambda: fd.cumsum(x, 0, out=out),
        lambda: fd.gather(x, 0, places, out=out),
        lambda: fd.index_select(x, 0, places, out=out),
        lambda: fd.sort(x, out=(out, fd.empty(0, dtype=fd.long))),
        lambda: fd.clamp(x, 0, 1, out=out),
        lambda: fd.cat([x, x], out=out),
        lambda: fd.where(x > 0, x, x, out=out),
        lambda: out.copy_(x),
        lambda: fd.addmm(x[:9].reshape(3, 3), out[:9].reshape(3, 3), x[:9].reshape(3, 3),
                         out=base[:9].reshape(3, 3)),
    ]  # fmt: skip
    return Call(draw.pick(calls) if count >= 10 else lambda: None)

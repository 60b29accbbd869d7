"""Calls along rows: sorts, sums, products, spectra and optimizer steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fastdist as fd

from .draw import Call, Draw, kind, with_backward

functional = fd.nn.functional


@kind
def running(draw: Draw) -> Call:
    x, dim = draw.tensor(*draw.lengths(2), grad=0.5), draw.wrong_or(draw.number(0, 1), 0.1)
    name = draw.pick(["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp", "diff"])
    call = {"diff": lambda: fd.diff(x, draw.wrong_or(1), 1)}.get(name)
    return Call(with_backward(call or (lambda: getattr(fd, name)(x, dim)), x))


@kind
def largest(draw: Draw) -> Call:
    length = draw.length()
    x, name = draw.tensor(draw.length(), length, grad=0.5), draw.pick(["topk", "kthvalue"])
    k = draw.pick([0, 1, length, draw.wrong_or(draw.number(0, length))])
    is_wrong = k > length or k < (name == "kthvalue")
    return Call(with_backward(lambda: getattr(fd, name)(x, k, 1), x), is_wrong)


@kind
def orders(draw: Draw) -> Call:
    x, dim = draw.tensor(*draw.lengths(2), grad=0.5), draw.wrong_or(draw.number(0, 1), 0.1)
    name = draw.pick(["sort", "argsort", "median", "mode", "nanmedian", "max", "min", "msort",
                      "unique", "aminmax", "unique_consecutive", "argmax"])  # fmt: skip
    if name in ("msort", "unique", "unique_consecutive"):
        return Call(lambda: getattr(fd, name)(x.detach()))
    return Call(with_backward(lambda: getattr(fd, name)(x, dim=dim), x))


@kind
def quantiles(draw: Draw) -> Call:
    x = draw.tensor(*draw.lengths(2), grad=0.5)
    at = fd.tensor([0.5, draw.pick([0.0, 1.0, 0.3, -0.1, 1.1, float("nan"), float("inf")])])
    how = draw.pick(["linear", "lower", "higher", "midpoint", "nearest"])
    name, dim = draw.pick(["quantile", "nanquantile"]), draw.wrong_or(1, 0.1)
    return Call(
        with_backward(lambda: getattr(fd, name)(x, at.to(x.dtype), dim, interpolation=how), x)
    )


@kind
def counts(draw: Draw) -> Call:
    x, infinite = draw.tensor(draw.length() * 30), float("inf")
    low, high = draw.pick(
        [(0, 0), (0, 5), (-1e30, 1e30), (-3e38, 3e38), (5, 0), (0, 1e-40), (0, infinite),
         (float("nan"), 1)]
    )  # fmt: skip
    bins = draw.pick([1, 3, 100, 0, -1])
    calls: list[Callable[[], Any]] = [
        lambda: fd.histc(x, bins, low, high),
        lambda: fd.histogram(x, bins, range=(float(low), float(high))),
        lambda: fd.histogramdd(fd.stack([x, x], 1), [bins, 2]),
    ]
    return Call(draw.pick(calls))


@kind
def sums(draw: Draw) -> Call:
    x = draw.tensor(*draw.lengths(3), grad=0.5)
    dims = tuple(draw.wrong_or(draw.number(-3, 2), 0.1) for _ in range(draw.number(1, 2)))
    name = draw.pick(["sum", "mean", "amax", "var", "std", "logsumexp", "nansum", "amin"])
    keep = draw.chance(0.5)
    return Call(with_backward(lambda: getattr(fd, name)(x, dims, keepdim=keep), x))


@kind
def norms(draw: Draw) -> Call:
    x, dim = draw.tensor(*draw.lengths(2), grad=0.5), draw.wrong_or(1, 0.1)
    power = draw.pick([0.0, 1.0, 2.0, 3.0, -1.0, float("inf"), float("nan")])
    calls: list[Callable[[], Any]] = [
        lambda: fd.linalg.vector_norm(x, power, dim),
        lambda: fd.renorm(x, power, dim, 1.0),
        lambda: functional.normalize(x, power, dim),
        lambda: x.norm(power, dim),
    ]
    return Call(with_backward(draw.pick(calls), x))


@kind
def products(draw: Draw) -> Call:
    rows, inner, columns = draw.length(), draw.length(), draw.length()
    fits = not draw.chance(0.1)
    x = draw.tensor(rows, inner, dtype="f4", grad=0.6)
    y = draw.tensor(inner + (not fits), columns, dtype="f4", grad=0.6)
    added = draw.tensor(draw.pick([rows, 1]), draw.pick([columns, 1]), dtype="f4")
    calls: list[Callable[[], Any]] = [
        lambda: fd.mm(x, y),
        lambda: fd.addmm(added, x, y),
        lambda: functional.linear(x, y.t(), draw.tensor(columns, dtype="f4")),
        lambda: x @ y,
        lambda: fd.einsum("ij,jk->ki", x, y),
        lambda: fd.bmm(x[None].expand(3, -1, -1), y[None].expand(3, -1, -1)),
        lambda: fd.tensordot(x, y, 1),
        lambda: fd.mv(x, y[:, 0]),
        lambda: functional.bilinear(x, x, draw.tensor(2, inner, inner, dtype="f4")),
    ]
    place = draw.random.randrange(len(calls))
    is_square = place == len(calls) - 1
    return Call(with_backward(calls[place], x, y), False if fits or is_square else None)


@kind
def distances(draw: Draw) -> Call:
    x = draw.tensor(draw.length(), draw.pick([0, 1, 3, 20]), dtype="f4", grad=0.6)
    y = draw.tensor(draw.length(), draw.pick([3, 20]), dtype="f4")
    power = draw.pick([0.0, 1.0, 2.0, 3.0, float("inf")])
    return Call(with_backward(lambda: fd.cdist(x, y, p=power), x))


@kind
def spectra(draw: Draw) -> Call:
    x = draw.tensor(*draw.lengths(2), dtype="f4", grad=0.4)
    n, dim = draw.wrong_or(draw.number(1, 20)), draw.wrong_or(draw.number(-2, 1), 0.1)
    name = draw.pick(["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
    norm = draw.pick([None, "ortho", "forward"])
    if 20 < abs(n) < 2**31:
        n = 7
    calls: list[Callable[[], Any]] = [
        lambda: getattr(fd.fft, name)(x, n, dim, norm).abs(),
        lambda: fd.fft.fftn(x, (n, 3)).abs(),
        lambda: fd.fft.irfftn(x, (3, n)),
    ]
    return Call(with_backward(draw.pick(calls), x))


@kind
def short_time_spectra(draw: Draw) -> Call:
    x = draw.tensor(draw.number(1, 3), draw.length(), dtype="f4")
    size, hop, window = (draw.wrong_or(n, 0.2) for n in (draw.number(1, 16), draw.number(1, 8), 4))
    if max(size, hop, window) > 10**4:
        return Call(lambda: None)
    center = draw.chance(0.5)

    def run() -> Any:
        shape = fd.hann_window(window) if draw.chance(0.5) else None
        found = fd.stft(x, size, hop, window, shape, center=center, return_complex=True)
        return fd.istft(found, size, hop, window, shape, center=center)

    return Call(run)


@kind
def joined(draw: Draw) -> Call:
    rows, columns = draw.lengths(2)
    x, y = draw.tensor(rows, columns, dtype="f4", grad=0.5), draw.tensor(rows, columns, dtype="f4")
    z, dim = draw.tensor(rows, columns + 1, dtype="f4"), draw.wrong_or(draw.number(-2, 1))
    calls: list[Callable[[], Any]] = [
        lambda: fd.cat([x, y], dim),
        lambda: fd.cat([x, z], dim),
        lambda: fd.stack([x, y], dim),
        lambda: fd.hstack([x, z]),
        lambda: fd.vstack([x, y]),
        lambda: fd.column_stack([x, y]),
    ]
    return Call(with_backward(draw.pick(calls), x))


@kind
def pointwise_in_layouts(draw: Draw) -> Call:
    rows, columns = draw.lengths(2)
    x = draw.tensor(rows, columns, grad=0.4)
    shape = draw.pick([(rows, columns), (1, columns), (rows, 1), (columns,), (rows + 1, columns)])
    y = draw.tensor(*shape)
    name = draw.pick(["add", "mul", "maximum", "atan2", "pow", "eq", "where", "fmod", "lerp"])
    calls: dict[str, Callable[[], Any]] = {
        "where": lambda: fd.where(x > 1, x, y),
        "lerp": lambda: fd.lerp(x, y.to(x.dtype), 0.5),
    }
    run = calls.get(name) or (lambda: getattr(fd, name)(x, y))
    return Call(with_backward(run, x), None if shape == (rows + 1, columns) else False)


@kind
def whole_numbers(draw: Draw) -> Call:
    rows, columns = draw.lengths(2)
    x = draw.indices((rows, columns), 100, low=-100)
    by = fd.from_numpy(draw.numpy.choice([1, 2, -1, 3], (rows, columns)))
    shift = draw.indices((rows, columns), 64)
    calls: list[Callable[[], Any]] = [
        lambda: x // by, lambda: x % by, lambda: x << shift, lambda: x >> shift, x.sign, x.abs,
        lambda: x.cumsum(1), lambda: fd.gcd(x, by), lambda: x.prod(1), lambda: x.sort(1),
        lambda: x.to(fd.int8), lambda: x.to(fd.float32), lambda: fd.bitwise_not(x),
    ]  # fmt: skip
    return Call(draw.pick(calls), False)


@kind
def draws(draw: Draw) -> Call:
    x = draw.tensor(*draw.lengths(2), dtype="f4", grad=0.4)
    p = draw.pick([0.0, 0.5, 1.0, -0.1, 1.1, float("nan")])
    calls: list[Callable[[], Any]] = [
        lambda: functional.dropout(x, p),
        lambda: functional.feature_alpha_dropout(x, p),
        lambda: fd.bernoulli(x.detach() / 8),
        lambda: fd.poisson(x.detach()),
        lambda: x.detach().geometric_(p),
        lambda: x.detach().random_(draw.wrong_or(0), draw.wrong_or(9)),
        lambda: functional.gumbel_softmax(x, dim=1, hard=draw.chance(0.5)),
        lambda: functional.rrelu(x, training=True),
    ]
    return Call(with_backward(draw.pick(calls), x))


@kind
def optimiser_steps(draw: Draw) -> Call:
    shape = draw.lengths(2)
    weight = fd.nn.Parameter(draw.tensor(*shape, dtype="f4"))
    weight.grad = draw.tensor(*shape, dtype="f4")
    optim = fd.optim
    chosen = draw.pick(
        [optim.SGD, optim.Adam, optim.AdamW, optim.RMSprop, optim.Adagrad, optim.Adadelta,
         optim.Adamax, optim.NAdam, optim.RAdam, optim.ASGD, optim.Rprop]
    )  # fmt: skip
    made: Any = chosen([weight], lr=0.1, **({"momentum": 0.9} if chosen is optim.SGD else {}))
    is_changed = draw.chance(0.5)

    def run() -> fd.Tensor:
        made.step()
        if is_changed:
            for name, value in made.state[weight].items():
                if isinstance(value, fd.Tensor) and value.numel() > 1:
                    made.state[weight][name] = fd.ones(5 if value.numel() == 3 else 3)
        made.step()
        return weight.detach()

    return Call(run)


@kind
def mapped(draw: Draw) -> Call:
    shape = draw.lengths(2)
    x, dim = draw.tensor(*shape, dtype="f4"), draw.wrong_or(draw.number(0, 1))
    index = draw.indices((shape[0], 3), shape[1])
    calls: list[Callable[[], Any]] = [
        lambda: fd.vmap(lambda row: row.cumsum(0), dim)(x),
        lambda: fd.vmap(lambda row, at: row[at])(x, index),
        lambda: fd.vmap(lambda row, at: row.index_select(0, at))(x, index),
        lambda: fd.vmap(lambda row, at: row.scatter(0, at, 1.0))(x, index),
    ]
    return Call(draw.pick(calls))


@kind
def numbers_that_are_no_numbers(draw: Draw) -> Call:
    array = draw.numpy.choice([np.nan, np.inf, -np.inf, 3e38, 1e-45, 0.0], draw.lengths(2))
    x = fd.from_numpy(array.astype("f4"))
    calls: list[Callable[[], Any]] = [
        lambda: x.to(fd.int64), lambda: x.to(fd.uint8), lambda: x.sort(1), lambda: x.argmax(1),
        lambda: x.topk(1, 1), lambda: x.softmax(1), lambda: x.cummax(1), lambda: x.mode(1),
        lambda: x.histc(5, 0, 1), lambda: fd.searchsorted(x.sort(1)[0], x), x.unique,
        lambda: fd.multinomial(x.abs(), 1), lambda: x.median(1), x.bool,
    ]  # fmt: skip
    return Call(draw.pick(calls))

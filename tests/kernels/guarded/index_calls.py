"""Calls that read or write at given indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fastdist as fd
from fastdist.nn import functional as F

from .draw import Call, Draw, kind, outside, outside_both_ways, with_backward


@kind
def gather(draw: Draw) -> Call:
    shape, dim = draw.lengths(2), draw.number(0, 1)
    x = draw.tensor(*shape, grad=0.5)
    wanted = list(shape)
    wanted[dim] = draw.length()
    if draw.chance(0.2):
        wanted[1 - dim] = draw.number(1, shape[1 - dim])
    index = draw.indices(wanted, shape[dim], dtype=draw.index_dtype())
    run = with_backward(lambda: fd.gather(x, dim, index), x)
    return Call(run, outside(index, shape[dim]))


@kind
def take_along_dim(draw: Draw) -> Call:
    shape, dim = draw.lengths(2), draw.number(0, 1)
    x, index = draw.tensor(*shape, grad=0.5), draw.indices(shape, shape[dim])
    run = with_backward(lambda: fd.take_along_dim(x, index, dim), x)
    return Call(run, outside_both_ways(index, shape[dim]))


@kind
def scatter(draw: Draw) -> Call:
    shape, dim = draw.lengths(2), draw.number(0, 1)
    x, wanted = draw.tensor(*shape, dtype="f4"), list(shape)
    wanted[dim] = draw.number(1, 2 * shape[dim])
    grows = draw.chance(0.15)
    if grows:
        wanted[1 - dim] += draw.pick([1, 100])
    index = draw.indices(wanted, shape[dim])
    name = draw.pick(["scatter", "scatter", "scatter_add", "scatter_reduce", "scatter_reduce"])
    number = name == "scatter" and draw.chance(0.3)
    source = 3.0 if number else draw.tensor(*wanted, dtype="f4")
    how = (draw.pick(["sum", "prod", "mean", "amax", "amin"]),) if name == "scatter_reduce" else ()
    method = getattr(x, name + draw.pick(["", "_"]))
    return Call(lambda: method(dim, index, source, *how), outside(index, shape[dim]) or grows)


@kind
def index_select(draw: Draw) -> Call:
    shape, dim = draw.lengths(2), draw.number(0, 1)
    x = draw.tensor(*shape, grad=0.5)
    index = draw.indices([draw.length() * draw.pick([1, 20])], shape[dim], dtype=draw.index_dtype())
    run = with_backward(lambda: fd.index_select(x, dim, index), x)
    return Call(run, outside(index, shape[dim]))


@kind
def index_write(draw: Draw) -> Call:
    shape, dim = draw.lengths(2), draw.number(0, 1)
    count = draw.length() * draw.pick([1, 20])
    name = draw.pick(["index_add", "index_copy", "index_fill", "index_reduce"])
    dtype = "i8" if name in ("index_copy", "index_fill") else draw.index_dtype()
    x, wanted = draw.tensor(*shape, dtype="f4"), list(shape)
    wanted[dim] = count
    source, index = draw.tensor(*wanted, dtype="f4"), draw.indices([count], shape[dim], dtype=dtype)
    method = getattr(x, name + draw.pick(["", "_"]))
    if name == "index_fill":
        return Call(lambda: method(dim, index, 2.0), outside_both_ways(index, shape[dim]))
    how = (draw.pick(["prod", "mean", "amax", "amin"]),) if name == "index_reduce" else ()
    return Call(lambda: method(dim, index, source, *how), outside(index, shape[dim]))


@kind
def index_put(draw: Draw) -> Call:
    shape = (*draw.lengths(2), draw.number(1, 4))
    x, count = draw.tensor(*shape, dtype="f4"), draw.length() * draw.pick([1, 20])
    rows = draw.indices([count], shape[0], dtype=draw.index_dtype())
    columns = draw.indices([count], shape[1])
    values, accumulate = draw.tensor(count, shape[2], dtype="f4"), draw.chance(0.5)
    method = getattr(x, draw.pick(["index_put", "index_put_"]))
    is_wrong = outside_both_ways(rows, shape[0]) or outside_both_ways(columns, shape[1])
    return Call(lambda: method((rows, columns), values, accumulate=accumulate), is_wrong)


@kind
def many_places(draw: Draw) -> Call:
    """Draw enough indices that compiled loops are used, in matrices or along their rows."""
    rows, columns = draw.lengths(2)
    x, count = draw.tensor(rows, columns, dtype="f4", grad=0.5), draw.number(4096, 4200)
    i, j = draw.indices([count], rows, dtype=draw.index_dtype()), draw.indices([count], columns)
    is_pair = draw.chance(0.7)
    index = (i, j) if is_pair else (i,)
    is_wrong = outside_both_ways(i, rows) or (is_pair and outside_both_ways(j, columns))
    if draw.chance(0.5):
        return Call(with_backward(lambda: x[index], x), is_wrong)
    values, accumulate = draw.tensor(*(count, columns)[: 2 - is_pair], dtype="f4"), draw.chance(0.5)
    return Call(lambda: x.detach().index_put_(index, values, accumulate=accumulate), is_wrong)


@kind
def subscript(draw: Draw) -> Call:
    shape = draw.lengths(2)
    x, dim = draw.tensor(*shape, grad=0.5), draw.number(0, 1)
    index = draw.indices([draw.length()], shape[dim], dtype=draw.index_dtype())
    is_wrong = outside_both_ways(index, shape[dim])
    if draw.chance(0.4):
        return Call(lambda: x.detach().__setitem__((slice(None),) * dim + (index,), 5.0), is_wrong)
    return Call(with_backward(lambda: x[(slice(None),) * dim + (index,)], x), is_wrong)


@kind
def subscript_of_numbers(draw: Draw) -> Call:
    rows, columns = draw.lengths(2)
    x, at = draw.tensor(rows, columns), draw.wrong_or(draw.number(-columns, columns - 1))
    start, stop, step = (draw.wrong_or(draw.number(-9, 9)) for _ in range(3))
    step = max(step, 1)
    if draw.chance(0.5):
        return Call(lambda: x[:, at] + 0, not -columns <= at < columns)
    return Call(lambda: x[start:stop:step, 0] + 0, False)


@kind
def take_and_put(draw: Draw) -> Call:
    shape, wanted = draw.lengths(2), draw.lengths(2)
    x, count = draw.tensor(*shape, dtype="f4"), shape[0] * shape[1]
    index = draw.indices(wanted, count)
    values, accumulate = draw.tensor(*wanted, dtype="f4"), draw.chance(0.5)
    is_wrong = outside_both_ways(index, count)
    if draw.chance(0.5):
        return Call(lambda: fd.take(x, index), is_wrong)
    return Call(lambda: x.put_(index, values, accumulate=accumulate), is_wrong)


@kind
def masks(draw: Draw) -> Call:
    shape = draw.lengths(2)
    x, count = draw.tensor(*shape, dtype="f4"), shape[0] * shape[1]
    mask = fd.from_numpy(draw.laid_out(draw.numpy.random(shape) < 0.5))
    source = draw.tensor(draw.pick([count, max(1, count // 3)]), dtype="f4")
    name = draw.pick(["masked_scatter", "masked_scatter_", "masked_select", "masked_fill_"])
    given = (source,) if "scatter" in name else () if name == "masked_select" else (1.0,)
    is_short = "scatter" in name and int(mask.sum()) > source.numel()
    return Call(lambda: getattr(x, name)(mask, *given), is_short)


@kind
def halves(draw: Draw) -> Call:
    shape = draw.lengths(2)
    x = draw.tensor(*shape, dtype="f4").to(draw.pick([fd.float16, fd.bfloat16]))
    index = draw.indices([draw.length()], shape[0])
    rows = x[:1].expand(index.numel(), -1)
    return Call(
        lambda: [x.index_select(0, index), x.index_add(0, index, rows), x.softmax(1), x.cumsum(0)],
        outside(index, shape[0]),
    )


@kind
def embedding(draw: Draw) -> Call:
    rows, width = draw.length(), draw.pick([1, 3, 8, 64, 130])
    weight = draw.tensor(rows, width, dtype="f4", grad=0.6)
    index = draw.indices([draw.length(), draw.pick([1, 7, 40])], rows, dtype=draw.index_dtype())
    sparse, padding = draw.chance(0.3), draw.pick([None, None, 0, rows - 1, draw.wrong_or(0)])
    norm = draw.pick([None, None, 1.0])
    if norm is not None:
        weight = weight.detach()
    run = with_backward(lambda: F.embedding(index, weight, padding, norm, sparse=sparse), weight)
    wrong_padding = padding is not None and not -rows <= padding < rows
    return Call(run, outside(index, rows) or wrong_padding)


@kind
def embedding_bag(draw: Draw) -> Call:
    rows, width = draw.length(), draw.pick([1, 3, 8, 64])
    weight = draw.tensor(rows, width, dtype="f4", grad=0.6)
    count, dtype = draw.length() * draw.pick([1, 20]), draw.index_dtype()
    index = draw.indices([count], rows, dtype=dtype, wrong=0.4)
    starts = np.sort(draw.numpy.integers(0, count + 1, draw.length())).astype(dtype)
    starts[0] = 0
    limits, place = np.iinfo(dtype), draw.random.randrange(len(starts))
    starts[place] = min(max(draw.wrong_or(int(starts[place])), limits.min), limits.max)
    wide = starts.astype(object)
    wrong_starts = bool((np.diff(wide) < 0).any() or wide[0] != 0 or wide[-1] > count)
    mode, last = draw.pick(["sum", "mean", "max"]), draw.chance(0.2)
    weights = draw.tensor(count, dtype="f4") if mode == "sum" and draw.chance(0.3) else None
    sparse, offsets = mode != "max" and draw.chance(0.15), fd.from_numpy(starts)
    run = with_backward(
        lambda: F.embedding_bag(
            index, weight, offsets, mode=mode, include_last_offset=last, per_sample_weights=weights,
            sparse=sparse,
        ),
        weight,
    )  # fmt: skip
    return Call(run, True if wrong_starts else None if last else outside(index, rows))


@kind
def one_hot(draw: Draw) -> Call:
    classes = draw.length()
    index = draw.indices(draw.lengths(2), classes)
    if draw.chance(0.3):
        return Call(lambda: F.one_hot(index), None)
    return Call(lambda: F.one_hot(index, classes), outside(index, classes))


@kind
def bincount(draw: Draw) -> Call:
    index = draw.indices([draw.length() * 20], 50, wrong=0.4)
    weights = draw.tensor(index.numel()) if draw.chance(0.5) else None
    shortest = draw.pick([0, 0, 3, draw.wrong_or(7)])
    low, high = int(index.min()), int(index.max())
    is_wrong = low < 0 or shortest < 0 or high == 2**63 - 1
    may_be_too_much = max(high, shortest) > 10**7
    run = with_backward(lambda: fd.bincount(index, weights, shortest))
    return Call(run, True if is_wrong else None if may_be_too_much else False)


@kind
def max_unpool(draw: Draw) -> Call:
    axes, size = draw.pick([1, 2, 3]), draw.number(1, 3)
    shape = [draw.number(1, 6 if axes > 1 else 60) for _ in range(axes)]
    planes = [draw.number(1, 3), draw.number(1, 3)]
    x = draw.tensor(*planes, *shape, dtype="f4", grad=0.5)
    outputs = int(np.prod([n * size for n in shape]))
    index = draw.indices([*planes, *shape], outputs)
    run = with_backward(lambda: getattr(F, f"max_unpool{axes}d")(x, index, size), x)
    return Call(run, outside(index, outputs))


@kind
def sorted_places(draw: Draw) -> Call:
    rows, length = draw.length(), draw.length()
    edges = draw.tensor(rows, length)
    values = draw.tensor(rows + draw.pick([0] * 6 + [1]), draw.length())
    order = draw.indices([rows, length], length) if draw.chance(0.5) else None
    is_wrong = values.shape[0] != rows or (order is not None and outside(order, length))
    if draw.chance(0.2):
        return Call(lambda: fd.bucketize(values, edges[0]), False)
    return Call(lambda: fd.searchsorted(edges, values, sorter=order), is_wrong)


@kind
def sparse_entries(draw: Draw) -> Call:
    rows, columns = draw.lengths(2)
    count = draw.length() * draw.pick([1, 10])
    first = draw.indices([count], rows, wrong=0.3)
    second = draw.indices([count], columns, wrong=0.3)
    values, right = draw.tensor(count, dtype="f4"), draw.tensor(columns, 3, dtype="f4")

    def run() -> list[fd.Tensor]:
        made = fd.sparse_coo_tensor(fd.stack([first, second]), values, (rows, columns))
        found = [made.to_dense(), made.coalesce().values(), fd.sparse.mm(made, right)]
        return [*found, made.t().to_dense(), made.index_select(0, fd.tensor([0])).to_dense()]

    return Call(run, outside(first, rows) or outside(second, columns))


@kind
def sparse_rows(draw: Draw) -> Call:
    rows, count = draw.length(), draw.length() * draw.pick([1, 10])
    index, values = draw.indices([1, count], rows, wrong=0.4), draw.tensor(count, 5, dtype="f4")
    optimizer = draw.pick([fd.optim.SGD, fd.optim.SparseAdam, fd.optim.Adagrad])
    weight = fd.nn.Parameter(draw.tensor(rows, 5, dtype="f4"))

    def run() -> fd.Tensor:
        weight.grad = fd.sparse_coo_tensor(index, values, (rows, 5))
        optimizer([weight], lr=0.1).step()
        return weight.detach()

    return Call(run, outside(index, rows))


@kind
def places_of_numbers(draw: Draw) -> Call:
    rows, columns = draw.lengths(2)
    index = draw.indices([draw.length()], rows * columns)
    shape = draw.wrong_or(rows), columns
    x, size = draw.tensor(draw.number(0, 6)), draw.number(0, 4)
    calls: list[Callable[[], Any]] = [
        lambda: fd.unravel_index(index, shape),
        lambda: fd.combinations(x, size),
        lambda: fd.combinations(x, size, with_replacement=True),
        lambda: fd.cartesian_prod(x, x),
        lambda: fd.sparse_coo_tensor(index[None], draw.tensor(index.numel())).coalesce().values(),
    ]
    return Call(draw.pick(calls))

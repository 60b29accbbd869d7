"""Calls of losses, whose targets are class numbers, and calls with matrices that select rows."""

from __future__ import annotations

import numpy as np

import fastdist as fd
from fastdist.nn import functional as F

from .draw import Call, Draw, WrongResult, kind, outside, with_backward

REDUCTIONS = ("none", "mean", "sum")


def _scores_and_classes(draw: Draw) -> tuple[fd.Tensor, fd.Tensor, int]:
    rows, classes = draw.lengths(2)
    shape = draw.pick([(rows, classes), (rows, classes), (rows, classes, 3), (classes,)])
    scores = draw.tensor(*shape, dtype="f4", grad=0.6)
    target = draw.indices(() if len(shape) == 1 else (shape[0], *shape[2:]), classes)
    return scores, target, classes


@kind
def nll_loss(draw: Draw) -> Call:
    scores, target, classes = _scores_and_classes(draw)
    ignored, reduction = draw.pick([-100, -100, 0, -1, classes]), draw.pick(REDUCTIONS)
    weight = draw.tensor(classes, dtype="f4") if draw.chance(0.4) else None
    array = target.numpy()
    is_wrong = bool((((array < 0) | (array >= classes)) & (array != ignored)).any())
    run = with_backward(
        lambda: F.nll_loss(scores, target, weight, ignore_index=ignored, reduction=reduction),
        scores,
    )
    return Call(run, is_wrong)


@kind
def cross_entropy(draw: Draw) -> Call:
    scores, target, classes = _scores_and_classes(draw)
    ignored, smoothing = draw.pick([-100, -100, 0, -1, classes]), draw.pick([0.0, 0.0, 0.1])
    weight = draw.tensor(classes, dtype="f4") if draw.chance(0.3) else None
    array, reduction = target.numpy(), draw.pick(REDUCTIONS)
    is_wrong = bool((((array < 0) | (array >= classes)) & (array != ignored)).any())
    run = with_backward(
        lambda: F.cross_entropy(
            scores, target, weight, ignore_index=ignored, label_smoothing=smoothing,
            reduction=reduction,
        ),
        scores,
    )  # fmt: skip
    return Call(run, is_wrong)


@kind
def margins_of_classes(draw: Draw) -> Call:
    rows, classes = draw.length(), draw.length()
    scores = draw.tensor(rows, classes, dtype="f4", grad=0.6)
    if draw.chance(0.5):
        one = draw.indices([rows], classes)
        return Call(
            with_backward(lambda: F.multi_margin_loss(scores, one), scores), outside(one, classes)
        )
    several = draw.indices([rows, classes], classes, low=-1)
    run = with_backward(lambda: F.multilabel_margin_loss(scores, several), scores)
    return Call(run, outside(several, classes, -1))


@kind
def adaptive_softmax(draw: Draw) -> Call:
    layer = fd.nn.AdaptiveLogSoftmaxWithLoss(4, 12, [3, 7])
    x, target = draw.tensor(draw.length(), 4, dtype="f4"), draw.indices([draw.length()], 12)
    fits = x.shape[0] == target.shape[0]
    return Call(lambda: layer(x, target).output + 0, outside(target, 12) or not fits)


@kind
def ctc_loss(draw: Draw) -> Call:
    steps, batch, classes = draw.number(1, 20), draw.number(1, 5), draw.number(2, 9)
    longest = draw.number(0, 8)
    scores = draw.tensor(steps, batch, classes, dtype="f4", grad=0.6)
    target = draw.indices([batch, longest], classes, wrong=0.4)
    inputs, targets = (
        draw.numpy.integers(0, steps + 1, batch),
        draw.numpy.integers(0, longest + 1, batch),
    )
    for lengths in (inputs, targets):
        place = draw.random.randrange(batch)
        lengths[place] = draw.wrong_or(int(lengths[place]), 0.2)
    blank = draw.pick([0, 0, 0, classes - 1, draw.wrong_or(0)])
    reduction, zero = draw.pick(REDUCTIONS), draw.chance(0.5)
    is_wrong = not 0 <= blank < classes or bool(
        ((inputs < 0) | (inputs > steps)).any() or ((targets < 0) | (targets > longest)).any()
    )
    given = fd.from_numpy(inputs), fd.from_numpy(targets)
    run = with_backward(
        lambda: F.ctc_loss(
            scores, target, *given, blank=blank, reduction=reduction, zero_infinity=zero
        ),
        scores,
    )
    return Call(run, True if is_wrong else None if outside(target, classes) else False)


@kind
def ctc_loss_of_joined_targets(draw: Draw) -> Call:
    steps, batch, classes = draw.number(5, 20), draw.number(1, 5), draw.number(2, 9)
    scores = draw.tensor(steps, batch, classes, dtype="f4", grad=1.0)
    targets = draw.numpy.integers(0, 5, batch)
    total = max(0, int(targets.sum()) + draw.pick([0, 0, -1, 1, 5]))
    place = draw.random.randrange(batch)
    targets[place] = draw.wrong_or(int(targets[place]), 0.2)
    target = draw.indices([total], classes, wrong=0.3)
    inputs, given = fd.full((batch,), steps), fd.from_numpy(targets)
    return Call(with_backward(lambda: F.ctc_loss(scores, target, inputs, given), scores))


@kind
def multinomial(draw: Draw) -> Call:
    rows, length = draw.length(), draw.length()
    weights, replacement = draw.tensor(rows, length, dtype="f4"), draw.chance(0.5)
    count = draw.wrong_or(draw.pick([1, length, 5 * length]), 0.2)
    too_many = count < 1 or (not replacement and count > length)

    def run() -> fd.Tensor:
        found = fd.multinomial(weights, count, replacement=replacement)
        if int(found.min()) < 0 or int(found.max()) >= length:
            raise WrongResult("a drawn class is outside")
        return found

    return Call(run, True if too_many else None if count > 10**4 else False)


@kind
def lu_pivots(draw: Draw) -> Call:
    size = draw.number(1, 9)
    factors = draw.tensor(size, size, dtype="f4")
    pivots = draw.indices([size], size + 1, low=1, dtype="i4")
    right, adjoint = draw.tensor(size, draw.number(1, 4), dtype="f4"), draw.chance(0.3)
    is_wrong = outside(pivots, size + 1, 1)
    if draw.chance(0.5):
        return Call(lambda: fd.lu_unpack(factors, pivots), is_wrong)
    solve = fd.linalg.lu_solve
    return Call(lambda: solve(factors, pivots, right, adjoint=adjoint), is_wrong)


@kind
def matrices(draw: Draw) -> Call:
    rows, columns, power = draw.number(0, 7), draw.number(0, 7), draw.pick([-1, 0, 1, 5, 2**40])
    x = draw.tensor(rows, columns, dtype="f4")
    square = draw.tensor(rows, rows, dtype="f4") + fd.eye(rows) * 20
    scales = draw.tensor(draw.number(0, 7), dtype="f4")
    calls = [
        lambda: fd.linalg.matrix_power(square, power),
        lambda: fd.linalg.qr(x, draw.pick(["reduced", "complete", "r"])),
        lambda: fd.linalg.householder_product(x, scales),
        lambda: fd.ormqr(x, scales, draw.tensor(rows, 2, dtype="f4")),
        lambda: fd.linalg.svd(x, full_matrices=draw.chance(0.5)),
        lambda: fd.linalg.lstsq(x, draw.tensor(rows, 2, dtype="f4")).solution,
        lambda: fd.linalg.solve_triangular(square, x, upper=draw.chance(0.5)),
        lambda: fd.linalg.vander(scales, N=draw.wrong_or(3)),
        lambda: fd.cholesky_solve(x, square),
        lambda: fd.linalg.pinv(x),
        lambda: fd.linalg.cross(x, x, dim=draw.wrong_or(0)),
        lambda: fd.block_diag(x, square),
    ]
    return Call(draw.pick(calls))


@kind
def repeated(draw: Draw) -> Call:
    count = draw.length()
    x, repeats = draw.tensor(count, 3, grad=0.5), draw.numpy.integers(0, 5, count)
    place = draw.random.randrange(count)
    repeats[place] = draw.wrong_or(int(repeats[place]))
    extra = draw.chance(0.1)
    given = fd.from_numpy(np.append(repeats, 1) if extra else repeats)
    is_wrong = bool((repeats < 0).any()) or (extra and count != 1)
    too_many = bool((repeats > 10**6).any()) or extra
    run = with_backward(lambda: x.repeat_interleave(given, 0), x)
    return Call(run, True if is_wrong else None if too_many else False)


@kind
def segments(draw: Draw) -> Call:
    count, reduction = draw.length(), draw.pick(["sum", "mean", "max", "min", "prod"])
    x = draw.tensor(count, *draw.pick([(), (3,)]), dtype="f4", grad=0.5)
    cuts = np.sort(draw.numpy.integers(0, count + 1, draw.number(0, 5)))
    offsets = np.concatenate([[0], cuts, [count]]).astype(np.int64)
    lengths, unsafe = np.diff(offsets), draw.chance(0.3)
    by_offsets = draw.chance(0.4)
    chosen = offsets if by_offsets else lengths
    place = draw.random.randrange(len(chosen))
    chosen[place] = draw.wrong_or(int(chosen[place]), 0.4)
    given = {"offsets" if by_offsets else "lengths": fd.from_numpy(chosen)}
    run = with_backward(lambda: fd.segment_reduce(x, reduction, axis=0, unsafe=unsafe, **given), x)
    wide = lengths.astype(object)
    is_wrong = bool((wide < 0).any()) or int(wide.sum()) != count
    return Call(run, None if unsafe or by_offsets else is_wrong)

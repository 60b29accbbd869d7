"""Ops on few numbers: softmax, norms, losses and reductions, on 64 to 10,000 numbers.

Each op is timed without grad and, as far as it is differentiable, with grad, with backward and with
second gradients.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from bench import everyday, interpreted
from bench.harness import Case, Row, Stopwatch, chosen, compare, peer_torch, stopwatch

SIZES = ((1, 64), (8, 8), (8, 64), (64, 64), (1, 1000), (10, 1000))
_BATCH = 16
BOUND = 0.8
"""The ratio to PyTorch's time that each case must keep."""


class Op(NamedTuple):
    """An op: its statement, the operands that require grad, and how often it is differentiable."""

    statement: str
    leaves: str = "x"
    order: int = 2


OPS = {
    "softmax": Op("x.softmax(-1)"),
    "log_softmax": Op("x.log_softmax(-1)"),
    "layer_norm": Op("F.layer_norm(x, shape, weight, bias)", "x weight bias"),
    "cross_entropy": Op("F.cross_entropy(x, target)"),
    "rms_norm": Op("F.rms_norm(x, shape, weight)", "x weight"),
    "logsumexp": Op("x.logsumexp(-1)"),
    "var": Op("x.var(-1)"),
    "norm": Op("x.norm(dim=-1)"),
    "argmax": Op("x.argmax(-1)", order=0),
    "cumsum": Op("x.cumsum(-1)", order=1),
    "batch_norm": Op("F.batch_norm(planes, None, None, row, row2, True)", "planes row row2"),
    "batch_norm with running numbers": Op(
        "F.batch_norm(planes, mean, variance, row, row2, True)", "planes row row2", order=1
    ),
    "batch_norm by running numbers": Op(
        "F.batch_norm(planes, mean, variance, row, row2)", "planes row row2", order=1
    ),
    "batch_norm of a matrix": Op(
        "F.batch_norm(cells, None, None, columns, columns2, True)", "cells columns columns2"
    ),
    "group_norm": Op("F.group_norm(planes, 2, row, row2)", "planes row row2"),
    "instance_norm": Op("F.instance_norm(planes, weight=row, bias=row2)", "planes row row2"),
}
STAGES = ("without grad", "with grad", "backward", "second gradients")


def run(rounds: int) -> list[Row]:
    """Compare the ops at each size and stage; ours against torch."""
    import fastdist

    torch = peer_torch()
    others = (*interpreted.cases(fastdist, torch), *everyday.cases(fastdist, torch))
    return compare([*cases(fastdist, torch), *others], rounds)


def cases(fastdist: Any, torch: Any) -> list[Case]:
    """Return the chosen cases."""
    found = []
    for name, op in OPS.items():
        for size in SIZES:
            for stage, title in enumerate(STAGES):
                title = f"{name} {size[0]}x{size[1]}, {title}"
                if (stage and stage > op.order + 1) or (stage and not op.order):
                    continue
                if chosen() in title:
                    ours = _compiled(_work(fastdist, op, size, stage))
                    peer = stopwatch(_work(torch, op, size, stage)) if torch else None
                    found.append(Case(title, ours, peer, BOUND))
    return found


def _compiled(work: Callable[[], object]) -> Stopwatch:
    """Return the stopwatch of a function of fastdist, after its loops are compiled.

    Note    NumPy computes until a thread has compiled the loops; both yield bitwise equal results
    """
    importlib.import_module("fastdist.kernels.cpu.jit.compiler")
    for _ in range(3):
        work()
        for thread in threading.enumerate():
            if thread.name == "fastdist-compiler":
                thread.join()
    return stopwatch(work)


def _work(library: Any, op: Op, size: tuple[int, int], stage: int) -> Callable[[], object]:
    names = {**_operands(library, size), "F": library.nn.functional}
    function: Callable[[], Any] = eval(f"lambda: {op.statement}", names)
    if not stage:
        return function
    leaves = [names[name].requires_grad_() for name in op.leaves.split()]
    if stage == 1:
        return function
    g = library.ones_like(function().detach()) * 0.7
    if stage == 2:

        def backward() -> None:
            for leaf in leaves:
                leaf.grad = None
            function().backward(g)

        return backward
    grad, away = library.autograd.grad, library.full_like(leaves[0].detach(), 0.3)
    away.add_(leaves[0].detach())
    g.requires_grad_()

    def second() -> object:
        first = grad(function(), leaves[0], g, create_graph=True)[0]
        return grad(first, [leaves[0], g], away, allow_unused=True)

    return second


def _operands(library: Any, size: tuple[int, int]) -> dict[str, Any]:
    import numpy as np

    rng, (rows, length) = np.random.default_rng(0), size

    def draw(*shape: int) -> Any:
        return library.tensor(rng.standard_normal(shape).astype(np.float32))

    # `planes` has as many elements as x: 2 samples of 4 channels, in 2 groups for group_norm.
    samples, channels = (2, 4)
    planes = (samples, channels, max(rows * length // (samples * channels), 2))
    return {
        "x": draw(rows, length),
        "weight": draw(length),
        "bias": draw(length),
        "target": library.tensor(rng.integers(0, length, rows)),
        "shape": (length,),
        "planes": draw(*planes),
        "mean": draw(channels),
        "variance": draw(channels).square(),
        "cells": draw(_BATCH, max(rows * length // _BATCH, 2)),
        "columns": draw(max(rows * length // _BATCH, 2)),
        "columns2": draw(max(rows * length // _BATCH, 2)),
        "row": draw(channels),
        "row2": draw(channels),
    }

"""Small programs with constant results, called works, which are run under disturbances.

A work makes everything that it uses, except SHARED, and returns numbers. It is run once
undisturbed. Then it is interrupted, run while other works run, short of memory or during a fork. It
must return the same numbers each time.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist import func, nn
from fastdist.graph.modes import tls
from fastdist.nn import functional as F
from fastdist.utils.checkpoint import checkpoint

Work = Callable[[], list[Any]]
WORKS: dict[str, Work] = {}
# The input that all threads share, and that no work changes.
SHARED = fd.from_numpy(np.linspace(-1.0, 1.0, 24, dtype=np.float32).reshape(4, 6))


def work(function: Work) -> Work:
    """Register a work under its name."""
    WORKS[function.__name__] = function
    return function


def weight(*shape: int) -> fd.Tensor:
    count = int(np.prod(shape))
    values = np.cos(np.arange(count, dtype=np.float32)).reshape(shape)
    return fd.from_numpy(values).requires_grad_()


def model() -> Any:
    made = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))
    with fd.no_grad():
        for one in made.parameters():
            one.copy_(weight(*one.shape))
    return made


@work
def forward() -> list[Any]:
    x = SHARED * 2 + 1
    found = [x.softmax(1), x.sort(1)[0], (x @ x.t()).relu(), x.cumsum(1), x[:, [0, 2]], x.std(1)]
    return [one.tolist() for one in found]


@work
def in_place() -> list[Any]:
    x = SHARED.clone()
    x.add_(1).mul_(2)
    x[1] = 0.5
    x.index_add_(0, fd.tensor([0, 2]), SHARED[:2])
    x[:, 1].clamp_(min=0)
    return x.tolist()  # type: ignore[no-any-return]


@work
def backward() -> list[Any]:
    x, y = weight(6, 5), weight(5)
    loss = F.cross_entropy((SHARED @ x + y).tanh(), fd.tensor([0, 3, 1, 4]))
    loss.backward()
    return [loss.item(), x.grad.tolist(), y.grad.tolist()]


@work
def second_derivatives() -> list[Any]:
    x = weight(4)
    (first,) = fd.autograd.grad((x**3).sum() + x.prod(), x, create_graph=True)
    (second,) = fd.autograd.grad(first.sum(), x)
    return [first.tolist(), second.tolist()]


@work
def hooks_and_functions() -> list[Any]:
    class Doubled(fd.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.saved_tensors[0]

    x = weight(5)
    y = Doubled.apply(x)
    y.register_hook(lambda g: g + 1)
    checkpoint(lambda z: (z * z).exp(), y, use_reentrant=False).sum().backward()
    return x.grad.tolist()  # type: ignore[no-any-return]


def _training(make: Callable[[Any], Any]) -> list[Any]:
    net = model()
    optimizer = make(list(net.parameters()))
    for _ in range(2):
        optimizer.zero_grad()
        (net(SHARED) ** 2).mean().backward()
        optimizer.step()
    return [one.tolist() for one in net.parameters()]


@work
def steps_of_sgd() -> list[Any]:
    return _training(lambda given: fd.optim.SGD(given, 0.1, momentum=0.9))


@work
def steps_of_adam() -> list[Any]:
    return _training(lambda given: fd.optim.Adam(given, 0.1))


@work
def steps_of_adagrad() -> list[Any]:
    return _training(lambda given: fd.optim.Adagrad(given, 0.1, foreach=False))


@work
def save_and_load() -> list[Any]:
    file = io.BytesIO()
    fd.save({"weights": model().state_dict(), "epoch": 3}, file)
    file.seek(0)
    found = fd.load(file)
    return [found["epoch"], found["weights"]["0.weight"].tolist()]


@work
def transforms() -> list[Any]:
    x = SHARED
    per_row = func.vmap(func.grad(lambda row: (row.sin() ** 2).sum()))(x)
    value, pull = func.vjp(lambda z: z.exp().sum(0), x)
    return [per_row.tolist(), value.tolist(), pull(value)[0].tolist()]


@work
def forward_mode() -> list[Any]:
    x = SHARED
    value, tangent = func.jvp(lambda z: z.exp().sum(0), (x,), (x.cos(),))
    hessian = func.hessian(lambda z: (z**3).sum())(x[0])
    return [value.tolist(), tangent.tolist(), hessian.tolist()]


@work
def modes_in_modes() -> list[Any]:
    x, found = weight(4, 4), []
    with fd.no_grad():
        found.append((x @ x).requires_grad)
        with fd.enable_grad():
            found.append((x @ x).requires_grad)
    with fd.autocast("cpu", dtype=fd.bfloat16):
        found.append(str((x @ x).dtype))
    with fd.inference_mode():
        found.append((x + 1).is_inference())
    with fd.device("cpu"):
        (x * 2).sum().backward()
    return [*found, x.grad.tolist()]


@work
def anomaly_mode() -> list[Any]:
    x = weight(4, 4)
    with fd.autograd.set_detect_anomaly(True):
        (x * 2).sum().backward()
    return [x.grad.tolist()]


@work
def default_dtype() -> list[Any]:
    before = fd.get_default_dtype()
    try:
        fd.set_default_dtype(fd.float64)
        return [str(fd.ones(2).dtype), fd.linspace(0, 1, 3).tolist()]
    finally:
        fd.set_default_dtype(before)


@work
def draws_of_a_seed() -> list[Any]:
    generator = fd.Generator().manual_seed(7)
    drawn = fd.randn(5, generator=generator), fd.randperm(6, generator=generator)
    return [one.tolist() for one in drawn]


@work
def layers() -> list[Any]:
    x = SHARED.reshape(2, 2, 6)
    convolved = F.conv1d(x, weight(3, 2, 3)).detach()
    pooled, places = F.max_pool1d(x, 2, return_indices=True)
    normed = F.layer_norm(x, (6,))
    found = [convolved, pooled, places, normed, F.embedding(fd.tensor([2, 0]), SHARED)]
    return [one.tolist() for one in found]


@work
def sparse() -> list[Any]:
    made = fd.sparse_coo_tensor([[0, 1, 0], [1, 0, 1]], [1.0, 2.0, 3.0], (4, 4))
    return [made.coalesce().values().tolist(), fd.sparse.mm(made, SHARED).tolist()]


# Works that cannot run in several threads at once. Two of them change the state of the process. The
# third uses forward mode, whose levels must end in reverse order of their start, as in PyTorch.
ONE_AT_A_TIME = frozenset({"anomaly_mode", "default_dtype", "forward_mode"})


def state() -> dict[str, Any]:
    """Return the state of this thread and of the process that no disturbance may change."""
    return {
        "grad": fd.is_grad_enabled(),
        "inference": fd.is_inference_mode_enabled(),
        "autocast": (fd.is_autocast_enabled("cpu"), str(fd.get_autocast_dtype("cpu"))),
        "default dtype": str(fd.get_default_dtype()),
        "default device": str(fd.get_default_device()),
        "anomaly": fd.is_anomaly_enabled(),
        "inline pass": tls.inline_pass,
        "deterministic": fd.are_deterministic_algorithms_enabled(),
        "batched": (fd.ones(2) + 1).tolist(),
    }


def alike(one: Any, other: Any) -> bool:
    """Return whether two results agree, except for rounding.

    After a Ctrl-C, ops may use the general path from then on, which can change the last bits.
    """
    if isinstance(one, (list, tuple)):
        same = isinstance(other, (list, tuple)) and len(one) == len(other)
        return same and all(map(alike, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return one == pytest.approx(other, rel=1e-4, abs=1e-6)  # type: ignore[no-any-return]
    return one == other  # type: ignore[no-any-return]

"""Second derivatives of norms and losses: kernels and expressions give the same values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.dispatch.op import OPS
from fastdist.dispatch.structured import StructuredOp
from tests.house.test_twins import ON_THE_CPU
from tests.ops.cases import F

TARGET = np.array([3, 0, 1, 2, 3, 1])
CALLS: dict[str, tuple[tuple[int, ...], Callable[[Any, Any], Any]]] = {
    "softmax": ((6, 4), lambda x, w: x.softmax(-1)),
    "log_softmax": ((6, 4), lambda x, w: x.log_softmax(1)),
    "logsumexp": ((6, 2, 2), lambda x, w: x.logsumexp((1, 2))),
    "var": ((6, 4), lambda x, w: x.var(-1, keepdim=True)),
    "norm": ((6, 4), lambda x, w: x.norm(dim=-1)),
    "cross_entropy": ((6, 4), lambda x, w: F.cross_entropy(x, fd.tensor(TARGET))),
    "losses": ((6, 4), lambda x, w: F.cross_entropy(x, fd.tensor(TARGET), reduction="none")),
    "layer_norm": ((6, 4), lambda x, w: F.layer_norm(x, (4,), w, None, 0.1)),
    "rms_norm": ((6, 4), lambda x, w: F.rms_norm(x, (4,), w, 0.1)),
    "group_norm": ((6, 4, 3), lambda x, w: F.group_norm(x, 2, w, None, 0.1)),
    "instance_norm": ((2, 4, 5), lambda x, w: F.instance_norm(x, weight=w, eps=0.1)),
    "batch_norm": ((6, 4, 3), lambda x, w: F.batch_norm(x, None, None, w, None, True, eps=0.1)),
    "a matrix": ((6, 4), lambda x, w: F.batch_norm(x, None, None, w, None, True, eps=0.1)),
}
LARGE = np.array([[0.0, 30.0, -2.0, 1.0], [50.0, 0.0, 0.0, 0.0]])


def second_gradients(name: str, *, recorded: bool) -> list[np.ndarray]:
    shape, call = CALLS[name]
    drawn = np.random.default_rng(5)
    x, w = (fd.tensor(drawn.standard_normal(one)).requires_grad_() for one in (shape, 4))
    out = call(x, w)
    g, q = (fd.tensor(drawn.standard_normal(one)).requires_grad_() for one in (out.shape, shape))
    (slope,) = fd.autograd.grad(out, [x], g, create_graph=True)
    assert type(slope.grad_fn).__name__ != "MulBackward0"
    found = fd.autograd.grad(slope, [x, g, w], q, create_graph=recorded, allow_unused=True)
    return [one.detach().numpy() for one in found if one is not None]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", CALLS)
def test_kernels_and_expressions_make_the_same_second_gradients(name: str) -> None:
    by_kernels = second_gradients(name, recorded=False)
    by_expressions = second_gradients(name, recorded=True)
    assert len(by_kernels) >= 2
    for one, other in zip(by_kernels, by_expressions, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def third_gradient(call: Callable[[Any, Any], Any], x: np.ndarray, *others: Any) -> Any:
    """Return x as a leaf, and a second gradient with a graph; `others` are its directions."""
    g, q, w = others
    leaf = fd.tensor(x).requires_grad_()
    (slope,) = fd.autograd.grad(call(leaf, w), [leaf], g, create_graph=True)
    (second,) = fd.autograd.grad(slope, [leaf], q, create_graph=True)
    return leaf, second


@pytest.mark.parametrize("name", [name for name in CALLS if name != "var"])
def test_third_gradients_are_those_of_differences(name: str) -> None:
    shape, call = CALLS[name]
    drawn = np.random.default_rng(6)
    x, way, step = drawn.standard_normal(shape), drawn.standard_normal(shape), 1e-5
    w = fd.tensor(drawn.standard_normal(4))
    g = fd.tensor(drawn.standard_normal(call(fd.tensor(x), w).shape)).requires_grad_()
    q, a = (fd.tensor(drawn.standard_normal(shape)) for _ in range(2))
    leaf, second = third_gradient(call, x, g, q, w)
    (found,) = fd.autograd.grad((second * a).sum(), [leaf])
    ends = [third_gradient(call, x + side * step * way, g, q, w)[1] for side in (1, -1)]
    differences = ((ends[0] - ends[1]) * a).sum().item() / (2 * step)
    assert (found.numpy() * way).sum() == pytest.approx(differences, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp"])
def test_second_gradients_keep_the_digits_of_small_shares(name: str) -> None:
    call = CALLS["softmax" if name == "softmax" else name][1]
    found = []
    for dtype in (fd.float32, fd.float64):
        x = fd.tensor(LARGE, dtype=dtype).requires_grad_()
        shaped = x.reshape(2, 2, 2) if name == "logsumexp" else x
        out = call(shaped, None)
        g = fd.arange(out.numel()).to(dtype).reshape(out.shape) + 1
        (slope,) = fd.autograd.grad(out, [x], g, create_graph=True)
        q = fd.tensor([[1.0, 2.0, -1.0, 3.0], [2.0, -1.0, 0.5, 1.0]], dtype=dtype)
        (second,) = fd.autograd.grad(slope, [x], q)
        found.append(second.numpy().astype(float))
    np.testing.assert_allclose(found[0], found[1], rtol=2e-4, atol=1e-25)


def known(x: Any, w: Any) -> Any:
    return F.batch_norm(x, w.detach(), w.detach(), w, None, False, eps=0.1)


def entropy(x: Any, w: Any) -> Any:
    return F.cross_entropy(x, fd.arange(len(x), device=x.device) % x.shape[1])


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_ops_without_kernels_for_devices_serve_the_cpu_alone(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ops = [op for op in OPS.values() if isinstance(op, StructuredOp) and op.kernel in ON_THE_CPU]
    assert len(ops) == len(ON_THE_CPU)
    called = set()

    def note(op: Any) -> Callable[..., Any]:
        plan = op._plan
        return lambda *given: called.add(op.kernel) or plan(*given)

    for op in ops:
        monkeypatch.setattr(op, "_plan", note(op))
    for name, (shape, call) in {**CALLS, "known": ((6, 4, 3), known)}.items():
        if name == "norm" and device == "meta":
            continue  # its gradient depends on values, which meta lacks
        # No other test uses 23 rows: a layout's plan is cached, so it would not be made again.
        x = fd.ones(23, *shape[1:], device=device).requires_grad_()
        w = fd.ones(4, device=device).requires_grad_()
        out = (entropy if name in ("cross_entropy", "losses") else call)(x, w)
        (slope,) = fd.autograd.grad(out.sum(), [x], create_graph=True)
        assert slope.device.type == device
    assert called == (ON_THE_CPU if device == "cpu" else set())

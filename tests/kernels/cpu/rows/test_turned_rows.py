"""Rows of few numbers along any axes have the results of rows along the last axes."""

from __future__ import annotations

from typing import Any

import numpy as np

import fastdist as fd
from fastdist.kernels.cpu.small.kernels import small_gradients
from tests.kernels.cpu.test_small import EXTREMES, facts_of, ordinary, shortened
from tests.properties import in_one_test

SHAPED = ("softmax", "log_softmax")
CALLS = {
    "softmax": lambda x, dim: x.softmax(dim),
    "log_softmax": lambda x, dim: x.log_softmax(dim),
    "logsumexp": lambda x, dim: x.logsumexp(dim),
    "var": lambda x, dim: x.var(dim),
    "std": lambda x, dim: x.std(dim),
    "norm": lambda x, dim: x.norm(dim=dim),
}
NUMBERS = {"var": (1.0,), "std": (1.0,), "norm": (2.0,)}


def both(name: str, x: Any, dim: int) -> tuple[Any, Any]:
    """Return the result along dim, and the result along the last axis of a turned copy."""
    call, turned = CALLS[name], x.movedim(dim, -1).contiguous()
    found = call(turned, -1)
    return call(x, dim), found.movedim(-1, dim) if name in SHAPED else found


def require_same(name: str, ours: Any, theirs: Any) -> None:
    """Require equal bits; norms along other axes are sums of columns, which round differently."""
    np.testing.assert_allclose(ours, theirs, rtol=1e-6 if name == "norm" else 0.0)


@in_one_test("name", CALLS)
@in_one_test("dtype", [fd.float32, fd.float64])
def test_other_axes_give_the_bits_of_the_last_one(name: str, dtype: Any) -> None:
    for numbers in (EXTREMES, EXTREMES.T, np.stack([EXTREMES, EXTREMES[::-1] * 0.3])):
        x = fd.tensor(np.ascontiguousarray(numbers), dtype=dtype)
        for dim in range(x.ndim - 1):
            ours, theirs = both(name, x, dim)
            assert ours.is_contiguous() and ours.dtype is dtype
            require_same(name, ours, theirs)


@in_one_test("name", [name for name in CALLS if name != "std"])
def test_gradients_along_other_axes_have_the_bits_of_the_last_one(name: str) -> None:
    drawn = np.random.default_rng(7).standard_normal((3, 5, 4)).astype(np.float32)
    for dim in (0, 1):
        x, y = (fd.tensor(drawn, requires_grad=True) for _ in range(2))
        ours, theirs = both(name, x, dim)[0], both(name, y, dim)[1]
        g = fd.tensor(np.resize(drawn[::-1], ours.shape))
        ours.backward(g)
        theirs.backward(g)
        require_same(name, x.grad, y.grad)


@in_one_test("name", CALLS)
def test_small_kernels_serve_other_axes(name: str) -> None:
    x = np.random.default_rng(8).standard_normal((3, 5, 4)).astype(np.float32)
    for axes in ((0,), (1,), (0, 1), (0, 2)):
        if name in SHAPED and len(axes) > 1:
            continue
        kept = tuple(n for i, n in enumerate(x.shape) if i not in axes)
        shape = x.shape if name in SHAPED else kept
        full = f"{'nn.softmax' if name in SHAPED else 'reduce.reductions'}.{name}"
        numbers = (axes[0] if name in SHAPED else axes, *NUMBERS.get(name, ()))
        found = shortened(full, [x], [(shape, np.float32)], numbers)
        assert found is not None
        (expected,) = ordinary(full, [x], [(shape, np.float32)], numbers)
        np.testing.assert_allclose(found[0], expected, rtol=2e-6, atol=1e-6)
        if name != "std":
            assert small_gradients(full, facts_of([x], shape, np.float32, numbers))

"""Few elements are moved by index tables: same bits as the composite, and only for pure moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.ops.unrecorded_moves import by_table
from tests.properties import Properties

F = fd.nn.functional
X = fd.tensor(np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32))
IMAGE = X.reshape(1, 1, 4, 6)

CALLS: dict[str, Callable[..., Any]] = {
    "pad reflect": lambda x: F.pad(x.reshape(1, 1, 4, 6), (1, 2, 0, 3), "reflect"),
    "pad replicate": lambda x: F.pad(x.reshape(1, 4, 6), (1, -2), mode="replicate"),
    "pad circular": lambda x: F.pad(x.reshape(1, 4, 6), (6, 0), mode="circular"),
    "repeat": lambda x: x.repeat(2, 1, 3),
    "tile": lambda x: x.tile(3),
    "repeat_interleave": lambda x: x.repeat_interleave(3, 1),
    "repeat_interleave flat": lambda x: x.repeat_interleave(2),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x.reshape(1, 4, 2, 3), 2),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x.reshape(1, 4, 6), 2),
    "channel_shuffle": lambda x: F.channel_shuffle(x.reshape(1, 4, 6), 2),
    "nearest": lambda x: F.interpolate(x.reshape(1, 1, 4, 6), scale_factor=1.5),
    "nearest-exact": lambda x: F.interpolate(x.reshape(1, 4, 6), 7, mode="nearest-exact"),
    # No tables for these: functions that compute, or that insert other numbers.
    "bilinear": lambda x: F.interpolate(x.reshape(1, 1, 4, 6), (3, 7), mode="bilinear"),
    "pad value": lambda x: F.pad(x, (1, 2), value=2.0),
    "pad zero": lambda x: F.pad(x, (1, 2)),
    "counts": lambda x: (x[0] != 0).long().repeat_interleave(),
}
DTYPES = (fd.float32, fd.float64, fd.int64, fd.bool, fd.bfloat16, fd.complex64)


def observed(call: Callable[..., Any], x: fd.Tensor) -> Any:
    """Return the result of a call under a profile, which makes ops use their composites."""
    with fd.profiler.profile():
        return call(x)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", CALLS)
def test_a_table_moves_as_the_composite_does(name: str, properties: Properties) -> None:
    call = CALLS[name]
    for dtype in DTYPES if name != "bilinear" else DTYPES[:2]:
        with properties(str(dtype)):
            x = X.to(dtype)
            if "nearest" in name and dtype in (fd.int64, fd.bool, fd.complex64):
                continue
            wanted = observed(call, x)
            for _ in range(4):  # the third call uses a table
                found = call(x)
                assert found.dtype is wanted.dtype and found.stride() == wanted.stride()
                assert fd.equal(found, wanted) and not found.requires_grad
                found.zero_()  # must not change a table or x
            assert fd.equal(x, X.to(dtype))
    with properties("a gradient"):
        x = X.clone().requires_grad_()
        if call(x).requires_grad:
            wanted = fd.autograd.grad(observed(call, x).square().sum(), x)[0]
            found = fd.autograd.grad(call(x).square().sum(), x)[0]
            assert fd.equal(found, wanted)
        with fd.no_grad():
            assert not call(x).requires_grad and fd.equal(call(x), call(X))


def test_other_layouts_lists_and_errors_are_left_to_the_composite(properties: Properties) -> None:
    for _ in range(3):
        with properties("another order in memory"):
            assert fd.equal(X.t().repeat(1, 2), X.repeat(2, 1).t())
        with properties("no elements, no axes"):
            assert fd.zeros(0, 3).repeat(2, 2).shape == (0, 6)
            assert fd.tensor(3.0).repeat(2).tolist() == [3, 3]
        with properties("lists"):
            assert X.repeat([2, 1]).shape == (8, 6)
        with properties("a view"):
            assert F.interpolate(IMAGE, size=(4, 6)).shape == IMAGE.shape
        with properties("equal arguments of other classes"):
            assert X[:1].repeat_interleave(1).shape == (6,)
            with pytest.raises(TypeError):
                X.repeat_interleave(1.0)  # type: ignore[arg-type]
        with properties("wrong sizes"), pytest.raises(RuntimeError, match="should be less than"):
            F.pad(IMAGE, (6, 0, 0, 0), "reflect")
        with properties("arguments that are missing or unknown"):
            for call in (F.pad, F.interpolate, F.pixel_shuffle):
                with pytest.raises((TypeError, ValueError), match=call.__name__):
                    call(IMAGE, colour=1)
        with properties("a batch"):
            assert fd.equal(fd.vmap(lambda x: x.repeat(2))(X), X.repeat(1, 2))
        with properties("a tangent"):
            _, tangent = fd.func.jvp(lambda x: x.repeat(2, 1), (X,), (X * 2,))
            assert fd.equal(tangent, X.repeat(2, 1) * 2)


def test_a_table_is_made_at_the_second_call() -> None:
    calls: list[fd.Tensor] = []

    def turned(x: fd.Tensor, times: int) -> fd.Tensor:
        calls.append(x)
        return x.flip(0).clone()

    served = by_table()(turned)
    x = X[:3].clone()
    found = [served(x, 1) for _ in range(4)]
    assert len(calls) == 2 and all(fd.equal(one, x.flip(0)) for one in found)
    assert fd.equal(served(x, 2), x.flip(0)) and len(calls) == 3

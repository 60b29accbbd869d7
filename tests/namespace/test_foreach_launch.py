"""Launches over lists of tensors: bit for bit what one call for each tensor gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.namespace import foreach_launch
from tests.properties import in_one_test

RNG = np.random.default_rng(0)
SHAPES = [(7,), (3, 5), (), (0,), (40,)]


def lists(dtype: Any, count: int = 3) -> list[list[Any]]:
    return [
        [
            fd.tensor(RNG.uniform(0.2, 2.0, shape).tolist()).to(dtype).reshape(shape)
            for shape in SHAPES
        ]
        for _ in range(count)
    ]


# The op, how many lists it takes after the first, further arguments, options.
CALLS: dict[str, tuple[str, int, tuple[Any, ...], dict[str, Any]]] = {
    "add lists": ("add_", 1, (), {"alpha": 0.3}),
    "sub lists": ("sub_", 1, (), {}),
    "mul lists": ("mul_", 1, (), {}),
    "div lists": ("div_", 1, (), {}),
    "add number": ("add_", 0, (0.1,), {}),
    "sub number": ("sub_", 0, (0.1,), {}),
    "mul number": ("mul_", 0, (0.1,), {}),
    "div number": ("div_", 0, (3,), {}),
    "addcmul": ("addcmul_", 2, (), {"value": 0.7}),
    "addcdiv": ("addcdiv_", 2, (), {"value": 0.7}),
    "lerp": ("lerp_", 1, (0.3,), {}),
    "lerp far": ("lerp_", 1, (0.8,), {}),
}


@in_one_test("call", list(CALLS))
@in_one_test("dtype", ["float32", "float64"])
def test_results_are_those_of_single_calls(call: str, dtype: str) -> None:
    name, count, more, options = CALLS[call]
    first, *others = lists(getattr(fd, dtype))
    expected = [one.clone() for one in first]
    for one, *row in zip(expected, *others[:count], strict=True):
        getattr(one, name)(*row, *more, **options)
    assert getattr(fd, f"_foreach_{name}")(first, *others[:count], *more, **options) is first
    for one, other in zip(first, expected, strict=True):
        assert one.numpy().tobytes() == other.numpy().tobytes()
        assert one._version == 1


def test_numbers_for_each_tensor() -> None:
    a, *_ = lists(fd.float32)
    expected = [one * number for one, number in zip(a, [1, 2, 3.5, 4, 5], strict=True)]
    fd._foreach_mul_(a, [1, 2, 3.5, 4, 5])
    assert all(fd.equal(one, other) for one, other in zip(a, expected, strict=True))


def test_what_a_launch_declines_is_called_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    launched: list[bool] = []
    real = foreach_launch.launch

    def watched(*args: Any) -> bool:
        launched.append(real(*args))
        return launched[-1]

    monkeypatch.setattr("fastdist.namespace.foreach.launch", watched)
    base = fd.arange(6.0)
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        fd._foreach_add_([base[0:3], base[3:6]], [base[1:4], base[2:5]])
    assert base.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    weight = fd.ones(2, requires_grad=True)
    results = [fd.zeros(2), fd.zeros(2)]
    fd._foreach_add_(results, [weight, weight * 2])
    (results[0] + results[1]).sum().backward()
    assert weight.grad.tolist() == [3.0, 3.0]
    mixed = [fd.ones(2), fd.ones(2, dtype=fd.float64)]
    fd._foreach_mul_(mixed, 3.0)
    fd._foreach_mul_([fd.ones(2, 3).t(), fd.ones(3, 2).t()], 3.0)
    fd._foreach_add_([fd.ones(2, dtype=fd.int64)] * 2, 1)
    assert launched == [False] * 5
    fd._foreach_mul_([fd.ones(2), fd.ones(3)], 3.0)
    assert launched[-1]
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        fd._foreach_add_([weight, weight], 1.0)
    with fd.no_grad():
        fd._foreach_add_([weight, fd.ones(3)], 1.0)
    assert launched[-1] and weight.tolist() == [2.0, 2.0]

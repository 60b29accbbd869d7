"""Launches over lists of tensors equal one call for each tensor bit for bit."""

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


# By name: (the op, the number of lists after the first, the other arguments, keyword arguments).
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


CALLS |= {f"{name} in place": (f"{name}_", 0, (), {}) for name in foreach_launch.UNARY}
CALLS |= {
    "maximum lists": ("maximum_", 1, (), {}),
    "minimum lists": ("minimum_", 1, (), {}),
    "clamp_min number": ("clamp_min_", 0, (0.9,), {}),
    "clamp_max number": ("clamp_max_", 0, (0.9,), {}),
    "pow 2": ("pow_", 0, (2,), {}),
    "pow 2.5": ("pow_", 0, (2.5,), {}),
    "copy": ("copy_", 1, (), {}),
    "zero": ("zero_", 0, (), {}),
}


def single(name: str, one: Any, *row: Any, **options: Any) -> Any:
    """Return the result of a call for one tensor; `maximum_` and `minimum_` are not methods."""
    if name in ("maximum_", "minimum_"):
        return one.copy_(getattr(fd, name[:-1])(one, *row))
    return getattr(one, name)(*row, **options)


@in_one_test("call", list(CALLS))
@in_one_test("dtype", ["float32", "float64"])
def test_results_are_those_of_single_calls(call: str, dtype: str) -> None:
    name, count, more, options = CALLS[call]
    first, *others = lists(getattr(fd, dtype))
    expected = [one.clone() for one in first]
    for one, *row in zip(expected, *others[:count], strict=True):
        single(name, one, *row, *more, **options)
    assert getattr(fd, f"_foreach_{name}")(first, *others[:count], *more, **options) is first
    for one, other in zip(first, expected, strict=True):
        assert one.numpy().tobytes() == other.numpy().tobytes()
        assert one._version == 1


@in_one_test("call", [call for call in CALLS if call not in ("copy", "zero")])
@in_one_test("dtype", ["float32", "float64"])
def test_new_tensors_are_those_of_single_calls(call: str, dtype: str) -> None:
    name, count, more, options = CALLS[call]
    first, *others = lists(getattr(fd, dtype))
    # The first tensor contains both zeros, both infinities and NaN.
    first[0] = fd.tensor([0.0, -0.0, fd.inf, -fd.inf, fd.nan, -1.5, 2.5], dtype=first[0].dtype)
    expected = [one.clone() for one in first]
    for one, *row in zip(expected, *others[:count], strict=True):
        single(name, one, *row, *more, **options)
    before = [one.numpy().tobytes() for one in first]
    found = getattr(fd, f"_foreach_{name[:-1]}")(first, *others[:count], *more, **options)
    assert type(found) is tuple and [one.numpy().tobytes() for one in first] == before
    for one, other in zip(found, expected, strict=True):
        assert one._version == 0 and one.shape == other.shape and one.dtype is other.dtype
        assert one.numpy().tobytes() == other.numpy().tobytes()


@in_one_test("dtype", ["float32", "float64"])
@in_one_test("order", [0, 1, 2, 2.5, "inf", "-inf"])
def test_norms_are_those_of_single_calls(order: Any, dtype: str) -> None:
    given, *_ = lists(getattr(fd, dtype))
    given = [one for one in given if one.numel()]
    given += [fd.linspace(-1, 1, 20_000, dtype=given[0].dtype), given[0] * fd.nan]
    found = fd._foreach_norm(given, float(order))
    for one, tensor in zip(found, given, strict=True):
        expected = fd.linalg.vector_norm(tensor, float(order))
        assert (one.shape, one.dtype) == (expected.shape, expected.dtype)
        assert fd.allclose(one, expected, rtol=1e-6, equal_nan=True)


def test_new_tensors_of_recorded_ones_have_gradients() -> None:
    leaf = fd.ones(2, requires_grad=True)
    added = fd._foreach_add([leaf, leaf * 2], [fd.ones(2), fd.ones(2)])
    sizes = fd._foreach_norm([leaf, leaf * 2])
    (added[0].sum() + sizes[1]).backward()
    assert fd.allclose(leaf.grad, fd.full((2,), 1 + 2**0.5))


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

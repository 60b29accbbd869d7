"""The fast creation functions give the same values, errors and dtypes as the general functions."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import fastdist
from fastdist.overrides import TorchFunctionMode
from fastdist.random_numbers import philox
from tests.properties import in_one_test

x = fastdist.arange(6, dtype=fastdist.float64).reshape(2, 3)
CALLS = {
    "zeros(2, 3)": "zeros(2, 3, device='cpu')",
    "zeros((2, 3))": "zeros((2, 3), device='cpu')",
    "zeros([2, 3], dtype=fastdist.int32)": "zeros([2, 3], dtype=fastdist.int32, device='cpu')",
    "zeros(())": "zeros((), device='cpu')",
    "ones(x.shape)": "ones(x.shape, device='cpu')",
    "ones(2, dtype=fastdist.bool)": "ones(2, dtype=fastdist.bool, device='cpu')",
    "ones(2, dtype=fastdist.bfloat16)": "ones(2, dtype=fastdist.bfloat16, device='cpu')",
    "full((2, 3), 1.5)": "full((2, 3), 1.5, device='cpu')",
    "full((2,), 7)": "full((2,), 7, device='cpu')",
    "full((2,), True)": "full((2,), True, device='cpu')",
    "full((2,), 2.5, dtype=fastdist.float16)": (
        "full((2,), 2.5, dtype=fastdist.float16, device='cpu')"
    ),
    **{
        f"full((2,), {number}, dtype=fastdist.{dtype})": (
            f"full((2,), {number}, dtype=fastdist.{dtype}, device='cpu')"
        )
        for number in ("3", "-70000", "1 << 40", "0.1", "2e9")
        for dtype in ("int64", "float64", "float32", "bfloat16")
    },
    "eye(3)": "eye(3, device='cpu')",
    "eye(0)": "eye(0, device='cpu')",
    "arange(5)": "arange(5, device='cpu')",
    "arange(2, 5)": "arange(2, 5, device='cpu')",
    "arange(0)": "arange(0, device='cpu')",
    "zeros_like(x)": "zeros_like(x, device='cpu')",
    "ones_like(x.t())": "ones_like(x.t(), device='cpu')",
}
FAULTS = (
    "zeros(2.0)",
    "zeros(-1)",
    "zeros('a')",
    "ones(None)",
    "full((2,), 'a')",
    "arange(-3)",
    "eye(-1)",
)


@in_one_test("quick, general", CALLS.items())
def test_a_quick_call_makes_what_the_general_function_makes(quick: str, general: str) -> None:
    made, expected = (eval(f"fastdist.{call}") for call in (quick, general))
    assert made.dtype is expected.dtype
    assert made.shape == expected.shape
    assert made.stride() == expected.stride()
    assert made.tolist() == expected.tolist()


@in_one_test("call", FAULTS)
def test_a_wrong_argument_is_named_as_by_the_general_function(call: str) -> None:
    with pytest.raises((TypeError, RuntimeError)) as quick:
        eval(f"fastdist.{call}")
    with pytest.raises(type(quick.value)) as general:
        eval(f"fastdist.{call[:-1]}, device='cpu')")
    assert str(quick.value) == str(general.value)


def test_the_default_dtype_and_the_chosen_device_count() -> None:
    fastdist.set_default_dtype(fastdist.float64)
    try:
        assert fastdist.zeros(2).dtype is fastdist.float64
        assert fastdist.full((2,), 1.5).dtype is fastdist.float64
    finally:
        fastdist.set_default_dtype(fastdist.float32)
    with fastdist.device("meta"):
        made = [fastdist.zeros(2), fastdist.full((2,), 1.5), fastdist.arange(3)]
    assert {one.device.type for one in made} == {"meta"}


def test_a_mode_is_offered_the_public_function() -> None:
    offered = []

    class Mode(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            offered.append(func)
            return func(*args, **(kwargs or {}))

    with Mode():
        fastdist.zeros(2)
        fastdist.full((2,), 1.0)
        fastdist.arange(3)
        fastdist.ones_like(x)
    assert offered == [fastdist.zeros, fastdist.full, fastdist.arange, fastdist.ones_like]


def test_few_steps_are_spaced_as_by_the_general_function() -> None:
    general: Any = fastdist.linspace.__wrapped__  # type: ignore[attr-defined]
    ends = ((0, 1), (-3.5, 2), (1, 1), (-0.0, 0.0), (1e-14, 3e14), (5, -5))
    for dtype in (fastdist.float32, fastdist.float64):
        fastdist.set_default_dtype(dtype)
        try:
            for (start, end), steps in itertools.product(ends, (2, 3, 8, 77, 512)):
                quick, slow = (
                    make(start, end, steps).numpy() for make in (fastdist.linspace, general)
                )
                assert quick.dtype == slow.dtype and quick.tobytes() == slow.tobytes()
        finally:
            fastdist.set_default_dtype(fastdist.float32)


def test_few_integers_are_those_of_the_general_function() -> None:
    for low, high, shape in ((0, 10, (8, 8)), (-3, 1 << 61, (6,)), (5, 6, (2, 1)), (0, 7, (0, 2))):
        drawn = []
        for how in ({}, {"dtype": fastdist.int64}):  # `dtype` leads to the general path
            fastdist.manual_seed(3)
            drawn.append(fastdist.randint(low, high, shape, **how))
            drawn.append(fastdist.randint(high, shape, **how))
        assert drawn[0].equal(drawn[2]) and drawn[1].equal(drawn[3])
        assert drawn[0].dtype is fastdist.int64 and drawn[0].shape == shape
    for wrong in ((0, 0, (2,)), (3, (-1,)), (0, 3, 2), (1.5, 3, (2,))):
        with pytest.raises((RuntimeError, TypeError, ValueError)):
            fastdist.randint(*wrong)


@in_one_test("n", [1, 2, 8, 256, 257])
def test_few_permuted_numbers_are_those_of_the_general_function(n: int) -> None:
    drawn = []
    for how in ({}, {"dtype": fastdist.int64}):
        fastdist.manual_seed(5)
        drawn.append([fastdist.randperm(n, **how), fastdist.randperm(n, **how), fastdist.rand(3)])
    assert all(one.equal(other) for one, other in zip(*drawn, strict=True))
    assert drawn[0][0].sort().values.equal(fastdist.arange(n))


def test_few_permuted_numbers_are_sorted_by_the_words_of_the_stream() -> None:
    words = philox.words64(7, 11, 9)
    assert philox.permutation(7, 11, 9).tolist() == np.argsort(words).tolist()
    assert philox.permutation(7, 13, 5).tolist() == np.argsort(words[4:]).tolist()


def test_few_coins_are_those_of_the_general_function() -> None:
    chance = fastdist.tensor([[0.0, 0.3, 1.0], [0.5, 0.9, 0.1]])
    drawn = []
    for given in (chance, chance.t().contiguous().t()):
        fastdist.manual_seed(5)
        drawn.append([fastdist.bernoulli(given), fastdist.bernoulli(given), fastdist.rand(3)])
    assert all(one.equal(other) for one, other in zip(*drawn, strict=True))
    assert not fastdist.bernoulli(chance.clone().requires_grad_()).requires_grad
    for wrong in (-0.1, 1.1, math.nan):
        with pytest.raises(RuntimeError, match="expects p to be in"):
            fastdist.bernoulli(fastdist.tensor([0.5, wrong, 0.2]))


def _full(*size: Any, **named: Any) -> fastdist.Tensor:
    return fastdist.full(size[0] if isinstance(size[0], tuple) else size, 3, **named)


@pytest.mark.parametrize("name", ["zeros", "ones", "empty", "full"])
def test_the_device_of_a_cpu_tensor_is_served_also_under_another_default_device(name: str) -> None:
    create = _full if name == "full" else getattr(fastdist, name)
    cpu = fastdist.rand(1).device
    for given in (cpu, "cpu", None):
        made = create((2, 3), dtype=fastdist.int64, device=given)
        assert made.shape == (2, 3) and made.dtype is fastdist.int64 and made.device == cpu
    with fastdist.device("meta"):
        assert create(2, device=cpu).device == cpu
        assert create(2).device.type == create(2, device=None).device.type == "meta"
    assert create(2, device="meta").device.type == "meta"
    with pytest.raises(RuntimeError):
        create(-1, device=cpu)
    assert create(2, dtype=fastdist.float32, device=cpu, requires_grad=True).requires_grad

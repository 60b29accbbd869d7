"""Quick creation: the values, errors and choices of the general functions."""

from __future__ import annotations

from typing import Any

import pytest

import fastdist
from fastdist.overrides import TorchFunctionMode
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
    "arange(5)": "arange(5, device='cpu')",
    "arange(2, 5)": "arange(2, 5, device='cpu')",
    "arange(0)": "arange(0, device='cpu')",
    "zeros_like(x)": "zeros_like(x, device='cpu')",
    "ones_like(x.t())": "ones_like(x.t(), device='cpu')",
}
FAULTS = ("zeros(2.0)", "zeros(-1)", "zeros('a')", "ones(None)", "full((2,), 'a')", "arange(-3)")


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

"""Dtypes for which PyTorch has no kernel: refused in its words, never given another number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fastdist as fd

INTEGERS = fd.tensor([3, 4])
BOOLS = fd.tensor([True, False])
FLOATS = fd.tensor([3.0, 4.0])


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: fd.lerp(FLOATS, FLOATS.double(), 0.5), "expected dtype float for `end` but got d"),
        (lambda: FLOATS.clone().lerp_(INTEGERS, 0.5), "expected dtype float for `end` but got dty"),
        (lambda: fd.lerp(INTEGERS, INTEGERS, 0.5), '"lerp_kernel_scalar" not implemented for \'L'),
        (lambda: fd.addcdiv(INTEGERS, INTEGERS, INTEGERS), "Integer division with addcdiv"),
        (lambda: fd.addcdiv(FLOATS, INTEGERS, BOOLS, value=2), "Integer division with addcdiv"),
        (lambda: INTEGERS.clone().addcdiv_(INTEGERS, INTEGERS), "Integer division with addcdiv"),
        (lambda: fd.addcmul(BOOLS, BOOLS, BOOLS), "\"addcmul_cpu_out\" not implemented for 'Bool'"),
        (lambda: fd.hypot(INTEGERS, INTEGERS), "\"hypot_cpu\" not implemented for 'Long'"),
        (lambda: fd.logaddexp(INTEGERS, BOOLS), "\"logaddexp_cpu\" not implemented for 'Long'"),
        (lambda: fd.logaddexp2(INTEGERS, INTEGERS), '"logaddexp2_cpu" not implemented for'),
        (lambda: fd.nextafter(INTEGERS, INTEGERS), '"nextafter_cpu" not implemented for'),
        (lambda: fd.heaviside(FLOATS, INTEGERS), "heaviside is not yet implemented for tensors"),
        (lambda: fd.nanmean(INTEGERS), r"nanmean\(\): expected input to have floating point"),
        (lambda: fd.nanmean(BOOLS, 0), r"nanmean\(\): expected input to have floating point"),
        (BOOLS.argmax, r"argmax\(\): does not support bool input"),
        (lambda: BOOLS.argmin(0), r"argmin\(\): does not support bool input"),
        (lambda: INTEGERS.add(INTEGERS, alpha=True), "Boolean alpha only supported for Boolean"),
        (
            lambda: INTEGERS.to(fd.uint8).add(INTEGERS.to(fd.uint8), alpha=300),
            "value cannot be converted to type uint8 without overflow",
        ),
    ],
)
def test_dtypes_without_a_kernel_in_pytorch_are_refused_in_its_words(
    call: Callable[[], Any], text: str
) -> None:
    for _ in range(2):  # what was refused is not found as a way that went well
        with pytest.raises(RuntimeError, match=text):
            call()


NUMBERLESS = [
    *("atan2", "hypot", "maximum", "minimum", "fmax", "fmin", "logaddexp", "logaddexp2"),
    *("heaviside", "logical_and", "logical_or", "logical_xor", "gcd", "lcm", "nextafter"),
    *("dist", "igamma", "igammac", "inner"),
]
NO_NUMBER_FIRST = ["eq", "ne", "lt", "le", "gt", "ge", "fmod", "copysign", "rsub", "clamp_min"]


@pytest.mark.parametrize("number", [2, 2.5, True])
@pytest.mark.parametrize("name", NUMBERLESS)
def test_a_number_in_the_place_of_a_tensor_is_refused(name: str, number: float) -> None:
    tensor = INTEGERS if name in ("gcd", "lcm") else FLOATS
    for _ in range(2):  # the first call may leave a short way for the second
        getattr(fd, name)(tensor, tensor)
        with pytest.raises(
            TypeError, match=rf"^{name}\(\): argument '\w+' \(position 2\) must be T"
        ):
            getattr(fd, name)(tensor, number)
        with pytest.raises(TypeError, match=rf"^{name}\(\): argument 'input' \(position 1\) must"):
            getattr(fd, name)(number, tensor)


@pytest.mark.parametrize("name", ["atan2", "hypot", "nextafter", "logical_and"])
def test_a_number_in_the_place_of_a_tensor_is_refused_in_place(name: str) -> None:
    x = FLOATS.clone()
    getattr(x, f"{name}_")(FLOATS)
    with pytest.raises(
        TypeError, match=rf"^{name}_\(\): argument 'other' \(position 2\) must be Ten"
    ):
        getattr(x, f"{name}_")(2.0)


@pytest.mark.parametrize("number", [2, 2.5, True])
@pytest.mark.parametrize("name", NO_NUMBER_FIRST)
def test_a_number_is_refused_first_where_it_may_stand_second(name: str, number: float) -> None:
    getattr(fd, name)(FLOATS, 2)
    with pytest.raises(TypeError, match=rf"^{name}\(\)"):
        getattr(fd, name)(number, FLOATS)


def test_operators_take_a_number_on_either_side() -> None:
    assert (FLOATS < 2).tolist() == [False, False]
    assert (5.0 - FLOATS).tolist() == [2.0, 1.0]
    assert (7 % FLOATS).tolist() == [1.0, 3.0]


@pytest.mark.parametrize("name", ["abs", "floor", "ceil", "round", "trunc", "frac"])
def test_functions_of_numbers_refuse_bool(name: str) -> None:
    with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
        getattr(fd, name)(BOOLS)


@pytest.mark.parametrize(
    "name",
    [
        "selu",
        "celu",
        "silu",
        "mish",
        "softplus",
        "hardsigmoid",
        "hardswish",
        "leaky_relu",
        "logsigmoid",
        "softshrink",
        "hardshrink",
        "gelu",
    ],
)
def test_activations_refuse_integers(name: str) -> None:
    with pytest.raises(NotImplementedError, match="not implemented for 'Long'"):
        getattr(fd.nn.functional, name)(INTEGERS)


@pytest.mark.parametrize("name", ["dot", "vdot", "inner", "matmul"])
def test_products_of_bool_are_refused(name: str) -> None:
    with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
        getattr(fd, name)(BOOLS, BOOLS)


def test_a_floating_operand_beside_an_integer_is_not_refused() -> None:
    assert fd.hypot(FLOATS, INTEGERS).dtype is fd.float32
    assert fd.addcdiv(INTEGERS, FLOATS, INTEGERS).tolist() == [4.0, 5.0]

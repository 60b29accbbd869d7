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


def test_a_floating_operand_beside_an_integer_is_not_refused() -> None:
    assert fd.hypot(FLOATS, INTEGERS).dtype is fd.float32
    assert fd.addcdiv(INTEGERS, FLOATS, INTEGERS).tolist() == [4.0, 5.0]

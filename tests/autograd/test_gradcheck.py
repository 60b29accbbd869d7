"""gradcheck finds derivatives that are wrong, and only those."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist import Tensor
from fastdist.autograd import Function, gradcheck, gradgradcheck


def inputs() -> tuple[Tensor, Tensor]:
    generator = np.random.default_rng(0)
    x = fd.tensor(generator.standard_normal((3, 2)), requires_grad=True)
    return x, fd.tensor(generator.standard_normal((2, 4)), requires_grad=True)


def product(x: Tensor, y: Tensor) -> Tensor:
    return (x @ y).tanh()


class Wrong(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return g * x * 2.5

    @staticmethod
    def jvp(ctx: Any, t: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return t * x * 1.5


@pytest.mark.parametrize("fast_mode", [False, True])
def test_right_derivatives_pass_in_both_modes(fast_mode: bool) -> None:
    assert gradcheck(product, inputs(), check_forward_ad=True, fast_mode=fast_mode)


@pytest.mark.parametrize("fast_mode", [False, True])
def test_wrong_backward_is_found(fast_mode: bool) -> None:
    with pytest.raises(
        RuntimeError, match=r"^Jacobian mismatch for output 0 with respect to input"
    ):
        gradcheck(Wrong.apply, inputs()[0], fast_mode=fast_mode)


def test_wrong_tangent_is_found() -> None:
    assert not gradcheck(
        Wrong.apply,
        inputs()[0],
        check_backward_ad=False,
        check_forward_ad=True,
        raise_exception=False,
    )


def test_second_derivatives_pass_reverse_over_reverse_and_forward_over_reverse() -> None:
    assert gradgradcheck(product, inputs(), check_fwd_over_rev=True)


def test_inputs_without_requires_grad_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"^gradcheck expects at least one input tensor to require"
    ):
        gradcheck(product, (fd.ones(2, 2), fd.ones(2, 2)))


def test_backward_that_differs_from_run_to_run_is_found() -> None:
    calls: list[None] = []

    class Unsteady(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2.0

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            calls.append(None)
            return g * (2.0 + 1e-9 * len(calls))

    with pytest.raises(RuntimeError, match=r"^Backward is not reentrant"):
        gradcheck(Unsteady.apply, inputs()[0])

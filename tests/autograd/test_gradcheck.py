"""gradcheck rejects wrong derivatives and accepts right ones."""

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


def test_batches_of_gradients_are_made_one_after_another() -> None:
    x = fd.tensor([1.0, 2.0], requires_grad=True)
    (g,) = fd.autograd.grad(x * x, x, fd.eye(2), is_grads_batched=True)
    assert g.tolist() == [[2.0, 0.0], [0.0, 4.0]]
    with pytest.raises(RuntimeError, match="needs a gradient for every output"):
        fd.autograd.grad(x * x, x, is_grads_batched=True)


def test_batched_switches_hold_a_backward_that_is_another_for_batches() -> None:
    class Choosy(fd.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: fd.Tensor) -> fd.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: fd.Tensor) -> fd.Tensor:
            return g * (2.0 if type(g) is fd.Tensor else 3.0)

    x = fd.tensor([1.0], dtype=fd.float64, requires_grad=True)
    quick: dict[str, Any] = {"check_undefined_grad": False}
    assert fd.autograd.gradcheck(Choosy.apply, x, **quick)
    with pytest.raises(RuntimeError, match="batched grad of output 0"):
        fd.autograd.gradcheck(Choosy.apply, x, check_batched_grad=True, **quick)


def test_batched_switches_agree_where_derivatives_do() -> None:
    x = fd.tensor([1.0, 2.0], dtype=fd.float64, requires_grad=True)
    assert fd.autograd.gradcheck(
        lambda x: (x.exp(), x.sin() * 2),
        x,
        check_batched_grad=True,
        check_forward_ad=True,
        check_batched_forward_grad=True,
    )


@pytest.mark.parametrize(
    "switches",
    [
        {"check_batched_grad": True, "check_backward_ad": False},
        {"check_batched_forward_grad": True},
    ],
)
def test_batched_switches_need_what_they_batch(switches: dict[str, bool]) -> None:
    x = fd.tensor([1.0], dtype=fd.float64, requires_grad=True)
    assert gradgradcheck(lambda x: x**3, x, check_batched_grad=True)
    with pytest.raises(ValueError, match="requires check_"):
        fd.autograd.gradcheck(lambda x: x * 2, x, **switches)

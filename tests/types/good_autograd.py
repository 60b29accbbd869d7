"""A Function of one's own, gradients of functions, and hooks."""

from __future__ import annotations

from typing import Any, assert_type

import fastdist as torch
from fastdist.autograd import Function


class Cube(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        out: torch.Tensor = 3 * x**2 * grad_outputs[0]
        return out


x = torch.randn(3, requires_grad=True)
y = Cube.apply(x)
(g,) = torch.autograd.grad(y.sum(), x)
x.register_hook(lambda grad: grad * 2)
assert torch.autograd.gradcheck(Cube.apply, (x.double(),))


@torch.no_grad()
def evaluate(x: torch.Tensor) -> torch.Tensor:
    return x * 2


assert_type(evaluate(x), torch.Tensor)

"""User-defined functions, gradients of functions, vmap, and hooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_type

import fastdist as torch
from fastdist import func, nn
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


def loss(x: torch.Tensor, factor: float = 2.0) -> torch.Tensor:
    return (x * factor).sum()


def loss_and_count(x: torch.Tensor, factor: float) -> tuple[torch.Tensor, int]:
    return loss(x, factor), 1


def loss_of_state(state: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    return func.functional_call(layer, state, (x,)).sum()


def of_any(function: Callable[..., Any], primals: tuple[torch.Tensor, ...]) -> None:
    func.jvp(function, primals, primals)
    func.vjp(function, *primals)


layer, state = nn.Linear(3, 1), dict[str, torch.Tensor]()
assert_type(func.grad(loss)(x), torch.Tensor)
assert_type(func.grad(loss)(x, factor=3), torch.Tensor)
assert_type(func.grad(func.grad(torch.sin))(x), torch.Tensor)
assert_type(func.grad(loss_of_state)(state, x), dict[str, torch.Tensor])
assert_type(func.grad(loss_and_count, has_aux=True)(x, 2.0), tuple[Any, int])
assert_type(func.grad(loss, argnums=(0, 1))(x, 2.0), tuple[Any, ...])
assert_type(func.jacrev(torch.sin)(x), torch.Tensor)
assert_type(func.jacfwd(func.jacrev(loss))(x), torch.Tensor)
assert_type(func.hessian(loss)(x, 3.0), torch.Tensor)
assert_type(func.vmap(torch.dot)(x, x), torch.Tensor)
assert_type(func.vmap(func.grad(loss), in_dims=(0, None))(x, 2.0), torch.Tensor)
assert_type(func.vmap(layer)(x), torch.Tensor)
assert_type(func.jvp(torch.sin, (x,), (x,)), tuple[torch.Tensor, torch.Tensor])
assert_type(func.jvp(loss, (x, 2.0), (x, 0.0))[1], torch.Tensor)
assert_type(func.vjp(loss, x)[0], torch.Tensor)
assert_type(func.vjp(layer, x)[1](x), tuple[torch.Tensor])
assert_type(func.linearize(torch.sin, x)[1](x), torch.Tensor)
assert_type(func.functional_call(layer, state, (x,)), torch.Tensor)

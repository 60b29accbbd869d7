"""A transformed function takes the arguments of the original, and modules those of `forward`."""

from __future__ import annotations

import fastdist as torch
from fastdist import func, nn


def loss(x: torch.Tensor, factor: float) -> torch.Tensor:
    return (x * factor).sum()


def both(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x * y


class Scale(nn.Module):
    def forward(self, x: torch.Tensor, factor: float = 1.0) -> torch.Tensor:
        return x * factor


ones, model = torch.ones(1), Scale()
func.vmap(both)(ones)  # error: func.vmap(both)(ones)
func.vmap(both)(ones, "2")  # error: "2"
i: str = func.vmap(both)(ones, ones)  # error: func.vmap
j: str = func.grad(loss)(ones, 2.0)  # error: func.grad
func.jacrev(loss)("1", 2.0)  # error: "1"
k: str = func.jacfwd(loss)(ones, 2.0)  # error: func.jacfwd
func.hessian(loss)(ones)  # error: func.hessian(loss)(ones)
func.vjp(both, ones)  # error: func.vjp(both, ones)
func.jvp(torch.sin, ("1",), (ones,))  # error: func.jvp(torch.sin, ("1",), (ones,))
func.jvp(both, (ones, ones), (ones,))  # error: func.jvp(both, (ones, ones), (ones,))
func.linearize(both, ones)  # error: func.linearize(both, ones)
m: str = func.functional_call(model, {}, (ones,))  # error: func.functional_call
model("1")  # error: "1"
model(ones, factor="2")  # error: "2"
model(ones, 2.0, 3)  # error: 3
model()  # error: model()
n: str = model(ones)  # error: model(ones)
nn.Linear(1, 1)(1)  # error: 1

"""Solve a differential equation and differentiate the solution by the adjoint."""

import torch
from data import fill, random, report
from torchdiffeq import odeint_adjoint

field = fill(torch.nn.Linear(3, 3))


class Field(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = field

    def forward(self, t, y):
        return torch.tanh(self.linear(y)) - t * y


y = odeint_adjoint(Field(), random(2, 3), torch.linspace(0, 1, 4), method="rk4")
y[-1].square().sum().backward()
report(y=y, grad=field.weight.grad)

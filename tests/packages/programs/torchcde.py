"""A controlled differential equation of torchcde along a cubic spline."""

import torch
import torchcde
from data import fill, random, report

field = fill(torch.nn.Linear(4, 4 * 3))
x = random(2, 6, 3).cumsum(1)
coefficients = torchcde.hermite_cubic_coefficients_with_backward_differences(x)
path = torchcde.CubicSpline(coefficients)
z = torchcde.cdeint(
    X=path,
    func=lambda t, z: field(z).tanh().view(2, 4, 3),
    z0=random(2, 4),
    t=path.interval,
    adjoint=False,
    method="rk4",
    options={"step_size": 0.5},
)
z.square().sum().backward()
report(z=z, grad=field.weight.grad, signature=coefficients)

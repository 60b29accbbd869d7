"""Trajectories of torchode's parallel solver, and their gradients."""

import torch
import torchode
from data import fill, random, report

field = fill(torch.nn.Linear(2, 2))
term = torchode.ODETerm(lambda t, y: torch.tanh(field(y)))
method = torchode.Tsit5(term=term)
solver = torchode.AutoDiffAdjoint(method, torchode.IntegralController(1e-6, 1e-6, term=term))
times = torch.linspace(0, 1, 5).repeat(3, 1)
found = solver.solve(torchode.InitialValueProblem(y0=random(3, 2), t_eval=times))
found.ys.square().sum().backward()
report(ys=found.ys, grad=field.weight.grad, status=found.status)

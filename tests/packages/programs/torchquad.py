"""Integrals computed by torchquad, and their gradient with respect to a parameter."""

import torch
from data import report
from torchquad import Boole, GaussLegendre, Simpson, set_up_backend

set_up_backend("torch", data_type="float64", torch_enable_cuda=False)
a = torch.tensor(1.5, dtype=torch.float64, requires_grad=True)


def waves(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(a * x[:, 0]) * x[:, 1]


options = {"integration_domain": [[0, 1], [0, 2]], "backend": "torch"}
rules = ((Simpson, 441), (Boole, 625), (GaussLegendre, 400))
found = [rule().integrate(waves, dim=2, N=points, **options) for rule, points in rules]
sum(found).backward()
report(found=[one.item() for one in found], grad=a.grad)

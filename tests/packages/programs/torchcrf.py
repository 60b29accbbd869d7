"""A conditional random field of pytorch-crf: likelihood, gradients, best paths."""

import torch
from data import fill, random, report
from torchcrf import CRF

model = fill(CRF(4, batch_first=True))
emissions = random(3, 5, 4).requires_grad_()
tags = torch.tensor([[0, 1, 2, 3, 0], [1, 1, 0, 2, 3], [3, 2, 1, 0, 0]])
mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 1, 1, 1, 0]]).bool()
likelihood = model(emissions, tags, mask=mask)
likelihood.backward()
paths = [tag for path in model.decode(emissions, mask) for tag in path]
report(likelihood=likelihood, grad=emissions.grad, moves=model.transitions.grad, paths=paths)

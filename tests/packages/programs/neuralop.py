"""A step of Adam on a Fourier neural operator of neuraloperator."""

import torch
from data import random, report
from neuralop.models import FNO

model = FNO(n_modes=(4, 4), in_channels=1, out_channels=1, hidden_channels=4, n_layers=2)
with torch.no_grad():
    for place, (_, one) in enumerate(sorted(model.named_parameters())):
        drawn = random(*one.shape, seed=place) * 0.1
        one.copy_(drawn if not one.is_complex() else torch.complex(drawn, drawn.flip(0)))
x, y = random(2, 1, 8, 8), random(2, 1, 8, 8, seed=2)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
losses = []
for _ in range(3):
    optimizer.zero_grad()
    loss = (model(x) - y).square().mean()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
report(losses=losses, out=model(x))

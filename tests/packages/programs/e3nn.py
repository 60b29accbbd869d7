"""Train an equivariant tensor product of e3nn, whose code torch.fx writes."""

import torch
from data import fill, random, report
from e3nn import o3

irreps = o3.Irreps("2x0e + 1x1o")
directions = o3.Irreps("0e + 1o")
model = fill(o3.FullyConnectedTensorProduct(irreps, directions, irreps))
inputs = random(5, irreps.dim)
sphere = o3.spherical_harmonics(directions, random(5, 3, seed=2), normalize=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for _ in range(3):
    optimizer.zero_grad()
    loss = model(inputs, sphere).pow(2).mean()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
report(sphere=sphere, losses=losses)

"""Train a graph network with PyTorch Geometric."""

import torch
from data import fill, random, report
from torch_geometric.nn import GCNConv

edges = torch.tensor([[0, 1, 2, 3, 4, 0], [1, 2, 3, 4, 0, 3]])
conv, head = fill(GCNConv(3, 8)), fill(GCNConv(8, 2))
optimizer = torch.optim.Adam([*conv.parameters(), *head.parameters()], lr=1e-2)
labels = torch.tensor([0, 1, 0, 1, 1])
losses = []
for _ in range(3):
    optimizer.zero_grad()
    found = head(torch.relu(conv(random(5, 3), edges)), edges)
    loss = torch.nn.functional.cross_entropy(found, labels)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
report(losses=losses, weight=head.lin.weight)

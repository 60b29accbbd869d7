"""A loop over a DataLoader with an optimiser and a scheduler."""

from __future__ import annotations

from typing import assert_type

import fastdist as torch
from fastdist import nn, optim
from fastdist.utils.data import DataLoader, Dataset, TensorDataset


class Squares(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.tensor([float(index)])
        return x, x**2


model = nn.Linear(1, 1)
optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=2)
for x, y in DataLoader(Squares(), batch_size=2, shuffle=True):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    scheduler.step()
    assert_type(loss, torch.Tensor)
    assert_type(loss.item(), int | float | bool)
losses: list[float] = [loss.item() for loss in [torch.ones(())]]
with torch.no_grad(), torch.autocast("cpu", enabled=False):
    pairs = TensorDataset(torch.randn(4, 1), torch.randn(4, 1))
    assert_type(len(pairs), int)
adam = torch.optim.AdamW([{"params": model.parameters(), "lr": 1e-3}], weight_decay=0.1)

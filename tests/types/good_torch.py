"""In a program with `import torch`, type checkers use fastdist's types."""

from __future__ import annotations

from typing import assert_type

import torch
import torch.distributed.rpc as rpc
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch import Tensor
from torch.distributions import ExpTransform, Normal
from torch.nn.utils.rnn import pad_sequence
from torch.optim.lr_scheduler import StepLR
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.dataset import Dataset

import fastdist


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 1)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.layer(x))


model = Net()
optimizer = optim.SGD(model.parameters(), lr=0.1)
schedule = StepLR(optimizer, 1)
x = torch.randn(8, 2)
assert_type(x, fastdist.Tensor)
assert_type(torch.nn.Linear(1, 1), fastdist.nn.Linear)
samples: Dataset[tuple[Tensor, ...]] = TensorDataset(x, x)
loader = DataLoader(samples, batch_size=2)
model(x).sum().backward()
number: float = F.mse_loss(x, x).item()
found = (pad_sequence([x]), checkpoint, Normal(0.0, 1.0), ExpTransform(), rpc.rpc_sync, loader)

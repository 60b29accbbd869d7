"""Structural pruning of torch-pruning along the dependencies of layers."""

import torch
import torch_pruning as tp
from data import fill, random, report


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8)
        self.second, self.last = torch.nn.Conv2d(8, 8, 3, padding=1), torch.nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.first(x)))
        return self.last((x + self.second(x)).mean((2, 3)))


model = fill(Net()).eval()
x = random(1, 3, 6, 6)
importance = tp.importance.MagnitudeImportance(p=2)
pruner = tp.pruner.MetaPruner(
    model, x, importance=importance, pruning_ratio=0.5, ignored_layers=[model.last]
)
pruner.step()
shapes = [n for p in model.parameters() for n in p.shape]
report(out=model(x), shapes=shapes, macs=tp.utils.count_ops_and_params(model, x))

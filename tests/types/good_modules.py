"""Modules: layers, containers, parameters and state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, assert_type

import fastdist as torch
import fastdist.nn.modules.pooling as pooling
from fastdist import nn
from fastdist.nn.modules.batchnorm import _BatchNorm
from fastdist.nn.modules.loss import MSELoss, _Loss
from fastdist.nn.modules.utils import _pair


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Dropout(0.1))
        self.head = nn.Linear(width, 2, bias=False)
        self.scale = nn.Parameter(torch.ones(1))
        self.blocks = nn.ModuleList([nn.LayerNorm(width) for _ in range(2)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.body(x)
        for block in self.blocks:
            x = block(x)
        out: torch.Tensor = self.head(x) * self.scale
        return out


def call_any(module: nn.Module) -> None:
    assert_type(module(torch.randn(1, 3), mask=None), Any)


net = Net(8)
# A call has the arguments and the result of `forward`; for a plain Module the result is Any.
assert_type(net(torch.randn(1, 3)), torch.Tensor)
assert_type(net.body(torch.randn(1, 3)), Any)
assert_type(net.head(torch.randn(1, 8)), torch.Tensor)
assert_type(net.head.weight, nn.Parameter)
assert_type(net.scale, nn.Parameter)
assert_type(net.parameters(), Iterator[nn.Parameter])
assert_type(net.train().eval(), Net)
assert_type(net.to("cpu"), Net)
net.load_state_dict(net.state_dict())
nn.init.xavier_uniform_(net.head.weight)
nn.utils.clip_grad_norm_(net.parameters(), 1.0)
torch.save(net.state_dict(), "net.pt")
loss: torch.Tensor = nn.CrossEntropyLoss()(net(torch.randn(1, 3)), torch.tensor([1]))
convolution = torch.nn.Conv2d(1, 4, 3, padding=1)
assert_type(convolution.weight, nn.Parameter)
# All import paths of PyTorch's module files lead to the same classes.
assert_type(MSELoss(), nn.MSELoss)
assert_type(nn.modules.container.Sequential(), nn.Sequential)
assert_type(pooling.MaxPool2d(2), nn.MaxPool2d)
assert_type(_pair(3), tuple[Any, ...])
norms: list[type[nn.Module]] = [_BatchNorm, _Loss]
layer = nn.modules.Linear(1, 1)
assert_type(layer, nn.Linear)

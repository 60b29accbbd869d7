"""Models that two processes train with DistributedDataParallel, as PyTorch's users write them.

Both libraries run the same source: `import torch` is PyTorch in one pair of processes, and fastdist
in the other. Each maker of MAKERS runs on both ranks. It returns a function that does one step and
returns the loss of its rank. Weights and data come from NumPy; the data differ between ranks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from .same_numbers import draw

Step = Callable[[], float]


def labels(*shape: int, classes: int) -> Any:
    """Return random classes, which differ between ranks."""
    rng = np.random.default_rng(100 + dist.get_rank())
    return torch.from_numpy(rng.integers(0, classes, shape))


class Block(nn.Module):
    """A transformer block: causal attention and a two-layer MLP, with residual connections."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.into, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.layers = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Any) -> Any:
        """Map (batch, length, width) to the same shape."""
        batch, length, width = x.shape
        parts = self.into(self.first(x)).view(batch, length, 3, self.heads, -1)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.layers(self.second(x))


class Gpt(nn.Module):
    """A small transformer language model with a vocabulary of 512 tokens."""

    def __init__(self, width: int = 128, heads: int = 4, depth: int = 4) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(512, width), nn.Embedding(64, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 512)

    def forward(self, tokens: Any) -> Any:
        """Return scores of shape (batch * length, 512) for tokens of shape (batch, length)."""
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))
        return self.head(self.norm(self.blocks(x))).flatten(0, 1)


class Residual(nn.Module):
    """Two convolutions with a residual connection."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs),
            nn.ReLU(), nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs),
        )  # fmt: skip
        self.short = nn.Sequential()
        if stride > 1:
            short = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.short = nn.Sequential(short, nn.BatchNorm2d(outputs))

    def forward(self, x: Any) -> Any:
        """Return images with `outputs` channels."""
        return (self.layers(x) + self.short(x)).relu()


def resnet_18() -> Any:
    """Return ResNet-18 for 10 classes, with first layers for small images."""
    stages = [(64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)]
    blocks = [
        block
        for inputs, outputs, stride in stages
        for block in (Residual(inputs, outputs, stride), Residual(outputs, outputs, 1))
    ]
    return nn.Sequential(
        nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(), *blocks,
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10),
    )  # fmt: skip


def trainer(model: Any, inputs: Any, target: Any) -> Step:
    """Return a training step of a model, with weights that are the same in both libraries."""
    with torch.no_grad():
        for place, (name, weight) in enumerate(model.named_parameters()):
            if weight.ndim > 1:
                scale = float(np.prod(weight.shape[1:])) ** -0.5
                weight.copy_(draw(*weight.shape, seed=place, scale=scale))
            elif name.endswith("bias"):
                weight.zero_()
    parallel = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step() -> float:
        optimizer.zero_grad()
        loss = F.cross_entropy(parallel(inputs), target)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def mlp_layers() -> Any:
    """Return the layers of an MLP 784-256-256-10."""
    sizes = (nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    return nn.Sequential(*sizes)


def mlp() -> Step:
    """Return steps that train an MLP 784-256-256-10 on 64 images per rank."""
    images = draw(64, 784, seed=50 + dist.get_rank())
    return trainer(mlp_layers(), images, labels(64, classes=10))


def gpt() -> Step:
    """Return steps that train the transformer on 8 texts of 64 tokens per rank."""
    tokens = labels(8, 65, classes=512)
    return trainer(Gpt(), tokens[:, :-1], tokens[:, 1:].reshape(-1))


def resnet() -> Step:
    """Return steps that train ResNet-18 on 4 images of 32 x 32 per rank."""
    images = draw(4, 3, 32, 32, seed=60 + dist.get_rank())
    return trainer(resnet_18(), images, labels(4, classes=10))


def state_bytes(make: Callable[[], Any], is_shared: bool) -> Step:
    """Return a function that does one step of Adam, and returns the size in bytes of the largest
    state of any rank.

    With is_shared, each rank keeps the state of a part of the parameters (ZeRO stage 1).
    """
    model = make()
    if is_shared:
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.001)
    else:
        optimizer = torch.optim.Adam(model.parameters(), lr=0.001)

    def step() -> float:
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
        state = getattr(optimizer, "optim", optimizer).state
        storages = {
            one.untyped_storage().data_ptr(): one.untyped_storage().nbytes()
            for values in state.values()
            for one in values.values()
            if isinstance(one, torch.Tensor)
        }
        most = torch.tensor(sum(storages.values()), dtype=torch.float64)
        dist.all_reduce(most, dist.ReduceOp.MAX)
        return most.item()

    return step


MODELS: dict[str, tuple[Callable[[], Step], Callable[[], Any]]] = {
    "MLP 784-256-256-10": (mlp, mlp_layers),
    "GPT, 4 layers of 128": (gpt, Gpt),
    "ResNet-18": (resnet, resnet_18),
}
MAKERS: dict[str, Callable[[], Step]] = {name: step for name, (step, _) in MODELS.items()}
for name, (_, make) in MODELS.items():
    MAKERS[f"{name}: Adam"] = partial(state_bytes, make, is_shared=False)
    MAKERS[f"{name}: ZeRO-1 of Adam"] = partial(state_bytes, make, is_shared=True)

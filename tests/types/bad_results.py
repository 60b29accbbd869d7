"""The types of results are known, so that using a result as another type is an error."""

from __future__ import annotations

import fastdist as torch
from fastdist import nn

x = torch.randn(2, 3)
a: str = x.item()  # error: x.item()
b: int = x.shape  # error: x.shape
c: float = x.sum()  # error: x.sum()
d: torch.Tensor = x.size(0)  # error: x.size(0)
e: str = x.dtype  # error: x.dtype
f: list[int] = torch.cat([x, x])  # error: torch.cat
g: torch.Tensor = torch.nonzero(x, as_tuple=True)  # error: torch.nonzero
h: bool = x == x  # error: x == x
i: torch.Tensor = torch.equal(x, x)  # error: torch.equal
j: torch.Tensor = x.max(dim=0)  # error: x.max
k: nn.Conv2d = nn.Linear(1, 1)  # error: nn.Linear
x.item().backward()  # error: backward
x.shape.append(3)  # error: append
x.grad.zero_()  # error: zero_
nn.Linear(1, 1).parameters()[0]  # error: nn.Linear
len(x.numel())  # error: x.numel()

"""Methods, operators, indexing, in-place methods, and results with several parts."""

from __future__ import annotations

from typing import assert_type

import numpy as np

import fastdist as torch
from fastdist import Tensor

x, y = torch.randn(3, 4), torch.randn(3, 4)
assert_type(x + y * 2 - 1.0 / x**2, Tensor)
assert_type(2 @ x if x.dim() == 5 else x @ y.T, Tensor)
assert_type(x * np.ones((3, 4)), Tensor)
assert_type(x > 0, Tensor)
assert_type((x > 0) & (y < 1) | ~(x == y), Tensor)
assert_type(-abs(x), Tensor)
assert_type(x[0, 1:, None, ..., y[0] > 0], Tensor)
assert_type(x[[0, 1]], Tensor)
x[0] = 1.0
x[x > 1] = y[x > 1]
assert_type(x.add_(y, alpha=2.0).clamp_(min=0).zero_(), Tensor)
assert_type(x.sum(dim=(0, 1), keepdim=True), Tensor)
assert_type(x.mean(0).exp().softmax(-1), Tensor)
assert_type(x.max(), Tensor)
values, indices = x.max(dim=1)
assert_type(values, Tensor)
assert_type(x.max(1).indices, Tensor)
assert_type(x.topk(2).values, Tensor)
assert_type(x.sort(dim=0, descending=True)[1], Tensor)
assert_type(x.reshape(-1).view(2, 6).permute(1, 0).unsqueeze(0), Tensor)
assert_type(x.split(2), tuple[Tensor, ...])
assert_type(x.allclose(y), bool)
assert_type(x.requires_grad_().backward(torch.ones_like(x)), None)
assert_type(x.grad, Tensor | None)
assert_type([row.norm() for row in x], list[Tensor])
assert_type(float(x[0, 0]) + int(x.numel()) + len(x), float)

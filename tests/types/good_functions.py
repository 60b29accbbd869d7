"""Functions of fastdist and of nn.functional."""

from __future__ import annotations

from typing import assert_type

import fastdist as torch
import fastdist.nn.functional as F
from fastdist import Tensor

x, weight = torch.randn(4, 3), torch.randn(2, 3)
assert_type(torch.cat([x, x], dim=0), Tensor)
assert_type(torch.stack((x, x)), Tensor)
assert_type(torch.where(x > 0, x, 0.0), Tensor)
assert_type(torch.where(x > 0), tuple[Tensor, ...])
assert_type(torch.max(x, x + 1), Tensor)
assert_type(torch.max(x, 1)[0], Tensor)
assert_type(torch.nonzero(x), Tensor)
assert_type(torch.nonzero(x, as_tuple=True), tuple[Tensor, ...])
assert_type(torch.unique(x), Tensor)
assert_type(torch.einsum("ij,kj->ik", x, weight), Tensor)
assert_type(torch.add(x, 2, alpha=3), Tensor)
assert_type(torch.exp(x, out=torch.empty(4, 3)), Tensor)
assert_type(torch.equal(x, x), bool)
assert_type(torch.broadcast_shapes((2, 1), (3,)), torch.Size)
assert_type(torch.meshgrid(x[0], x[1], indexing="ij"), tuple[Tensor, ...])
assert_type(torch.special.expit(x), Tensor)
assert_type(F.linear(x, weight), Tensor)
assert_type(F.relu(x, inplace=True), Tensor)
assert_type(F.gelu(x), Tensor)
assert_type(F.softmax(x, dim=1, dtype=torch.float64), Tensor)
assert_type(F.cross_entropy(x, torch.tensor([0, 1, 2, 0]), reduction="sum"), Tensor)
image = torch.randn(1, 1, 4, 4)
assert_type(F.max_pool2d(image, 2), Tensor)
assert_type(F.max_pool2d(image, 2, return_indices=True), tuple[Tensor, Tensor])
assert_type(F.conv2d(image, torch.randn(1, 1, 3, 3), padding=1), Tensor)
assert_type(torch.linalg.svd(x).S, Tensor)
assert_type(torch.linalg.cholesky(x), Tensor)
assert_type(torch.linalg.matrix_norm(x, 2), Tensor)
assert_type(x.inverse(), Tensor)

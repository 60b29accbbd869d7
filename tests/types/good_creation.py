"""Tensors from sizes and data have typed shapes, dtypes and numbers."""

from __future__ import annotations

from typing import Any, assert_type

import numpy as np

import fastdist as torch

x = torch.randn(2, 3, requires_grad=True)
assert_type(x, torch.Tensor)
assert_type(torch.zeros((2, 3), dtype=torch.float32, device="cpu"), torch.Tensor)
assert_type(torch.randn(2).item(), int | float | bool)
assert_type(x.shape, torch.Size)
assert_type(x.shape[0], int)
assert_type(x.size(), torch.Size)
assert_type(x.size(0), int)
assert_type(x.dtype, torch.dtype)
assert_type(x.device, torch.device)
assert_type(x.detach().numpy(), np.ndarray[Any, Any])
assert_type(torch.from_numpy(np.zeros(3)), torch.Tensor)
assert_type(torch.arange(0, 10, 2).tolist(), Any)
assert_type(torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64).T, torch.Tensor)
assert_type(x.is_floating_point(), bool)
assert_type(torch.pi, float)
generator = torch.Generator().manual_seed(1)
assert_type(torch.rand(3, generator=generator, dtype=torch.float16), torch.Tensor)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
assert_type(torch.full((2, 2), 3.0, device=device).to(torch.long), torch.Tensor)
assert_type(torch.zeros(2, dtype=float).sum(dtype=int), torch.Tensor)
assert_type(torch.arange(np.int64(1), torch.tensor(5)), torch.Tensor)

"""Calls between workers, and a backward pass over them."""

from __future__ import annotations

import fastdist as torch
import fastdist.distributed.autograd as dist_autograd
import fastdist.distributed.rpc as rpc
from fastdist import optim
from fastdist.distributed.optim import DistributedOptimizer

rpc.init_rpc("trainer", rank=0, world_size=2)
x = torch.randn(2, requires_grad=True)
there = rpc.remote("server", torch.add, args=(x, 1))
with dist_autograd.context() as context_id:
    out = rpc.rpc_sync("server", torch.add, args=(x, x))
    future = rpc.rpc_async("server", torch.mul, args=(x, 2), timeout=10.0)
    loss = (out + future.wait() + there.to_here()).sum()
    dist_autograd.backward(context_id, [loss])
    optimizer = DistributedOptimizer(optim.SGD, [there], lr=0.1)
    optimizer.step(context_id)
rpc.shutdown()
if torch.distributed.is_available():
    torch.distributed.rpc.get_worker_info()

"""Calls between workers, and a backward pass over them."""

from __future__ import annotations

from typing import Any, assert_type

import fastdist as torch
import fastdist.distributed.autograd as dist_autograd
import fastdist.distributed.rpc as rpc
from fastdist import nn, optim
from fastdist.distributed.optim import DistributedOptimizer
from fastdist.futures import Future


def length(text: str, times: int = 1) -> int:
    return len(text) * times


def later(seconds: float) -> Future[str]:
    raise NotImplementedError


def shape_of(model: rpc.RRef[nn.Linear], *sizes: int) -> torch.Size:
    return model.to_here().weight.shape


def by_list(arguments: list[str], more: tuple[Any, ...]) -> None:
    rpc.rpc_sync("server", length, args=arguments)
    rpc.rpc_sync("server", length, args=more)
    rpc.rpc_sync("server", length, args=("x", *more))


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
assert_type(rpc.rpc_sync("server", length, args=("x",)), int)
assert_type(rpc.rpc_sync("server", length, ("x", 2)), int)
assert_type(rpc.rpc_sync("server", length, ("x",), {"times": 2}), int)
assert_type(rpc.rpc_sync("server", length, kwargs={"text": "x"}, timeout=3), int)
assert_type(rpc.rpc_sync(0, later, args=(1.0,)), str)
assert_type(rpc.rpc_async(0, later, args=(1,)), Future[str])
assert_type(rpc.rpc_async(0, later, kwargs={"seconds": 1}), Future[str])
assert_type(rpc.rpc_sync("server", torch.zeros, args=((2, 3),)), torch.Tensor)
assert_type(rpc.rpc_sync("server", torch.ones, args=(2, 3)), torch.Tensor)
assert_type(rpc.rpc_sync("server", torch.Tensor.sum, args=(x,)), torch.Tensor)
assert_type(rpc.remote("server", torch.cuda.is_available), rpc.RRef[bool])
model = rpc.remote("server", nn.Linear, args=(2, 3))
assert_type(model, rpc.RRef[nn.Linear])
assert_type(rpc.rpc_sync("server", shape_of, args=(model, 1, 2)), torch.Size)
layers = rpc.remote("server", nn.Sequential, args=(nn.Linear(2, 2), nn.ReLU()))
assert_type(layers, rpc.RRef[nn.Sequential])

"""A remote call takes the arguments of its function, and its result has the function's type."""

from __future__ import annotations

import fastdist as torch
import fastdist.distributed as dist
import fastdist.distributed.autograd as dist_autograd
import fastdist.distributed.rpc as rpc
from fastdist import func, nn
from fastdist.futures import Future


def length(text: str, times: int = 1) -> int:
    return len(text) * times


def loss(x: torch.Tensor, factor: float) -> torch.Tensor:
    return (x * factor).sum()


def later(seconds: float) -> Future[str]:
    raise NotImplementedError


a: str = rpc.rpc_sync("server", length, args=("x",))  # error: rpc.rpc_sync
b: int = rpc.rpc_async("server", length, args=("x",))  # error: rpc.rpc_async
c: str = rpc.rpc_async("server", length, args=("x",)).wait()  # error: rpc.rpc_async
d: str = rpc.remote("server", length, args=("x",)).to_here()  # error: rpc.remote
e: int = rpc.rpc_sync("server", torch.add, args=(torch.ones(1), 1))  # error: rpc.rpc_sync
rpc.rpc_sync("server", "length")  # error: "length"
rpc.rpc_sync("server", length, args=3)  # error: 3
rpc.rpc_sync("server", length, args=("x",), timeout="1")  # error: "1"
rpc.rpc_sync(length)  # error: rpc_sync
rpc.remote("server", length, args=("x",)).to_her()  # error: to_her
rpc.init_rpc(0)  # error: 0
rpc.init_rpc("trainer", rank="0")  # error: "0"
rpc.get_worker_info().nam  # error: nam
rpc.TensorPipeRpcBackendOptions(threads=4)  # error: threads
dist_autograd.backward(roots=[])  # error: backward
dist_autograd.get_gradients("0")  # error: "0"
dist.all_reduce(torch.ones(1), async_op="yes")  # error: "yes"
func.grad(loss)(torch.ones(1))  # error: func.grad(loss)
func.grad(loss)(torch.ones(1), "2")  # error: "2"
f: int = func.vjp(loss, torch.ones(1), 2.0)[0]  # error: func.vjp
g: int = func.jvp(torch.sin, (torch.ones(1),), (torch.ones(1),))[1]  # error: func.jvp
func.hessian(loss, argnums="0")  # error: "0"
ones = torch.ones(1)
rpc.rpc_sync("server", length, args=(1,))  # error: length, args=(1,)
rpc.rpc_sync("server", length, args=("x", "2"))  # error: length, args=("x", "2")
rpc.rpc_sync("server", length, args=("x", 2, 3))  # error: length, args=("x", 2, 3)
rpc.rpc_sync("server", length)  # error: length
rpc.rpc_async("server", length, args=())  # error: length, args=()
rpc.rpc_async("server", later, args=("1",))  # error: later, args=("1",)
h: int = rpc.rpc_async("server", later, args=(1.0,)).wait()  # error: rpc.rpc_async
rpc.rpc_sync("server", torch.add, args=(ones,))  # error: torch.add, args=(ones,)
rpc.rpc_sync("server", torch.mul, args=(ones, "2"))  # error: torch.mul, args=(ones, "2")
rpc.remote("server", nn.Linear, args=("3", 2))  # error: nn.Linear, args=("3", 2)
rpc.remote(0, torch.Tensor.add, args=(ones, "2"))  # error: torch.Tensor.add, args=(ones, "2")
rpc.rpc_sync("server", length, kwargs=["text"])  # error: length, kwargs=["text"]

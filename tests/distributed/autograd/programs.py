"""Functions that workers run in tests of distributed autograd."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

import fastdist
import fastdist.distributed.autograd as da
from fastdist import Tensor
from fastdist.distributed import rpc
from tests.distributed.autograd.on_worker import outside

KINDS = ("sync", "async", "remote")
NOTHING = {"num_current_backward_passes": 0, "num_autograd_contexts": 0}


def wait_for_no_context() -> dict[str, int]:
    """Wait up to five seconds until no context is left, and return the debug information."""
    waiter = threading.Condition()
    with waiter:
        for _ in range(250):
            if da._get_debug_info() == NOTHING:
                break
            waiter.wait(0.02)
    return da._get_debug_info()


def leaf(seed: int, *shape: int) -> Tensor:
    values = np.random.default_rng(seed).standard_normal(shape or (3, 4))
    return fastdist.tensor(values, dtype=fastdist.float64, requires_grad=True)


def mix(a: Tensor, b: Tensor) -> Tensor:
    return (a * b + a.sin()) * b


def sum_times(a: Tensor, b: Tensor) -> Tensor:
    return (a + b) * a.detach()


def mix_at(a: Tensor, b: Tensor, *way: str) -> Tensor:
    """Pass a and b along the workers in `way`; each computes with them, and the last mixes them."""
    if not way:
        return mix(a, b)
    return rpc.rpc_sync(way[0], mix_at, (a * b, b, *way[1:])) + a


def mix_along(a: Tensor, b: Tensor, steps: int) -> Tensor:
    """Compute the same as mix_at along `steps` workers, in one process."""
    return mix(a, b) if not steps else mix_along(a * b, b, steps - 1) + a


def call(kind: str, to: str, function: Callable[..., Any], *args: Any) -> Any:
    if kind == "sync":
        return rpc.rpc_sync(to, function, args)
    if kind == "async":
        return rpc.rpc_async(to, function, args).wait()
    return rpc.remote(to, function, args).to_here()


def first_of(a: Tensor, *others: Tensor) -> Tensor:
    return a * 2


def current_ids() -> tuple[int, int]:
    return da.current_context_id(), da._current_context()._context_id()


def nothing() -> None:
    pass


def identity(x: Any) -> Any:
    return x


def contexts_of(worker: str) -> int:
    return outside(rpc.rpc_sync, worker, da._get_debug_info)["num_autograd_contexts"]


def with_hook(x: Tensor, hook: Callable[[Tensor], Any]) -> Tensor:
    y = x * 2
    y.register_hook(hook)
    return y


def fail(grad: Tensor) -> None:
    raise RuntimeError("Simulate error on backward pass")


_weight: dict[str, Tensor] = {}


def make_weight(seed: int) -> None:
    _weight["w"] = leaf(seed)


def times_weight(x: Tensor) -> Tensor:
    return x * _weight["w"]


def weight_gradient(context_id: int) -> Tensor:
    return da.get_gradients(context_id)[_weight["w"]]


def weight_has_grad() -> bool:
    return _weight["w"].grad is not None


_gate = threading.Event()


def wait_at_gate(grad: Tensor) -> None:
    assert _gate.wait(20)


def open_gate() -> None:
    _gate.set()


def close_gate() -> None:
    _gate.clear()


def close(ours: Tensor, theirs: Tensor | None) -> bool:
    assert theirs is not None
    return bool(np.allclose(ours.numpy(), theirs.detach().numpy(), rtol=1e-12, atol=1e-12))


_seen: list[str] = []


def what_was_seen() -> list[str]:
    return _seen


def clear_seen() -> None:
    _seen.clear()

"""The most common ops on 8x8 float32: without grad, recorded, and with their backward pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.harness import Case, Row, Stopwatch, compare, peer_torch, stopwatch

# Name -> statement, which uses the names of `operands`. Results of statements are dropped.
POINTWISE = {
    "x + y": "x + y",
    "x - y": "x - y",
    "x * y": "x * y",
    "x / y": "x / y",
    "x + row": "x + row",
    "x * row": "x * row",
    "x + 2.0": "x + 2.0",
    "x * 0.5": "x * 0.5",
    "1.0 - x": "1.0 - x",
    "x ** 2": "x ** 2",
    "-x": "-x",
    "exp": "x.exp()",
    "log": "p.log()",
    "sqrt": "p.sqrt()",
    "abs": "x.abs()",
    "tanh": "x.tanh()",
    "sigmoid": "x.sigmoid()",
    "relu": "F.relu(x)",
    "gelu": "F.gelu(x)",
    "clamp(a, b)": "x.clamp(-0.5, 0.5)",
    "clamp(min=a)": "x.clamp(min=0.5)",
    "maximum": "L.maximum(x, y)",
    "where": "L.where(mask, x, y)",
    "masked_fill": "x.masked_fill(mask, 0.0)",
    "lerp": "x.lerp(y, 0.5)",
}
REDUCTIONS = {
    "sum()": "x.sum()",
    "sum(1)": "x.sum(1)",
    "sum(0)": "x.sum(0)",
    "sum(1, keepdim)": "x.sum(1, keepdim=True)",
    "mean()": "x.mean()",
    "mean(1)": "x.mean(1)",
    "max()": "x.max()",
    "max(1)": "x.max(1)",
    "amax(1)": "x.amax(1)",
    "var(1)": "x.var(1)",
    "logsumexp(1)": "x.logsumexp(1)",
    "cumsum(1)": "x.cumsum(1)",
    "norm()": "x.norm()",
}
LAYERS = {
    "x @ y": "x @ y",
    "linear": "F.linear(x, y, row)",
    "softmax": "F.softmax(x, 1)",
    "log_softmax": "F.log_softmax(x, 1)",
    "layer_norm": "F.layer_norm(x, (8,), row, row)",
    "cross_entropy": "F.cross_entropy(x, places)",
    "nll_loss": "F.nll_loss(x, places)",
    "mse_loss": "F.mse_loss(x, y)",
    "embedding": "F.embedding(places, x)",
}
MOVEMENT = {
    "reshape": "x.reshape(4, 16)",
    "reshape(-1)": "x.reshape(-1)",
    "view": "x.view(4, 16)",
    "transpose": "x.transpose(0, 1)",
    "t": "x.t()",
    ".T": "x.T",
    "permute": "x.permute(1, 0)",
    "unsqueeze": "x.unsqueeze(0)",
    "squeeze": "x.squeeze(0)",
    "expand": "x.expand(2, 8, 8)",
    "x[i]": "x[2]",
    "x[i:j]": "x[2:5]",
    "x[:, i]": "x[:, 2]",
    "x[i, j]": "x[2, 3]",
    "x[index]": "x[places]",
    "index_select": "x.index_select(0, places)",
    "gather": "x.gather(1, column)",
    "cat": "L.cat((x, y))",
    "stack": "L.stack((x, y))",
    "split": "x.split(4)",
    "clone": "x.clone()",
    "contiguous": "t.contiguous()",
}
# Ops that have no gradient or are never recorded.
PLAIN = {
    "x > 0": "x > 0",
    "x > y": "x > y",
    "x == y": "x == y",
    "argmax()": "x.argmax()",
    "argmax(1)": "x.argmax(1)",
    "x[mask]": "x[mask]",
    "mask.any()": "mask.any()",
    "add_": "x.add_(y)",
    "add_(alpha)": "x.add_(y, alpha=0.0)",
    "mul_(number)": "x.mul_(1.0)",
    "x[i] = row": "x[2] = row",
    "copy_": "x.copy_(y)",
    "zero_": "z.zero_()",
    "zeros_like": "L.zeros_like(x)",
    "zeros": "L.zeros(8, 8)",
    "ones": "L.ones(8, 8)",
    "arange": "L.arange(8)",
    "randn": "L.randn(8, 8)",
    "tensor(list)": "L.tensor([1.0, 2.0])",
    "tensor(number)": "L.tensor(1.0)",
    "item": "scalar.item()",
    "tolist": "row.tolist()",
    "detach": "x.detach()",
    "to(float64)": "x.to(L.float64)",
    "x.shape": "x.shape",
    "size(0)": "x.size(0)",
    "numpy": "x.numpy()",
}
RECORDED = {**POINTWISE, **REDUCTIONS, **LAYERS, **MOVEMENT}
# Ops with several results, which are not timed with a backward pass.
_SEVERAL = ("max(1)", "split")
TARGET = 1.0


def run(rounds: int) -> list[Row]:
    """Compare each op in three modes; ours against torch."""
    import fastdist

    torch = peer_torch()
    return compare(list(cases(fastdist, torch)), rounds)


def cases(fastdist: Any, torch: Any) -> list[Case]:
    """Return all cases; the three cases of an op are adjacent."""
    made = []
    for name, statement in {**RECORDED, **PLAIN}.items():
        ways = [_case(name, statement, fastdist, torch, False)]
        if name in RECORDED:
            ways.append(_case(name, statement, fastdist, torch, True))
            if name not in _SEVERAL:
                ways.append(_with_backward(name, statement, fastdist, torch))
        made += ways
    return made


def _case(name: str, statement: str, fastdist: Any, torch: Any, grad: bool) -> Case:
    def watch(library: Any) -> Stopwatch:
        return stopwatch(statement, **operands(library, grad))

    peer = watch(torch) if torch else None
    return Case(f"{name}{', grad' if grad else ''}", watch(fastdist), peer, TARGET)


def _with_backward(name: str, statement: str, fastdist: Any, torch: Any) -> Case:
    def watch(library: Any) -> Stopwatch:
        names = operands(library, True)
        function: Callable[[], Any] = eval(f"lambda: {statement}", names)
        g = library.ones_like(function().detach())
        return stopwatch("function().backward(g)", function=function, g=g)

    peer = watch(torch) if torch else None
    return Case(f"{name}, backward", watch(fastdist), peer, TARGET)


def operands(library: Any, grad: bool) -> dict[str, Any]:
    """Return the values of the names in statements; with `grad`, tensors of floats require grad."""
    import numpy as np

    rng = np.random.default_rng(0)

    def tensor(*shape: int) -> Any:
        values = rng.random(shape, dtype=np.float32)
        return library.tensor(values, requires_grad=grad)

    x, y, p, row = tensor(8, 8), tensor(8, 8), tensor(8, 8), tensor(8)
    return {
        "L": library,
        "F": library.nn.functional,
        "x": x,
        "y": y,
        "p": p,
        "row": row,
        "z": library.zeros(8, 8),
        "t": x.detach().t().requires_grad_(grad),
        "mask": library.tensor(rng.random((8, 8)) > 0.5),
        "places": library.tensor(rng.integers(0, 8, 8)),
        "column": library.tensor(rng.integers(0, 8, (8, 1))),
        "scalar": library.tensor(1.5),
    }

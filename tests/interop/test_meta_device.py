"""The meta device against PyTorch's: shapes, dtypes, strides and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fastdist as fd

pytestmark = pytest.mark.interop("torch")


@pytest.fixture(scope="module")
def torch() -> Any:
    """Return PyTorch, imported only after it is known to be installed."""
    import torch

    return torch


# Programs for a library `t` (PyTorch or fastdist). They run on the meta tensors x of shape (2, 3),
# y (3, 4), z (2, 3, 8, 8), and i, which has 4 integers below 2.
PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda t, a: a["x"] + 1,
    "add of a transposed": lambda t, a: a["x"].T + a["x"].T,
    "broadcast": lambda t, a: a["x"] * a["x"][:, :1],
    "compare": lambda t, a: a["x"] > 0,
    "divide integers": lambda t, a: a["i"] / 2,
    "promote": lambda t, a: a["i"] + a["x"][0, 0],
    "matmul": lambda t, a: a["x"] @ a["y"],
    "matmul of transposed": lambda t, a: a["y"].T @ a["x"].T,
    "einsum": lambda t, a: t.einsum("ij,jk->ki", a["x"], a["y"]),
    "sum": lambda t, a: a["x"].sum(1),
    "sum of integers": lambda t, a: a["i"].sum(),
    "mean keepdim": lambda t, a: a["x"].mean(0, keepdim=True),
    "max": lambda t, a: tuple(a["x"].max(1)),
    "argmax": lambda t, a: a["x"].argmax(),
    "sort": lambda t, a: tuple(a["x"].sort(1)),
    "topk": lambda t, a: tuple(a["x"].topk(2)),
    "cumsum": lambda t, a: a["x"].cumsum(0),
    "std": lambda t, a: a["x"].std(),
    "softmax": lambda t, a: a["x"].softmax(1),
    "cat": lambda t, a: t.cat([a["x"], a["x"]], 1),
    "stack": lambda t, a: t.stack([a["x"], a["x"]], 1),
    "split": lambda t, a: a["x"].split(2, 1),
    "chunk": lambda t, a: a["y"].chunk(3),
    "view": lambda t, a: a["z"].view(2, -1),
    "reshape of permuted": lambda t, a: a["z"].permute(0, 2, 3, 1).reshape(2, 64, 3),
    "permute": lambda t, a: a["z"].permute(3, 1, 0, 2),
    "slices": lambda t, a: a["z"][:, 1:, ::2, None, 3],
    "expand": lambda t, a: a["x"][:, None].expand(2, 5, 3),
    "unfold": lambda t, a: a["z"].unfold(2, 3, 2),
    "diagonal": lambda t, a: a["z"].diagonal(0, 2, 3),
    "as_strided": lambda t, a: a["x"].as_strided((2, 2), (1, 2), 1),
    "channels last": lambda t, a: a["z"].to(memory_format=t.channels_last),
    "index": lambda t, a: a["x"][a["i"]],
    "index and slice": lambda t, a: a["z"][:, :, a["i"]],
    "gather": lambda t, a: a["x"].gather(0, a["i"][None, :3]),
    "index_select": lambda t, a: a["x"].index_select(0, a["i"]),
    "scatter": lambda t, a: a["x"].scatter(0, a["i"][None, :3], 1.0),
    "take": lambda t, a: a["x"].take(a["i"]),
    "where": lambda t, a: t.where(a["x"] > 0, a["x"], 0.0),
    "masked_fill": lambda t, a: a["x"].masked_fill(a["x"] > 0, 1.0),
    "tril": lambda t, a: a["x"].tril(),
    "roll": lambda t, a: a["x"].roll(1, 0),
    "flip": lambda t, a: a["x"].flip(1),
    "repeat": lambda t, a: a["x"].repeat(2, 2),
    "to double": lambda t, a: a["x"].double(),
    "to half": lambda t, a: a["x"].T.half(),
    "complex": lambda t, a: t.complex(a["x"], a["x"]),
    "fft": lambda t, a: t.fft.rfft(a["x"]),
    "inverse": lambda t, a: t.linalg.inv(a["y"][:, :3]),
    "svd": lambda t, a: tuple(t.linalg.svd(a["x"], full_matrices=False)),
    "qr": lambda t, a: tuple(t.linalg.qr(a["y"])),
    "norm": lambda t, a: t.linalg.vector_norm(a["x"], dim=1),
    "conv2d": lambda t, a: t.nn.functional.conv2d(a["z"], t.empty(4, 3, 3, 3, device="meta")),
    "max_pool2d": lambda t, a: t.nn.functional.max_pool2d(a["z"], 2),
    "adaptive_avg_pool2d": lambda t, a: t.nn.functional.adaptive_avg_pool2d(a["z"], 1),
    "interpolate": lambda t, a: t.nn.functional.interpolate(a["z"], scale_factor=2.0),
    "pad": lambda t, a: t.nn.functional.pad(a["x"], (1, 2)),
    "one_hot": lambda t, a: t.nn.functional.one_hot(a["i"], 5),
    "layer_norm": lambda t, a: t.nn.functional.layer_norm(a["x"], (3,)),
    "gelu": lambda t, a: t.nn.functional.gelu(a["x"]),
    "cross_entropy": lambda t, a: t.nn.functional.cross_entropy(a["x"], a["i"][:2]),
    "attention": lambda t, a: t.nn.functional.scaled_dot_product_attention(a["z"], a["z"], a["z"]),
    "embedding": lambda t, a: t.nn.functional.embedding(a["i"], a["x"]),
    "zeros_like": lambda t, a: t.zeros_like(a["x"].T),
    "new_ones": lambda t, a: a["x"].new_ones(2, 5),
    "arange": lambda t, a: t.arange(1, 8, 2, device="meta"),
    "linspace": lambda t, a: t.linspace(0, 1, 5, device="meta"),
    "eye": lambda t, a: t.eye(3, device="meta"),
    "randint": lambda t, a: t.randint(0, 3, (2, 2), device="meta"),
    "randperm": lambda t, a: t.randperm(5, device="meta"),
    "full": lambda t, a: t.full((2, 3), True, device="meta"),
    "tensor": lambda t, a: t.tensor([[1, 2], [3, 4]], device="meta"),
    "multinomial": lambda t, a: t.multinomial(a["x"], 2),
    "dropout": lambda t, a: t.nn.functional.dropout(a["x"]),
    "frexp": lambda t, a: tuple(t.frexp(a["x"])),
    "resize_": lambda t, a: t.empty(2, device="meta").resize_(5, 5),
    "out=": lambda t, a: t.add(a["x"], 1, out=t.empty(2, 3, device="meta")),
    "in place": lambda t, a: a["x"].clone().add_(1).mul_(a["x"]).zero_(),
}


def arguments(t: Any) -> dict[str, Any]:
    """Return the meta tensors that programs take."""
    return {
        "x": t.empty(2, 3, device="meta"),
        "y": t.empty(3, 4, device="meta"),
        "z": t.empty(2, 3, 8, 8, device="meta"),
        "i": t.empty(4, dtype=t.int64, device="meta"),
    }


def geometry(result: Any) -> Any:
    """Return the shape, dtype, strides and device of each tensor in a result."""
    if isinstance(result, tuple | list):
        return [geometry(one) for one in result]
    dtype = str(result.dtype).partition(".")[2]
    # The stride of an axis of length 1 is never used.
    steps = [s for n, s in zip(result.shape, result.stride(), strict=True) if n != 1]
    return tuple(result.shape), dtype, steps, str(result.device)


def without_strides(found: Any) -> Any:
    """Return a geometry without strides."""
    return [without_strides(one) for one in found] if isinstance(found, list) else found[:2]


# In PyTorch the results of LAPACK are column-major. In fastdist they are row-major on each device.
BY_ROWS = ("einsum", "inverse", "svd", "qr")


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_have_pytorchs_layouts(torch: Any, name: str) -> None:
    run = PROGRAMS[name]
    ours, theirs = geometry(run(fd, arguments(fd))), geometry(run(torch, arguments(torch)))
    if name in BY_ROWS:
        ours, theirs = without_strides(ours), without_strides(theirs)
    assert ours == theirs


REFUSED: dict[str, Callable[[Any, Any], Any]] = {
    "item": lambda t, a: a["x"][0, 0].item(),
    "tolist": lambda t, a: a["x"].tolist(),
    "numpy": lambda t, a: a["x"].numpy(),
    "bool": lambda t, a: bool(a["x"][0, 0]),
    "float": lambda t, a: float(a["x"][0, 0]),
    "cpu": lambda t, a: a["x"].cpu(),
    "copy_ from": lambda t, a: t.ones(2, 3).copy_(a["x"]),
    "nonzero": lambda t, a: a["x"].nonzero(),
    "unique": lambda t, a: a["x"].unique(),
    "equal": lambda t, a: t.equal(a["x"], a["x"]),
    "bincount": lambda t, a: t.bincount(a["i"]),
    "masked_select": lambda t, a: t.masked_select(a["x"], a["x"] > 0),
    "module": lambda t, a: t.nn.Linear(2, 3, device="meta").to("cpu"),
    "two devices": lambda t, a: a["x"] + t.ones(2, 3),
    "a step that reads values": lambda t, a: t.optim.ASGD(gradients(t)).step(),
}


def gradients(t: Any) -> Any:
    """Return parameters on the meta device with gradients."""
    layer = t.nn.Linear(2, 3, device="meta")
    layer(t.empty(4, 2, device="meta")).sum().backward()
    return list(layer.parameters())


@pytest.mark.parametrize("name", REFUSED)
def test_what_pytorch_refuses_is_refused_with_its_kind_of_error(torch: Any, name: str) -> None:
    with pytest.raises(Exception, match=r"\w") as theirs:
        REFUSED[name](torch, arguments(torch))
    with pytest.raises(Exception, match=r"\w") as ours:
        REFUSED[name](fd, arguments(fd))
    assert isinstance(ours.value, type(theirs.value))


STEPS = ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam"]


@pytest.mark.parametrize("name", STEPS)
def test_steps_keep_pytorchs_state(torch: Any, name: str) -> None:
    states = []
    for t in (fd, torch):
        parameters = gradients(t)
        optimizer = getattr(t.optim, name)(parameters)
        optimizer.step()
        state = optimizer.state[parameters[0]]
        states.append(
            {key: tuple(one.shape) for key, one in state.items() if hasattr(one, "shape")}
        )
        assert parameters[0].is_meta
    assert states[0] == states[1]


def test_text_is_pytorchs(torch: Any) -> None:
    for make in (
        lambda t: t.empty(2, 3, device="meta"),
        lambda t: t.empty((), device="meta", dtype=t.int64),
        lambda t: t.nn.Parameter(t.empty(2, 0, device="meta")),
        lambda t: t.empty(2, device="meta", requires_grad=True) * 2,
        lambda t: t.device("meta"),
        lambda t: t.nn.Linear(2, 3, device="meta"),
    ):
        assert repr(make(fd)).replace("fastdist.", "torch.") == repr(make(torch))

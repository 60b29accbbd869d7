"""Compiling kernels in advance: `fastdist info --warm`."""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TextIO

import fastdist as torch
from fastdist.examples.progress import RedrawnLine
from fastdist.kernels.cpu.rows import small_loops
from fastdist.nn import functional as F
from fastdist.system.cache_directory import cache_directory
from fastdist.system.own_folder import make_own_folder

# Large enough that each kernel is compiled, and small enough to be fast.
_SIDE: Final = 256
# In an image build or a pipe there is no progress bar. Instead, a line is printed after each
# _LINE_EACH calls, or after _LINE_EACH_S seconds.
_LINE_EACH: Final = 10
_LINE_EACH_S: Final = 2.0
_OPTIMIZERS: Final = ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad")
# The expressions' variables: x and y are matrices, and x requires grad; i is a matrix of integers,
# and row is a vector; images, weights and heads are inputs of layers.
_FORWARD_AND_BACKWARD: Final = """
x + y
x - y
x * y
x / y
x + row
x * row
x * 2.0
x + 1.0
1.0 - x
-x
x ** 2
x.exp()
x.log()
x.sqrt()
x.rsqrt()
x.tanh()
x.sigmoid()
x.sin()
x.cos()
x.abs()
x.clamp(0.1, 0.9)
F.relu(x)
F.leaky_relu(x)
F.gelu(x)
F.gelu(x, approximate="tanh")
F.silu(x)
F.softplus(x)
F.elu(x)
F.dropout(x, 0.5)
torch.where(y > 0.5, x, y)
torch.lerp(x, y, 0.5)
torch.addcmul(x, y, y, value=0.5)
x.softmax(-1)
x.log_softmax(-1)
x.sum(0)
x.mean(-1)
x.var(-1)
x.logsumexp(-1)
x.norm()
x.cumsum(1)
F.layer_norm(x, (256,), row, row)
F.cross_entropy(x, i[0])
F.mse_loss(x, y)
F.binary_cross_entropy_with_logits(x, y)
F.embedding(i[:8], x)
x.gather(1, i)
x[i, i]
x @ y
F.conv2d(images, weights, padding=1)
F.max_pool2d(images, 2)
F.avg_pool2d(images, 2)
F.batch_norm(images, None, None, training=True)
F.scaled_dot_product_attention(heads, heads, heads)
F.scaled_dot_product_attention(heads, heads, heads, i[:64, :64] < 200)
F.scaled_dot_product_attention(*[x.view(-1, 32)] * 3)
torch.nn.LSTM(64, 64)(y.view(16, 64, 64))[0]
torch.nn.GRU(64, 64)(y.view(16, 64, 64))[0]
""".strip().splitlines()
# These loops are compiled directly. A call of an op would not wait for them: for rows with few
# numbers it uses NumPy until the loop is compiled.
_SMALL_ROWS: Final = """
small_softmax
small_softmax_gradient
small_log_softmax
small_log_softmax_gradient
small_layer_norm
small_layer_norm_gradient
small_layer_norm_gradients
small_rms_norm
small_rms_norm_gradient
small_scaled_bands
small_cross_entropy_of_all
small_cross_entropy_gradient
""".strip().splitlines()
_FORWARD: Final = """
x > y
x == y
x.detach().clone().add_(y, alpha=0.1)
x.detach().clone().mul_(0.9)
x.detach().clone().scatter_add_(1, i, y)
torch.empty(1 << 20)
torch.randn(256, 256)
torch.rand(256, 256)
i + i
i * i
i == i
x.double() + y.double()
x.double() * y.double()
""".strip().splitlines()


def warm(out: TextIO | None = None) -> str:
    """Compile the kernels that programs commonly need, unless they are cached; return a summary.

    Note    a terminal shows a bar; any other output gets a line at the start, and then after each
            ten calls or two seconds. Call `warm` before any other computation
    """
    out = sys.stderr if out is None else out
    os.environ.pop("FASTDIST_START", None)  # so that each call waits for its kernel
    line, before, start = RedrawnLine(out), _kept(), time.perf_counter()
    steps = list(_steps())
    told = float("-inf")
    for number, (name, call) in enumerate(steps):
        line.draw([f"{number}/{len(steps)}", name], number / len(steps))
        now = time.perf_counter()
        if not line.is_shown and (number % _LINE_EACH == 0 or now - told > _LINE_EACH_S):
            told = now
            out.write(f"{number}/{len(steps)} calls after {now - start:.1f} s\n")
            out.flush()
        call()
    out.write(line.clear())
    out.flush()
    new, seconds = len(_kept() - before), time.perf_counter() - start
    return (
        f"compiled {new} kernels in {seconds:.1f} s, {len(before)} were there: "
        f"{cache_directory() or 'none is cached, as there is no folder: see `fastdist info`'}"
    )


def warm_into(folder: str, out: TextIO | None = None) -> str:
    """Compile the kernels of `warm` into `folder`, which an image can ship, with files that all
    users can read.

    Raises  OSError if the folder is not writable, ForeignFolderError if other users could write to
            it, RuntimeError if this process already uses another cache
    """
    path = Path(folder).absolute()
    make_own_folder(str(path))
    os.environ["FASTDIST_CACHE_DIR"] = str(path)
    os.environ.pop("FASTDIST_SHIPPED_CACHE_DIR", None)
    if cache_directory("numba") != str(path / "numba"):
        raise RuntimeError("this process keeps kernels elsewhere already: start another one")
    done = warm(out)
    for place, _, names in os.walk(path):
        os.chmod(place, 0o755)
        for name in names:
            os.chmod(os.path.join(place, name), 0o644)
    return done


def _kept() -> set[str]:
    """Return the file names of cached kernels: object files, and files that only Numba can load."""
    folder = cache_directory()
    if folder is None:
        return set()
    return {path.name for kind in ("*/*.object", "*/*.nbc") for path in Path(folder).glob(kind)}


def _steps() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield (name, function) pairs, where the function calls the kernels."""
    x, y = (torch.rand(_SIDE, _SIDE) + 0.1 for _ in range(2))
    x.requires_grad_()
    images = torch.rand(8, 16, 32, 32, requires_grad=True)
    names = {
        "torch": torch,
        "F": F,
        "x": x,
        "y": y,
        "i": torch.randint(0, _SIDE, (_SIDE, _SIDE)),
        "row": torch.rand(_SIDE, requires_grad=True),
        "images": images,
        "weights": torch.rand(16, 16, 3, 3, requires_grad=True),
        "heads": torch.rand(4, 8, 64, 64, requires_grad=True),
    }
    for text in _FORWARD_AND_BACKWARD:
        yield text, _evaluated(text, names, with_backward=True)
    for text in _FORWARD:
        yield text, _evaluated(text, names, with_backward=False)
    for name in _SMALL_ROWS:
        yield f"{name} of few numbers", functools.partial(small_loops.compiled, name, "float32")
    for name in _OPTIMIZERS:
        yield f"a step of {name}", _step_of(getattr(torch.optim, name))


def _evaluated(text: str, names: dict[str, Any], *, with_backward: bool) -> Callable[[], Any]:
    def call() -> None:
        result = eval(text, names)
        if with_backward:
            (result * result).sum().backward()

    return call


def _step_of(kind: Any) -> Callable[[], Any]:
    def call() -> None:
        parameter = torch.rand(_SIDE, _SIDE, requires_grad=True)
        parameter.grad = torch.rand(_SIDE, _SIDE)
        kind([parameter], lr=1e-3).step()

    return call

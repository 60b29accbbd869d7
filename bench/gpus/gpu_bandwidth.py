"""Memory-bound GPU ops, compared with a copy; products, compared with cuBLAS; ops against jax."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from bench.gpus.on_gpu import FLOAT_BYTES, Gpu, beside_a_copy
from bench.harness import Amount, Case, Stopwatch, stopwatch

ELEMENTS = 1 << 26  # float32 elements: five times an H200's cache
ROW = 1024
PRODUCTS = (1024, 4096)
# The shares of a copy's bandwidth that ops must reach.
POINTWISE, BROADCAST, ROWS = 0.9, 0.85, 0.8
ALIKE = 1.03
CALL_S = 10e-6


def cases(gpu: Gpu, elements: int = ELEMENTS) -> Iterator[Case]:
    """Yield cases that compare ops in float32 with a copy of the bytes they must read and write."""
    functional = gpu.library.nn.functional
    rows = elements // ROW
    x, y = gpu.tensor(rows, ROW), gpu.tensor(rows, ROW)
    row, column = gpu.tensor(ROW), gpu.tensor(rows, 1)
    heads = gpu.tensor(rows // 64, 8, 8, ROW)

    def case(name: str, work: Callable[[], object], floats: int, share: float) -> Case:
        num_bytes = floats * rows * ROW * FLOAT_BYTES
        return beside_a_copy(f"{name}, {rows} x {ROW}", gpu, work, num_bytes, share)

    yield case("add", lambda: x + y, 3, POINTWISE)
    yield case("relu", x.relu, 2, POINTWISE)
    yield case("gelu", lambda: functional.gelu(x), 2, POINTWISE)
    yield case("add of a row, as a bias", lambda: x + row, 2, BROADCAST)
    yield case("add of a column", lambda: x + column, 2, BROADCAST)
    yield case("transposed copy", lambda: x.t().contiguous(), 2, ROWS)
    yield case("heads to the front", lambda: heads.transpose(1, 2).contiguous(), 2, ROWS)
    yield case("sum of all", x.sum, 1, ROWS)
    yield case("sum of rows", lambda: x.sum(1), 1, ROWS)
    yield case("sum of columns", lambda: x.sum(0), 1, ROWS)
    yield case("max of rows", lambda: x.amax(1), 1, ROWS)
    yield case("softmax of rows", lambda: x.softmax(1), 2, ROWS)
    yield case("layer norm of rows", lambda: functional.layer_norm(x, (ROW,)), 2, ROWS)
    yield case("cumsum of rows", lambda: x.cumsum(1), 2, ROWS)
    # A step reads parameter, gradient and two moments, and writes all but the gradient.
    yield case("step of Adam, foreach", adam_step(gpu, rows), 7, POINTWISE)


def adam_step(gpu: Gpu, rows: int, parts: int = 16) -> Callable[[], object]:
    """Return a step of Adam over rows x ROW elements in `parts` parameters."""
    parameters = [gpu.tensor(rows // parts, ROW, grad=True) for _ in range(parts)]
    for parameter in parameters:
        parameter.grad = gpu.tensor(rows // parts, ROW)
    step: Callable[[], object] = gpu.library.optim.Adam(parameters, lr=1e-3, foreach=True).step
    return step


def small_op(gpu: Gpu) -> Case:
    """Return the case that compares Python's overhead for one small op with a bound."""
    ours = stopwatch("x + y", x=gpu.tensor(8, 8), y=gpu.tensor(8, 8))
    return Case("x + y, 8 x 8, its Python beside 10 us", ours, lambda turns: turns * CALL_S, 1.0)


def products(gpu: Gpu, sizes: tuple[int, ...] = PRODUCTS) -> Iterator[Case]:
    """Yield matrix products, compared with those of CuPy, which uses cuBLAS."""
    cupy = importlib.import_module("cupy")
    for size in sizes:
        x, y = gpu.tensor(size, size), gpu.tensor(size, size)
        # CuPy gets the same numbers, because on zeros a GPU uses less power and runs faster.
        theirs = [cupy.array(one.cpu().numpy()) for one in (x, y)]
        out = cupy.empty((size, size), "float32")
        yield Case(
            f"matmul, {size} x {size}, beside CuPy",
            gpu.stopwatch(partial(x.matmul, y)),
            gpu.stopwatch(partial(cupy.matmul, *theirs, out=out)),
            ALIKE,
            amount=Amount(2 * size**3, "GFLOP/s"),
        )


def beside_jax(gpu: Gpu, size: int = 4096) -> Iterator[Case]:
    """Yield ops on matrices, compared with jax's compiled ops; nothing without jax on a GPU.

    These are wall times, because jax uses another stream.
    """
    try:
        jax = importlib.import_module("jax")
    except ModuleNotFoundError:
        print("no figures beside jax: it is not installed")
        return
    if jax.default_backend() != "gpu":
        print("no figures beside jax: it knows no GPU")
        return
    jax.config.update("jax_default_matmul_precision", "highest")
    x, y = gpu.tensor(size, size), gpu.tensor(size, size)
    theirs = [jax.numpy.asarray(one.cpu().numpy()) for one in (x, y)]
    works: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
        "add": (x.add, lambda x, y: x + y),
        "matmul": (x.matmul, lambda x, y: x @ y),
    }
    for name, (ours, peers) in works.items():
        yield Case(
            f"{name}, {size} x {size}, beside jax",
            _on_the_wall(partial(ours, y), lambda _: gpu.library.cuda.synchronize()),
            _on_the_wall(partial(jax.jit(peers), *theirs), jax.block_until_ready),
        )


def _on_the_wall(work: Callable[[], Any], wait: Callable[[Any], object]) -> Stopwatch:
    def watch(number: int) -> float:
        start = time.perf_counter()
        for _ in range(number):
            made = work()
        wait(made)
        return time.perf_counter() - start

    return watch

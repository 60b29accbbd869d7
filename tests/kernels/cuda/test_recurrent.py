"""CUDA recurrent layers, run on the CPU shim, against the CPU kernels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from fastdist.devices.cuda import CudaBackend
from fastdist.kernels.cuda.nn.recurrent import plan_step, plan_step_back
from tests.fibre_shim.driver import SEEDS, run
from tests.fibre_shim.installed import cuda_on_fibres
from tests.kernels.cuda.cpu_twins import cpu_twins

cpu = cpu_twins("nn.recurrent")

GATES = {"lstm": 4, "gru": 3, "tanh": 1, "relu": 1}
KEPT = {"lstm": 6, "gru": 4, "tanh": 1, "relu": 1}
HIDDEN = 5


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaBackend]:
    yield from cuda_on_fibres(monkeypatch)


def both(backend: CudaBackend, name: str, inputs: list[Any], outs: list[Any], *rest: Any) -> Any:
    """Return the outputs of the CPU kernel and of the CUDA kernel for the same inputs."""
    ours = [np.full(shape, 99, dtype) for shape, dtype in outs]
    getattr(cpu, name)(*inputs, *ours, *rest)
    there = [None if x is None else backend.from_numpy(x, 0) for x in inputs]
    theirs = [backend.empty(shape, np.dtype(dtype), 0) for shape, dtype in outs]
    backend.kernel(f"nn.recurrent.{name}")(*there, *theirs, *rest)
    return ours, [backend.to_numpy(x) for x in theirs]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("cell", GATES)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("stored", ["float32", "float16", "float64"])
def test_twins_agree_there_and_back(
    backend: CudaBackend, cell: str, reverse: bool, stored: str
) -> None:
    sizes, random = (3, 3, 2, 1), np.random.default_rng(0)
    real = "float64" if stored == "float64" else "float32"
    rows, batch, width = sum(sizes), 3, GATES[cell] * HIDDEN
    of_c = batch if cell == "lstm" else 0

    def sample(*shape: int) -> Any:
        return random.standard_normal(shape).astype(real)

    c = sample(batch, HIDDEN) if cell == "lstm" else None
    weight, bias = sample(width, HIDDEN), None if reverse else sample(width)
    steps, last, last_c = (rows, HIDDEN), (batch, HIDDEN), (of_c, HIDDEN)
    kept = ((rows, KEPT[cell] * HIDDEN), real), ((rows, HIDDEN), real)
    tolerance = {"float16": 2e-3, "float32": 1e-5, "float64": 1e-12}[stored]
    found = both(
        backend,
        "sequence",
        [sample(rows, width), sample(batch, HIDDEN), c, weight, bias],
        [(steps, stored), (last, stored), (last_c, stored), *kept],
        *(cell, sizes, reverse),
    )
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)
    *_, saved, before = found[0]
    outs = [
        ((rows, width), stored),
        ((rows if cell == "gru" else 0, width), real),
        (last, stored),
        (last_c, stored),
    ]
    grads = [sample(*steps), sample(*last), sample(*last_c) if of_c else None]
    for g in (grads, [grads[0], None, None], [None, *grads[1:]]):
        back = both(
            backend,
            "sequence_gradient",
            [sample(*last), saved, before, weight, *g],
            outs,
            *(cell, sizes, reverse),
        )
        for one, other in zip(*back, strict=True):
            np.testing.assert_allclose(one, other, rtol=10 * tolerance, atol=10 * tolerance)


@pytest.mark.parametrize("cell", GATES)
def test_a_step_is_the_same_in_any_order_of_threads(cell: str) -> None:
    random, rows, hidden = np.random.default_rng(1), 3, 130
    shapes = {"gates": GATES[cell] * hidden, "saved": KEPT[cell] * hidden}
    gates, product = (random.standard_normal((rows, shapes["gates"])) for _ in range(2))
    results = []
    for seed in SEEDS:
        h, c, before, out = (np.ones((rows, hidden)) for _ in range(4))
        saved = np.empty((rows, shapes["saved"]))
        run(plan_step(gates, product, None, saved, before, h, c, out, cell), seed)
        by_gates, over = np.empty_like(gates), np.empty_like(gates)
        dh, dc = np.ones_like(h), np.ones_like(h)
        run(plan_step_back(out, saved, before, dh, dc, by_gates, over, cell), seed)
        results.append([saved, before, h, c, out, by_gates, dh, dc])
    for other in results[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_a_batch_of_nobody_launches_nothing() -> None:
    empty = np.empty((0, 4))
    assert plan_step(empty, empty, None, empty, empty, empty, empty, empty, "tanh") == []

"""The GPU benchmark runs if there is a GPU; otherwise it reports what is missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.gpus import gpu, gpu_bandwidth, gpu_models, on_gpu
from bench.harness import Amount, compare, table
from fastdist.devices.cuda import CudaBackend
from tests.fibre_shim.installed import cuda_on_fibres

pytestmark = pytest.mark.usefixtures("forks")


ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaBackend]:
    yield from cuda_on_fibres(monkeypatch)


@pytest.mark.one_in(3)
def test_without_a_gpu_one_line_says_so_and_there_are_no_rows(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    done = subprocess.run(
        [sys.executable, "-m", "bench", "gpu", "--json", figures],
        cwd=ROOT,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1].startswith("no figures: cuda")
    (result,) = json.loads(figures.read_text())["results"]
    assert result == {"bench": "gpu", "machine": {}, "rows": []}


def test_every_case_runs_and_is_timed_by_events(backend: CudaBackend) -> None:
    ours = on_gpu.our_gpu()
    found = list(gpu.cases(ours, ours, elements=(64,), products=(4,), mlps=((2, 3),)))
    assert all(case.ours(1) > 0 and case.peer is not None for case in found)
    assert [case.name.partition(",")[0] for case in found] == [
        *("add", "mul", "relu", "tanh", "sum", "backward of tanh (g * partial)"),
        *("matmul", "MLP 784-3-3-10"),
    ]


@pytest.mark.one_in(3)
def test_what_is_held_to_a_copy_moves_as_much_as_the_copy(backend: CudaBackend) -> None:
    ours = on_gpu.our_gpu()
    found = list(gpu_bandwidth.cases(ours, 64 * gpu_bandwidth.ROW))
    found += [gpu_bandwidth.small_op(ours), *gpu_bandwidth.products(ours, (4,))]
    assert all(case.ours(1) > 0 and case.peer is not None and case.peer(1) > 0 for case in found)
    shares = {case.name.partition(",")[0]: round(1 / (case.target or 1), 2) for case in found}
    assert shares["add"] == 0.9 and shares["transposed copy"] == 0.8
    moved = {case.name.partition(",")[0]: case.amount for case in found}
    assert moved["add"] == Amount(3 * 4 * 64 * 1024, "GB/s")


FAST, SLOW = [*gpu_models.MODELS][:2], [*gpu_models.MODELS][2:]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", [*FAST, *[pytest.param(n, marks=pytest.mark.slow) for n in SLOW]])
def test_a_model_trains_on_the_gpu(
    backend: CudaBackend, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_models, "MODELS", {name: gpu_models.MODELS[name]})
    ours = on_gpu.our_gpu()
    found = list(gpu_models.cases(ours, ours, tiny=True))
    assert all(case.ours(1) > 0 and case.peer is not None and case.peer(1) > 0 for case in found)
    assert found[0].target == 1.5


def test_attention_is_timed_whole_and_causal(backend: CudaBackend) -> None:
    ours = on_gpu.our_gpu()
    found = list(gpu_models.attention(ours, ours, sizes=((1, 2, 8, 4),)))
    assert all(case.ours(1) > 0 and case.peer is not None for case in found)
    assert [case.name for case in found] == [
        *("attention, 1x2x8x4", "attention, 1x2x8x4, with backward"),
        *("attention, 1x2x8x4, causal", "attention, 1x2x8x4, causal, with backward"),
    ]


def test_without_jax_one_line_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(gpu_bandwidth.beside_jax(None)) == []  # type: ignore[arg-type]
    assert "no figures beside jax" in capsys.readouterr().out


def test_the_gpu_and_its_versions_are_told(
    backend: CudaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_gpu, "peer_torch", lambda: None)  # tests do not import torch
    facts = gpu.machine()
    assert facts["gpu"] == "fibres" and facts["driver's CUDA"] == "12.8"


def test_a_rate_is_what_was_moved_by_the_time_it_took() -> None:
    case = gpu.Case("copy", lambda n: n * 1e-3, lambda n: n * 2e-3, amount=Amount(8e6, "GB/s"))
    header, line = table(compare([case], rounds=2)).splitlines()
    assert "rate (peer's)" in header and line.endswith("8 GB/s (4)")


def test_an_mlp_step_multiplies_and_adds_as_often_as_its_products() -> None:
    products = [(784, 3), (784, 3), *[(3, 3)] * 3, *[(3, 10)] * 3]
    assert gpu.mlp_flops(5, 3) == sum(2 * 5 * n * m for n, m in products)

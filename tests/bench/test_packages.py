"""Training steps with packages are timed if the packages are installed; missing ones are named."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from bench import harness, package_steps, packages
from bench.distributed.jobs import CHECKED
from bench.distributed.rpc import Couple


def test_each_job_has_a_maker() -> None:
    assert packages.JOBS.keys() == package_steps.MAKERS.keys()
    assert packages.REASONS.keys() <= packages.JOBS.keys()


def test_jobs_without_their_packages_are_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    there = {"transformers", "timm"}
    monkeypatch.setattr(packages, "find_spec", lambda name: name in there)
    assert packages.installed([*packages.JOBS]) == [
        "GPT-2 training step",
        "BERT forward",
        "Llama generate",
    ]
    assert capsys.readouterr().out.splitlines() == [
        "timm ResNet-18 training step is left out: pip install torchvision",
        "GPyTorch fit step is left out: pip install gpytorch",
        "PyG GCN epoch is left out: pip install torch-geometric",
    ]
    there.clear()
    assert packages.run(2) == []


class Side:
    """A stand-in for a worker process: fastdist takes twice as long as torch."""

    losses: float = 1.0

    def __init__(self, library: str, module: str, size: int) -> None:
        assert (module, size) == ("bench.packages", 1)
        self.library = library

    def ask(self, what: str, job: str) -> list[float]:
        assert what == "losses"
        return [1.0, 0.5 if self.library == "torch" else self.losses]

    def stopwatch(self, job: str) -> harness.Stopwatch:
        return lambda number: number * (2e-3 if self.library == "fastdist" else 1e-3)

    def end(self) -> None:
        """Do nothing: no process runs."""


@pytest.fixture
def sides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "Couple", Side)
    monkeypatch.setattr(packages, "find_spec", lambda name: True)
    monkeypatch.setattr(packages, "peer_torch", SimpleNamespace)
    monkeypatch.setattr(packages, "chosen", lambda: "Llama")


@pytest.mark.usefixtures("sides")
def test_a_ratio_above_1_is_explained(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Side, "losses", 0.5)
    (row,) = packages.run(2)
    assert row.ratio is not None and row.ratio.median == pytest.approx(2) and row.missed
    assert capsys.readouterr().out.startswith("Llama generate, above 1: 200 ops a token")


@pytest.mark.usefixtures("sides")
def test_other_numbers_than_the_peers_are_not_timed() -> None:
    with pytest.raises(RuntimeError, match="Llama generate: losses"):
        packages.run(2)


def test_fastdist_under_torchs_name_is_no_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in: Any = SimpleNamespace(__version__="2.13.0+fastdist")
    monkeypatch.setattr(harness.importlib, "import_module", lambda name: stand_in)
    assert harness.peer_torch() is None


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(job, marks=[pytest.mark.packages(module) for module in modules.values()])
        for job, (_, modules) in packages.JOBS.items()
    ],
)
def test_a_step_has_finite_numbers_and_takes_time(job: str) -> None:
    side = Couple("fastdist", "bench.packages", 1)
    try:
        losses = side.ask("losses", job)
        assert len(losses) == CHECKED and all(map(math.isfinite, losses))
        assert side.stopwatch(job)(1) > 0
    finally:
        side.end()

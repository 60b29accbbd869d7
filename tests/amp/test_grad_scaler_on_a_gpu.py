"""GradScaler on a GPU: the number of host waits, and the value of the factor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import fastdist as fd
from fastdist import nn
from fastdist.cuda import CUDAGraph, graph
from tests.fibre_shim.installed import cuda_on_fibres, waits


@pytest.fixture(autouse=True)
def fibres(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    yield from cuda_on_fibres(monkeypatch)


def made(kind: str, device: str, **options: Any) -> tuple[list[Any], Any, Any]:
    weights = [nn.Parameter(fd.ones(n, device=device)) for n in (3, 4, 5)]
    scaler = fd.amp.GradScaler(device, init_scale=8.0, growth_interval=2)
    return weights, getattr(fd.optim, kind)(weights, lr=0.1, **options), scaler


def step(weights: list[Any], optimizer: Any, scaler: Any, factor: float) -> None:
    optimizer.zero_grad()
    scaler.scale(sum([(w * w * factor).sum() for w in weights])).backward()
    scaler.step(optimizer)
    scaler.update()


KINDS = [("Adam", {}), ("AdamW", {}), ("SGD", {}), ("SGD", {"momentum": 0.9}), ("Adagrad", {})]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("is_fused", [True, False])
@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_steps_are_those_of_the_cpu_and_wait_once_at_most(
    kind: str, options: Any, is_fused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = (made(kind, at, fused=is_fused, **options) for at in ("cpu", "cuda"))
    factors = [1.0, float("inf"), 0.5, 2.0, float("nan"), 1.0]
    step(*there, factors[0])
    told = waits(monkeypatch)
    for factor in factors[1:]:
        step(*there, factor)
    assert len(told) == (0 if is_fused else 5), told
    for factor in factors:
        step(*here, factor)
    assert there[2].state_dict() == here[2].state_dict()
    for one, other in zip(here[0], there[0], strict=True):
        assert other.tolist() == pytest.approx(one.tolist(), rel=1e-5)
        for name, value in here[1].state[one].items():
            assert there[1].state[other][name].tolist() == pytest.approx(value.tolist(), rel=1e-5)


def test_a_scaled_step_is_captured() -> None:
    ours, eager = (made("AdamW", "cuda", fused=True, capturable=True) for _ in range(2))
    scale = fd.ones((), device="cuda")

    def scaled(weights: list[Any], optimizer: Any, scaler: Any) -> None:
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(sum([(w * w * scale).sum() for w in weights])).backward()
        scaler.step(optimizer)
        scaler.update()

    scaled(*ours), scaled(*eager)
    captured = CUDAGraph()
    with graph(captured):
        scaled(*ours)
    for number in (1.0, float("inf"), 2.0, 1.0):
        scale.fill_(number)
        captured.replay()
        scaled(*eager)
    assert ours[2].state_dict() == eager[2].state_dict()
    assert [w.tolist() for w in ours[0]] == [w.tolist() for w in eager[0]]


def test_gradients_with_gaps_are_divided_as_others(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = nn.Parameter(fd.ones(3, 4, device="cuda"))
    scaler, optimizer = fd.amp.GradScaler("cuda", init_scale=4.0), fd.optim.SGD([weight])
    scaler.scale(fd.ones((), device="cuda"))
    weight.grad = fd.ones(4, 3, device="cuda").t()
    scaler.unscale_(optimizer)
    assert weight.grad.tolist() == [[0.25] * 4] * 3

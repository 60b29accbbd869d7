"""The models of the benchmark train, and models whose layers are missing are skipped."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import fastdist
from bench import models


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", ["MLP 64", "GPT d 64", "small CNN"])
def test_a_step_changes_every_parameter(name: str) -> None:
    watch, network = models.step(fastdist, models.MODELS[name].build)
    before = [parameter.detach().clone() for parameter in network.parameters()]
    assert watch(1) > 0
    for old, new in zip(before, network.parameters(), strict=True):
        assert not fastdist.equal(old, new)


def test_a_model_whose_layers_are_missing_is_left_out(capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(models, "MODELS", {"net": models.Model(models.mlp(4), 1.0, ("Conv9d",))})
    bare = SimpleNamespace(nn=SimpleNamespace())
    assert list(models.cases(bare, None)) == []
    assert "net is left out: fastdist.nn has no Conv9d" in capsys.readouterr().out

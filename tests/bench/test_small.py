"""Only the chosen cases with few elements are built, and each stage of each case runs."""

from __future__ import annotations

from typing import Any

import pytest

import fastdist
from bench import harness, small


def titles(monkeypatch: pytest.MonkeyPatch, text: str) -> list[str]:
    built: list[Any] = []
    monkeypatch.setattr(harness, "_chosen", text)
    monkeypatch.setattr(small, "_compiled", built.append)
    return [case.name for case in small.cases(fastdist, None)]


def test_no_case_is_built_that_was_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    found = titles(monkeypatch, "softmax 8x64, backward")
    assert found == ["softmax 8x64, backward", "log_softmax 8x64, backward"]


def test_an_op_without_gradients_is_timed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert titles(monkeypatch, "argmax 8x8") == ["argmax 8x8, without grad"]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", small.OPS)
def test_each_stage_of_each_op_runs(name: str) -> None:
    op = small.OPS[name]
    for stage in range(op.order + 2 if op.order else 1):
        small._work(fastdist, op, (8, 8), stage)()

"""Every class of nn has a row, and its outputs, gradients and state equal PyTorch's."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist import nn
from tests.nn.module_rows import FILE, HELD_BY, ROWS, TOLERANCES, measure

TORCH: dict[str, Any] = json.loads(FILE.read_text())
CLASSES = [name for name in nn.__all__ if isinstance(getattr(nn, name), type)]


def test_every_class_has_a_row() -> None:
    called = {model.removeprefix("nn.").partition("(")[0] for model in ROWS}
    missing = sorted(set(CLASSES) - called - HELD_BY.keys())
    assert missing == [], "write a row for each of them in tests/nn/module_rows.py"
    assert sorted((called | HELD_BY.keys()) - set(CLASSES)) == []


@pytest.mark.parametrize("name", HELD_BY)
def test_the_file_that_tests_a_class_without_a_row_uses_it(name: str) -> None:
    text = (Path(__file__).parent / HELD_BY[name]).read_text()
    assert re.search(rf"\b{name}\(", text)


def test_the_results_have_all_rows_and_no_others() -> None:
    assert list(TORCH) == list(ROWS), "run python -m tests.nn.module_rows torch"


@pytest.mark.one_in(5)
@pytest.mark.parametrize("model", ROWS)
def test_a_module_does_what_pytorch_s_does(model: str) -> None:
    found, expected = measure(fd, model, ROWS[model]), TORCH[model]
    assert list(found["state"]) == list(expected["state"])
    assert found["shapes"] == expected["shapes"]
    pairs = [(found[what], expected[what]) for what in ("outputs", "gradients")]
    pairs.append(([*found["state"].values()], [*expected["state"].values()]))
    rtol = TOLERANCES.get(model, 1e-8)
    for ours, theirs in pairs:
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(one, other, rtol=rtol, atol=1e-10)

"""Modules have PyTorch's repr, state and defaults (bench/torch_modules.py)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.torch_modules import CALLS, shown
from fastdist import nn

EXPECTED: dict[str, Any] = json.loads(Path(__file__).with_name("torch_modules.json").read_text())


def test_the_list_has_every_call() -> None:
    assert sorted(EXPECTED) == sorted(set(CALLS.split()))


@pytest.mark.one_in(5)
@pytest.mark.parametrize("call", EXPECTED)
def test_a_module_shows_and_saves_what_pytorch_s_does(call: str) -> None:
    assert shown(nn, call) == EXPECTED[call]
